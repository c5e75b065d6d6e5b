"""`timestamp_order`: how many neighbours in an array of times stand in order."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import format_rfc3339
from theatre.scorers.timestamp_order import SCORER

NOON = datetime(2026, 5, 12, 12, tzinfo=UTC)
OFFSETS = st.lists(st.integers(-3, 3), min_size=2, max_size=12)

ONE, TWO, THREE = "2026-05-12T08:00:01Z", "2026-05-12T08:00:02Z", "2026-05-12T08:00:03Z"


def score(answer: JsonValue) -> float | None:
    return SCORER.score(case_of({"field": "times"}, answer))


def times(offsets: list[int]) -> list[JsonValue]:
    return [format_rfc3339(NOON + timedelta(microseconds=offset)) for offset in offsets]


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ([ONE, TWO, THREE], 1.0),
        ([ONE, ONE], 1.0),
        ([THREE, TWO, ONE], 0.0),
        ([ONE, THREE, TWO], 0.5),
        ([TWO, ONE, THREE, THREE], 2 / 3),
        (["2026-05-12T08:00:01.999999Z", TWO], 1.0),
        (["2026-05-12T08:00:02.000001Z", TWO], 0.0),
        (["2026-05-12T08:00:01.10Z", "2026-05-12T08:00:01.9Z"], 1.0),
        ([ONE, "soon", THREE], 0.0),
        ([ONE, TWO, None], 0.5),
        ([ONE, "2026-05-12T10:00:02+02:00"], 0.0),
        ([ONE, "2026-05-12t08:00:02z"], 0.0),
        ([ONE, "2026-05-12"], 0.0),
        ([ONE, "2026-05-32T08:00:02Z"], 0.0),
        ([ONE, "2026-05-12T24:00:00Z"], 0.0),
        ([1, 2, 3], 0.0),
        (["soon"], 0.0),
        ([None], 0.0),
        (ONE, 0.0),
        ({"0": ONE, "1": TWO}, 0.0),
        (None, 0.0),
    ],
)
def test_the_score_is_the_share_of_neighbours_in_order(answer: JsonValue, value: float) -> None:
    assert score(answer) == value


@pytest.mark.parametrize("answer", [[], [ONE]])
def test_fewer_than_two_times_have_no_order(answer: JsonValue) -> None:
    assert score(answer) is None


@given(OFFSETS)
def test_the_score_counts_the_pairs_of_the_moments_themselves(offsets: list[int]) -> None:
    pairs = [earlier <= later for earlier, later in pairwise(offsets)]
    assert score(times(offsets)) == sum(pairs) / len(pairs)


@given(OFFSETS)
def test_sorting_makes_it_1(offsets: list[int]) -> None:
    assert score(times(sorted(offsets))) == 1.0


@given(st.lists(HOSTILE_JSON, max_size=6) | HOSTILE_JSON)
def test_any_answer_is_undefined_or_scores_between_0_and_1(answer: JsonValue) -> None:
    value = score(answer)
    assert value is None or 0.0 <= value <= 1.0


@given(OFFSETS, st.integers(0, 12))
def test_what_is_no_time_never_raises_the_score(offsets: list[int], place: int) -> None:
    before = times(sorted(offsets))
    after = score([*before[:place], "soon", *before[place:]])
    assert after is not None
    assert after < 1.0


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"field": "times"}, True),
        ({}, False),
        ({"field": "times", "expected": "times"}, False),
        ({"field": "times", "strict": True}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "timestamp_order@1"
    assert not SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
