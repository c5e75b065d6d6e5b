"""`record_completeness`: how many of the required members a record fills."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.record_completeness import SCORER

NAMES: list[JsonValue] = ["a", "b", "c", "d"]
RECORDS: st.SearchStrategy[JsonValue] = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), HOSTILE_JSON
)


def score(answer: JsonValue, required: list[JsonValue]) -> float:
    return number(SCORER, case_of({"required": required}, answer))


@pytest.mark.parametrize(
    ("answer", "required", "value"),
    [
        ({"a": 1, "b": "x"}, ["a", "b"], 1.0),
        ({"a": 1, "b": "x", "z": None}, ["a", "b"], 1.0),
        ({"a": 1}, ["a", "b"], 0.5),
        ({"a": 1}, ["a", "b", "c"], 1 / 3),
        ({}, ["a"], 0.0),
        ({"a": 0}, ["a"], 1.0),
        ({"a": False}, ["a"], 1.0),
        ({"a": None}, ["a"], 0.0),
        ({"a": ""}, ["a"], 0.0),
        ({"a": " \t\n\u00a0"}, ["a"], 0.0),
        ({"a": []}, ["a"], 0.0),
        ({"a": {}}, ["a"], 0.0),
        ({"a": [None]}, ["a"], 1.0),
        ({"a": {"b": ""}}, ["a", "a.b"], 0.5),
        ({"a": {"b": [{"c": 1}]}}, ["a.b.0.c"], 1.0),
        ({"a.b": 1}, ["a.b"], 0.0),
        ([1], ["0"], 0.0),
        ("a", ["a"], 0.0),
        (None, ["a"], 0.0),
    ],
)
def test_the_score_is_the_share_of_required_members_that_are_filled(
    answer: JsonValue, required: list[JsonValue], value: float
) -> None:
    assert score(answer, required) == value


@given(HOSTILE_JSON, st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_any_answer_gets_a_score_between_0_and_1(
    answer: JsonValue, required: list[JsonValue]
) -> None:
    assert 0.0 <= score(answer, required) <= 1.0


@given(RECORDS, st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([0, "x", [1], False]))
def test_filling_a_member_never_lowers_the_score(
    record: JsonObject, name: str, value: JsonValue
) -> None:
    assert score({**record, name: value}, NAMES) >= score(record, NAMES)


@given(RECORDS)
def test_the_shares_of_single_members_add_up(record: JsonObject) -> None:
    singles = [score(record, [name]) for name in NAMES]
    assert set(singles) <= {0.0, 1.0}
    assert score(record, NAMES) == sum(singles) / 4


@given(HOSTILE_JSON)
def test_no_expectation_plays_a_part(expected: JsonValue) -> None:
    case = case_of({"required": ["a"]}, {"a": 1}, expected=expected)
    assert SCORER.score(case) == 1.0
    assert not math.isnan(number(SCORER, case_of({"required": ["a"]}, None, expected=expected)))


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"required": ["a"]}, True),
        ({"field": "record", "required": ["a", "b.c"]}, True),
        ({"field": "record"}, False),
        ({"required": []}, False),
        ({"required": ["a", "a"]}, False),
        ({"required": [""]}, False),
        ({"required": "a"}, False),
        ({"required": ["a"], "expected": "b"}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "record_completeness@1"
    assert not SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
