"""What a reproduction is held to be: equal, within the intervals, or another result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.theatre.runs import WRONG, Answer, ScriptedAdapter, episodes, pilot_stage, right
from theatre.cli.reproduction import compared
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import OracleInvocationRequest


def wrong_in(*numbers: int) -> Answer:
    def answer(request: OracleInvocationRequest) -> JsonObject:
        return {**WRONG} if request.input_data["seq"] in numbers else right(request)

    return answer


def held(folder: Path, one: Answer, other: Answer, **changes: int) -> dict[str, Any]:
    """Compare a run of sixty episodes with one that reproduces it."""
    named = {f"/execution_policy/{name}": value for name, value in changes.items()}
    run = pilot_stage(folder / "one", episodes(60), changes={**named}).run(ScriptedAdapter(one))
    stage = pilot_stage(
        folder / "other",
        episodes(60),
        changes={**named},
        reproduces=str(run.document("certificate.json")["evidence_bundle_hash"]),
    )
    return compared(run.bundle, stage.run(ScriptedAdapter(other)).bundle)


@pytest.mark.parametrize(
    ("one", "other", "sample", "verdict", "differ"),
    [
        ((1, 2), (1, 2), 0, "equal", 0),
        ((1, 2), (1, 3), 0, "within intervals", 2),
        ((1, 2), (1, 2, 3), 0, "within intervals", 1),
        ((1, 2), (1, 2, 3), 3, "different", 1),
        ((1, 2), tuple(range(1, 31)), 0, "different", 28),
    ],
    ids=["equal", "other episodes", "one more", "one more, deterministic", "far off"],
)
def test_the_verdict_follows_from_hash_and_intervals(
    tmp_path: Path,
    one: tuple[int, ...],
    other: tuple[int, ...],
    sample: int,
    verdict: str,
    differ: int,
) -> None:
    found = held(tmp_path, wrong_in(*one), wrong_in(*other), deterministic_sample=sample)
    assert (found["verdict"], found["episodes_that_differ"]) == (verdict, differ)
    assert found["results_hash"][0] != found["results_hash"][1] or verdict == "equal"


def test_a_construct_that_answered_otherwise_when_asked_again_is_within(tmp_path: Path) -> None:
    """It was never shown to be deterministic: its tier says so."""
    known: set[str] = set()

    def wavering(request: OracleInvocationRequest) -> JsonObject:
        again = request.episode_id in known
        known.add(request.episode_id)
        return {**WRONG} if again else wrong_in(1, 2)(request)

    found = held(tmp_path, wavering, wrong_in(1, 3), deterministic_sample=10)
    assert found["verdict"] == "within intervals"


def test_a_score_that_nothing_measured_is_only_itself(tmp_path: Path) -> None:
    """All wrong: the interval of the composite has no bounds, and another score lies not in it."""
    every = tuple(range(1, 61))
    found = held(tmp_path, wrong_in(*every), wrong_in(*every[1:]))
    composite = found["scores"]["composite_score"]
    assert composite["intervals"][0]["low"] is None
    assert (composite["within"], found["verdict"]) == (False, "different")
