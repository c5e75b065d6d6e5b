"""`json_schema`: valid or not, against a schema that the template holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, JsonValue
from theatre.scorers.json_schema import SCORER

ROUTE: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["signal", "confidence"],
    "properties": {
        "signal": {"enum": ["HIGH", "MEDIUM", "LOW"]},
        "confidence": {"$ref": "#/$defs/share"},
        "at": {"type": "string", "format": "date-time"},
        "id": {"type": "string", "pattern": "^obs-[0-9]+$"},
    },
    "$defs": {"share": {"type": "number", "minimum": 0, "maximum": 1}},
}
TREE: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
}
GOOD: JsonObject = {"signal": "LOW", "confidence": 0.5}


def score(answer: JsonValue, schema: JsonObject) -> float:
    return number(SCORER, case_of({"schema": schema}, answer))


@pytest.mark.parametrize(
    ("answer", "schema", "value"),
    [
        (GOOD, ROUTE, 1.0),
        ({**GOOD, "at": "2026-05-12T08:14:12Z", "id": "obs-1"}, ROUTE, 1.0),
        ({**GOOD, "at": "yesterday"}, ROUTE, 0.0),
        ({**GOOD, "id": "obs-1\n"}, ROUTE, 0.0),
        ({**GOOD, "confidence": 1.5}, ROUTE, 0.0),
        ({**GOOD, "confidence": True}, ROUTE, 0.0),
        ({**GOOD, "signal": "low"}, ROUTE, 0.0),
        ({**GOOD, "extra": 1}, ROUTE, 0.0),
        ({"signal": "LOW"}, ROUTE, 0.0),
        (None, ROUTE, 0.0),
        ([], {"type": "array", "minItems": 1}, 0.0),
        ([[1], [1.0]], {"uniqueItems": True}, 0.0),
        (None, {"type": "null"}, 1.0),
        (None, {}, 1.0),
        (0.3, {"multipleOf": 0.1}, 1.0),
        ({"left": {"right": {}}}, TREE, 1.0),
        ({"left": {"middle": {}}}, TREE, 0.0),
        (GOOD, {**ROUTE, "$id": "https://example.org/route"}, 1.0),
    ],
)
def test_the_score_is_1_for_a_valid_answer_and_0_for_any_other(
    answer: JsonValue, schema: JsonObject, value: float
) -> None:
    assert score(answer, schema) == value


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "colour"},
        {"pattern": "("},
        {"$ref": "https://example.org/route"},
        {"$ref": "#/$defs/absent"},
        {"$ref": "#"},
        {"properties": {"signal": {"$id": "https://example.org/signal"}}},
    ],
)
@pytest.mark.parametrize("answer", [GOOD, None, [], "x"])
def test_a_schema_that_cannot_be_used_leaves_every_answer_unscored(
    answer: JsonValue, schema: JsonObject
) -> None:
    assert math.isnan(score(answer, schema))


def test_an_answer_that_leads_the_schema_round_in_circles_scores_0() -> None:
    schema: JsonObject = {"properties": {"a": {"$ref": "#/properties/a"}}}
    assert score({"b": 1}, schema) == 1.0
    assert score({"a": 1}, schema) == 0.0


@pytest.mark.parametrize("leaf", [{}, {"middle": 1}])
def test_the_deepest_answer_that_a_construct_may_send_is_judged(leaf: JsonObject) -> None:
    answer: JsonObject = leaf
    for _ in range(MAX_INPUT_DEPTH - 1):
        answer = {"left": answer}
    assert score(answer, TREE) == float(leaf == {})


@given(HOSTILE_JSON, st.sampled_from([ROUTE, TREE, {}, {"uniqueItems": True}, {"type": "object"}]))
def test_any_answer_scores_0_or_1(answer: JsonValue, schema: JsonObject) -> None:
    assert score(answer, schema) in {0.0, 1.0}


@given(st.sampled_from(["HIGH", "MEDIUM", "LOW"]), st.floats(0, 1))
def test_every_answer_of_the_right_shape_scores_1(signal: str, confidence: float) -> None:
    assert score({"signal": signal, "confidence": confidence}, ROUTE) == 1.0


@given(HOSTILE_JSON)
def test_no_expectation_plays_a_part(expected: JsonValue) -> None:
    assert SCORER.score(case_of({"schema": ROUTE}, GOOD, expected=expected)) == 1.0


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"schema": ROUTE}, True),
        ({"field": "route", "schema": {}}, True),
        ({"field": "route"}, False),
        ({"schema": "route.json"}, False),
        ({"schema": True}, False),
        ({"schema": {}, "expected": "a"}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "json_schema@1"
    assert not SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
