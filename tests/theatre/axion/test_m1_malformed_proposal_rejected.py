"""M1: what is no valid proposal, or breaks an invariant, is denied, and the log says why."""

import copy
import io
import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.theatre.axion.proposed import broken, committed, decided, expected, mind, prepared, world
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.hashing import NO_HASH, Document, hash_json, trace_hash
from theatre.axion.harness.kernel_session import KernelSession
from theatre.axion.interfaces.base import Mode
from theatre.axion.kernel.audit_log import verify_lines
from theatre.axion.kernel.policy_gate import decide
from theatre.engine.canonical_json import sha256_hex

Edit = Callable[[Document], Any]


def raw_decision(data: bytes) -> list[str]:
    decision = decide(data, expected(mind(), world()))
    assert not decision.allowed
    assert decision.proposal_hash == decision.trace_hash == NO_HASH
    assert {witness["data_hash"] for witness in decision.witnesses} == {sha256_hex(data)}
    return [witness["message"] for witness in decision.witnesses]


def proposal_bytes() -> bytes:
    return canonical_bytes(prepared().proposal)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("name", ["honest", "pseudo"])
def test_what_the_agents_propose_is_allowed(name: str, mode: Mode) -> None:
    acting = mind(name, mode)
    proposal = prepared(name, mode).proposal
    decision = decide(canonical_bytes(proposal), expected(acting, world()))
    assert (decision.allowed, decision.witnesses, decision.notes) == (True, (), "")
    assert decision.proposal_hash == hash_json(proposal)
    assert decision.trace_hash == proposal["trace"]["trace_commit"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'{"env"', b'\xef\xbb\xbf{"env"', "byte-order-mark"),
        (b'"tick":0', b'"tick":NaN', "non-finite"),
        (b'"tick":0', b'"tick":1e999', "number-overflow"),
        (b'"tick":0', b'"tick":0,"tick":0', "duplicate-key"),
        (b'"id":"self"', b'"id":"\\ud800"', "lone-surrogate"),
        (b'"0.3"}}', b'"0.3"}', "not-json"),
    ],
)
def test_bytes_that_are_not_strict_json_are_denied(old: bytes, new: bytes, reason: str) -> None:
    data = proposal_bytes()
    assert old in data
    (message,) = raw_decision(data.replace(old, new, 1))
    assert message.startswith(f"{reason}: ")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: p.pop("env"), "the root: expected member env, got an object without it"),
        (lambda p: p.update(note="x"), "/note: expected only "),
        (lambda p: p["env"].update(tick=True), "/env/tick: expected integer, got boolean"),
        (lambda p: p["env"].update(tick="0"), "/env/tick: expected integer, got string"),
        (
            lambda p: p["trace"].update(trace_commit=p["trace"]["trace_commit"] + "\n"),
            "/trace/trace_commit: expected ",
        ),
        (lambda p: p["trace"].update(trace_version="0.2"), "/trace/trace_version: expected one of"),
        (
            lambda p: p["trace"]["causal_claims"][0].update(var="8:F"),
            "/trace/causal_claims/0/var: expected F: and a number, or a name of",
        ),
        (
            lambda p: p["payload"]["plan"].update(steps=[]),
            "/payload/plan/steps: expected at least 1 items, got 0",
        ),
        (
            lambda p: p["interface"].update(mode="mci"),
            "/interface/mode: expected one of full, mci_latent, mci_minimal",
        ),
    ],
)
def test_a_document_that_breaks_the_schema_is_denied(edit: Edit, message: str) -> None:
    proposal = copy.deepcopy(prepared().proposal)
    edit(proposal)
    messages = raw_decision(canonical_bytes(proposal))
    assert any(one.startswith(message) for one in messages), messages


@pytest.mark.parametrize(
    ("edit", "invariants"),
    [
        (lambda p: p["trace"].update(trace_commit="0" * 64), ["I0"]),
        (lambda p: p["trace"]["nodes"][0].update(summary="later"), ["I0"]),
    ],
)
def test_a_trace_that_is_not_what_it_commits_to_is_denied(
    edit: Edit, invariants: list[str]
) -> None:
    proposal = copy.deepcopy(prepared().proposal)
    edit(proposal)
    assert broken(decided(proposal)) == invariants


