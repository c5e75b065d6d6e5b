"""What a construct could reach decides what its certificate is worth, and whether a run goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ISOLATED,
    PILOT,
    ScriptedAdapter,
    checked,
    episodes,
    pilot_stage,
)
from tests.theatre.test_several_attempts import stopping_when
from tests.theatre.test_verify_bundle import ran
from theatre.cli.check_command import check as check_command
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import IsolationLostError, PinMismatchError, RunStoppedError
from theatre.engine.oracle_contract import NOT_ISOLATED, REMOTE, Isolation
from theatre.engine.replay import RunContext

READS_FILES = Isolation(files=False, processes=True, network=True, by="other-user")
READS_MEMORY = Isolation(files=True, processes=False, network=True, by="other-user")
CAP = "construct-not-isolated"


@pytest.mark.parametrize(
    ("isolation", "caps", "findings"),
    [
        (ISOLATED, [], []),
        (REMOTE, [], ["network-open"]),
        (READS_FILES, [CAP], []),
        (READS_MEMORY, [CAP], []),
        (NOT_ISOLATED, [CAP], ["network-open"]),
    ],
    ids=["isolated", "remote", "reads files", "reads memory", "not isolated"],
)
def test_a_construct_that_could_read_the_answers_is_unverified_whatever_it_scores(
    tmp_path: Path, isolation: Isolation, caps: list[str], findings: list[str]
) -> None:
    finished = pilot_stage(tmp_path, episodes(60)).run(ScriptedAdapter(isolation=isolation))
    certificate = finished.document("certificate.json")
    said = cast("list[str]", certificate["caps"])
    assert (
        certificate["isolation"],
        certificate["verification_tier"],
        [cap for cap in said if cap == CAP],
        [one for one in cast("list[str]", certificate["findings"]) if one == "network-open"],
    ) == (isolation.as_document(), "UNVERIFIED" if caps else "BACKTESTED", caps, findings)
    is_consistent(finished.bundle, tmp_path)


def is_consistent(bundle: Path, folder: Path) -> None:
    """Have a bundle read by the check and by verify_bundle.py."""
    assert checked(bundle).failed == ()
    verifier = folder / "verify_bundle.py"
    CliRunner().invoke(check_command, ["--write-verifier", str(verifier)])
    assert ran(verifier, bundle).returncode == 0


def test_the_weakest_construct_of_a_chain_decides(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(3), changes=CHAIN)
    adapters = {
        EASEL: ScriptedAdapter(version=EASEL_VERSION, isolation=READS_MEMORY),
        PILOT: ScriptedAdapter(isolation=REMOTE),
    }
    finished = stage.run(adapters)
    activated = next(one for one in finished.trail if one["event_type"] == "activated")
    assert cast("JsonObject", activated["detail"])["isolation"] == {
        EASEL: READS_MEMORY.as_document(),
        PILOT: REMOTE.as_document(),
    }
    assert finished.document("certificate.json")["isolation"] == {
        "files": True,
        "processes": False,
        "network": False,
        "by": "other-user",
    }
    is_consistent(finished.bundle, tmp_path)


def test_a_run_goes_on_only_under_the_interpreter_that_it_began_with(tmp_path: Path) -> None:
    node: JsonObject = {
        "environment_hash": "ab" * 32,
        "interpreter": "node 0123456789ab",
        "platform": "Linux",
    }

    def under(**changes: str) -> Callable[[RunContext], RunContext]:
        return lambda around: replace(around, environment={**node, **changes})

    stage, began = pilot_stage(tmp_path, episodes(4)), ScriptedAdapter()
    with pytest.raises(RunStoppedError):
        stage.run(
            began, around=lambda context: stopping_when(lambda: bool(began.asked))(under()(context))
        )
    other = ScriptedAdapter()
    with pytest.raises(PinMismatchError, match="run by node 0123456789ab, as when the run began"):
        stage.run(other, around=under(interpreter="node ba9876543210"))
    assert (other.asked, stage.state) == ([], "ACTIVE")
    # A release of ours, or of a library, does not keep a run from its end.
    finished = stage.run(ScriptedAdapter(), around=under(environment_hash="cd" * 32))
    assert finished.document("certificate.json")["scores"] == {"colour": 1, "recall": 1}


@pytest.mark.parametrize("closed", ["files", "processes", "network"])
def test_a_run_goes_on_only_where_its_construct_is_isolated_as_when_it_began(
    tmp_path: Path, closed: str
) -> None:
    stage = pilot_stage(tmp_path, episodes(4))
    began = ScriptedAdapter()
    with pytest.raises(RunStoppedError):
        stage.run(began, around=stopping_when(lambda: bool(began.asked)))
    weaker = ScriptedAdapter(
        isolation=Isolation(
            files=closed != "files",
            processes=closed != "processes",
            network=closed != "network",
            by="other-user",
        )
    )
    with pytest.raises(IsolationLostError, match=f"expected {PILOT} isolated as when the run"):
        stage.run(weaker)
    assert (weaker.asked, stage.state) == ([], "ACTIVE")
    # Another means that closes as much will do.
    finished = stage.run(ScriptedAdapter(isolation=replace(ISOLATED, by="namespaces")))
    assert finished.document("certificate.json")["isolation"] == ISOLATED.as_document()
