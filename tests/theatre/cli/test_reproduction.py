"""What a reproduction is held to be: equal, within the intervals, or another result."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.runs import WRONG, Answer, ScriptedAdapter, episodes, pilot_stage, right
from theatre.cli.reproduce_command import compare_runs
from theatre.engine.canonical_json import JsonObject, JsonValue, sha256_hex
from theatre.engine.oracle_contract import OracleInvocationRequest


def wrong_in(*numbers: int) -> Answer:
    def answer(request: OracleInvocationRequest) -> JsonObject:
        return {**WRONG} if request.input_data["seq"] in numbers else right(request)

    return answer


def made(folder: Path, answer: Answer, *, sample: int = 0, reproduces: str | None = None) -> Path:
    """Run sixty episodes, `sample` of them twice; return the bundle."""
    changes: dict[str, JsonValue] = {"/execution_policy/deterministic_sample": sample}
    stage = pilot_stage(folder, episodes(60), changes=changes, reproduces=reproduces)
    return stage.run(ScriptedAdapter(answer)).bundle


class Runs:
    """Runs that are wrong in some episodes, each made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = cache(self._make)

    def _make(self, wrong: tuple[int, ...], sample: int, reproduces: str | None) -> Path:
        folder = self._folder / sha256_hex(repr((wrong, sample, reproduces)).encode())
        return made(folder, wrong_in(*wrong), sample=sample, reproduces=reproduces)

    def first(self, *wrong: int, sample: int = 0) -> Path:
        return self._made(wrong, sample, None)

    def again(self, *wrong: int, sample: int = 0) -> Path:
        return self._made(wrong, sample, "0a" * 32)


def compared(*bundles: Path) -> dict[str, Any]:
    return compare_runs(*bundles)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


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
    runs: Runs, one: tuple[int, ...], other: tuple[int, ...], sample: int, verdict: str, differ: int
) -> None:
    found = compared(runs.first(*one, sample=sample), runs.again(*other, sample=sample))
    assert (found["verdict"], found["episodes_that_differ"]) == (verdict, differ)
    assert found["results_hash"][0] != found["results_hash"][1] or verdict == "equal"


def test_a_construct_that_answered_otherwise_when_asked_again_is_within(
    runs: Runs, tmp_path: Path
) -> None:
    """It was never shown to be deterministic: its tier says so."""
    known: set[str] = set()

    def wavering(request: OracleInvocationRequest) -> JsonObject:
        again = request.episode_id in known
        known.add(request.episode_id)
        return {**WRONG} if again else wrong_in(1, 2)(request)

    found = compared(made(tmp_path, wavering, sample=10), runs.again(1, 3, sample=10))
    assert found["verdict"] == "within intervals"


def test_a_second_reproduction_shows_whether_a_construct_varies(runs: Runs) -> None:
    run, first, other = runs.first(1, 2), runs.again(1, 3), runs.again(3, 4)
    found = [compared(run, first, second) for second in (first, other, run)]
    assert [one["verdict"] for one in found] == [
        "different",
        "within intervals",
        "within intervals",
    ]
    assert [len({*one["results_hash"]}) for one in found] == [2, 3, 2]


def test_a_score_that_nothing_measured_is_only_itself(runs: Runs) -> None:
    """All wrong: the interval of the composite has no bounds, and another score lies not in it."""
    every = tuple(range(1, 61))
    found = compared(runs.first(*every), runs.again(*every[1:]))
    composite = found["scores"]["composite_score"]
    assert composite["intervals"][0]["low"] is None
    assert (composite["within"], found["verdict"]) == (False, "different")