@pytest.mark.parametrize(
    ("edit", "invariants"),
    [
        (lambda p: p["trace"]["counterfactuals"].pop(), ["I1"]),
        (lambda p: p["trace"]["counterfactuals"][0].update(prob_mass=0.29), ["I1"]),
        (lambda p: p["trace"].pop("factor_snapshot"), ["I3"]),
        (lambda p: p["trace"]["factor_snapshot"].update(factor_digest="0" * 64), ["I3"]),
        (lambda p: p["trace"]["factor_snapshot"].update(dim=9), ["I6"]),
        (lambda p: p["trace"]["factors"].pop(), ["I3", "I6", "I6L"]),
        (lambda p: p["trace"].pop("replay_model"), ["I6"]),
        (lambda p: p["trace"]["replay_model"]["actions"].pop(), ["I6"]),
        (lambda p: p["trace"]["replay_model"]["actions"].__setitem__(1, "MOVE_N"), ["I6"]),
        (lambda p: p["trace"]["replay_model"]["actions"].__setitem__(1, "FLY"), ["I6"]),
        (lambda p: p["trace"]["replay_model"]["params"]["W"][2].pop(), ["I6"]),
        (lambda p: p["trace"]["replay_model"]["params"]["b"].pop(), ["I6"]),
        (lambda p: p["trace"]["factors"].__setitem__(0, 1.00000001), ["I3", "I6", "I6L"]),
        (lambda p: p["trace"]["factors"].__setitem__(0, 0.99), ["I3", "I6L"]),
        (lambda p: p["env"].update(tick=1), ["I2"]),
        (lambda p: p["env"]["self"].update(x=p["env"]["self"]["x"] ^ 1), ["I2"]),
        (lambda p: p["trace"].update(interface_mode="mci_minimal"), ["MODE"]),
        (lambda p: p["trace"].pop("interface_mode"), ["MODE"]),
        (lambda p: p["interface"].update(projection_id="v2_dir_k16"), ["I3", "MODE"]),
        (lambda p: p.update(proposal_type="self_modify"), ["TYPE"]),
        (lambda p: p.update(requested_capabilities=[]), ["SCOPE"]),
    ],
)
def test_each_invariant_names_itself(edit: Edit, invariants: list[str]) -> None:
    proposal = copy.deepcopy(prepared().proposal)
    edit(proposal)
    assert broken(decided(committed(proposal))) == invariants


def test_two_counterfactuals_are_too_few_whatever_their_mass() -> None:
    proposal = copy.deepcopy(prepared().proposal)
    proposal["trace"]["counterfactuals"].pop()
    for one in proposal["trace"]["counterfactuals"]:
        one["prob_mass"] = 0.5
    assert broken(decided(committed(proposal))) == ["I1"]


def test_a_mass_of_exactly_nine_tenths_is_enough() -> None:
    proposal = copy.deepcopy(prepared().proposal)
    for one, mass in zip(proposal["trace"]["counterfactuals"], (0.1, 0.2, 0.6), strict=True):
        one["prob_mass"] = mass
    assert decided(committed(proposal)).allowed


def test_a_denial_is_in_the_log_and_the_chain_goes_on() -> None:
    log = io.BytesIO()
    with closing(KernelSession(log, seed=b"0", watchdog_ms=20_000)) as room:
        made, expectation = prepared().proposal, expected(mind(), world())
        wrong = copy.deepcopy(made)
        wrong["trace"]["trace_version"] = "0.1"
        assert not room.decide(wrong, expectation).allowed
        assert room.decide(made, expectation).allowed
        head = room.log.head
    lines = log.getvalue().splitlines(keepends=True)
    assert verify_lines(lines) == head
    denied, allowed = (json.loads(line) for line in lines[1:])
    assert (denied["event"], denied["kernel_decision"], denied["proposal_hash"]) == (
        "POLICY_DECISION",
        {"verdict": "deny", "notes": "no valid proposal"},
        NO_HASH,
    )
    assert [witness["invariant"] for witness in denied["witnesses"]] == ["SCHEMA"]
    assert (allowed["kernel_decision"]["verdict"], allowed["trace_hash"]) == (
        "allow",
        trace_hash(made["trace"]),
    )
