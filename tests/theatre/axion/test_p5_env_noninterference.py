"""Nothing of the world can reach P5-MCI: not by import, not by its document, not by its answer."""

import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.axion.proposed import prepared
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.hashing import Document
from theatre.axion.interfaces.base import Mode
from theatre.axion.kernel.probe_engine import answer, p5_input

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
MADE = prepared(mode=Mode.MCI_MINIMAL)


def closed(proposal: Document) -> Document:
    (nonce,) = MADE.nonces.values()
    return p5_input(proposal, episode_id="7-basic", step=3, nonce=nonce, seed=bytes(32))


def answered(proposal: Document) -> bytes:
    return answer(canonical_bytes(closed(proposal)))


BASELINE = answered(MADE.proposal)


def test_the_baseline_is_a_verdict() -> None:
    assert json.loads(BASELINE)["verdict"] == "PASS"


@given(env=JSON, identity=st.text(max_size=10), payload=JSON, nodes=JSON, others=JSON)
def test_the_answer_does_not_depend_on_anything_but_its_document(
    env: object, identity: str, payload: object, nodes: object, others: object
) -> None:
    proposal: dict[str, Any] = {**MADE.proposal, "env": env, "proposal_id": identity}
    trace = {**proposal["trace"], "nodes": nodes, "counterfactuals": others, "edges": others}
    proposal |= {"payload": payload, "requested_capabilities": others, "trace": trace}
    assert answered(proposal) == BASELINE


class Poison:
    """A world that must not be looked at."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"expected nobody to look at the world, got a look at {name}")


def test_a_world_that_bites_whoever_looks_bites_nobody() -> None:
    proposal = {**MADE.proposal, "env": Poison()}
    assert answered(proposal) == BASELINE


@pytest.mark.parametrize("name", ["env", "state", "nodes", "counterfactuals", "payload"])
def test_a_document_with_room_for_a_world_is_refused(name: str) -> None:
    document = {**closed(MADE.proposal), name: {}}
    assert json.loads(answer(canonical_bytes(document))) == {
        "refused": "expected a closed P5 input, got something else"
    }


def test_a_claim_cannot_carry_more_than_a_claim() -> None:
    document = copy.deepcopy(closed(MADE.proposal))
    document["claims"][0]["env"] = {}
    assert "refused" in json.loads(answer(canonical_bytes(document)))


def test_bytes_that_are_no_document_are_refused_in_one_line() -> None:
    assert json.loads(answer(b"[1, 2")).keys() == {"refused"}


def test_the_process_of_the_probe_never_loads_the_world() -> None:
    program = (
        "import sys, theatre.axion.kernel.probe_engine, theatre.axion.interfaces.mci_minimal\n"
        "print(sorted(n for n in sys.modules if n.startswith('theatre.axion')))"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, check=True
    ).stdout.decode()
    loaded = said.strip().strip("[]").replace("'", "").split(", ")
    parts = {name.split(".")[2] for name in loaded if name.count(".") >= 2}
    assert parts == {"common", "interfaces", "kernel"}
    assert "theatre.axion.interfaces.mci_latent" not in loaded
    assert "theatre.axion.kernel.actuation" not in loaded
