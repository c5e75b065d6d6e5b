"""`label_accuracy`: right or wrong, also for a label of several parts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.label_accuracy import SCORER

SIGNALS: list[JsonValue] = ["HIGH", "MEDIUM", "LOW"]
PARTS: dict[str, JsonValue] = {"canvas": ["pricing", "trust"], "signal": SIGNALS}
LABELS = st.sampled_from(SIGNALS)


def score(answer: JsonValue, expected: JsonValue, classes: JsonValue = None) -> float:
    params: JsonObject = {"field": "label", "expected": "gold:label"}
    if classes is not None:
        params["classes"] = classes
    return number(SCORER, case_of(params, answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("HIGH", "HIGH", 1.0),
        ("LOW", "HIGH", 0.0),
        ("high", "HIGH", 0.0),
        ("HIGH ", "HIGH", 0.0),
        (["HIGH"], "HIGH", 0.0),
        (None, "HIGH", 0.0),
        (1.0, 1, 1.0),
        (True, 1, 0.0),
        (None, None, 1.0),
        (["a", "b"], ["a", "b"], 1.0),
        (["b", "a"], ["a", "b"], 0.0),
        ({"canvas": "pricing", "signal": "LOW"}, {"canvas": "pricing", "signal": "LOW"}, 1.0),
        ({"canvas": "pricing", "signal": "LOW", "confidence": 0.5}, {"signal": "LOW"}, 1.0),
        ({"canvas": "pricing", "signal": "LOW"}, {"canvas": "trust", "signal": "LOW"}, 0.0),
        ({"canvas": "pricing"}, {"canvas": "pricing", "signal": "LOW"}, 0.0),
        ({"canvas": "pricing"}, {"canvas": "pricing", "signal": None}, 0.0),
        ("pricing", {"canvas": "pricing"}, 0.0),
        ({"label": "HIGH"}, "HIGH", 0.0),
    ],
)
def test_a_label_is_right_where_it_agrees_in_every_part(
    answer: JsonValue, expected: JsonValue, value: float
) -> None:
    assert score(answer, expected) == value


@pytest.mark.parametrize(
    ("answer", "expected", "classes", "value"),
    [
        ("HIGH", "HIGH", SIGNALS, 1.0),
        ("LOW", "HIGH", SIGNALS, 0.0),
        ("URGENT", "HIGH", SIGNALS, 0.0),
        ({"canvas": "trust", "signal": "LOW"}, {"canvas": "trust", "signal": "LOW"}, PARTS, 1.0),
        ({"canvas": "trust", "signal": "?"}, {"canvas": "trust", "signal": "LOW"}, PARTS, 0.0),
        ({"canvas": "trust", "signal": "LOW", "x": 1}, {"signal": "LOW"}, {"signal": SIGNALS}, 1.0),
    ],
)
def test_an_answer_outside_the_classes_is_wrong(
    answer: JsonValue, expected: JsonValue, classes: JsonValue, value: float
) -> None:
    assert score(answer, expected, classes) == value


@pytest.mark.parametrize(
    ("expected", "classes"),
    [
        ({}, None),
        ({}, [{}, "HIGH"]),
        ("URGENT", SIGNALS),
        (None, SIGNALS),
        ({"signal": "HIGH"}, SIGNALS),
        ("HIGH", PARTS),
        ({"signal": "HIGH"}, PARTS),
        ({"canvas": "pricing", "signal": "URGENT"}, PARTS),
        ({"canvas": "pricing", "signal": "LOW", "x": 1}, PARTS),
    ],
)
@pytest.mark.parametrize("answer", ["HIGH", "URGENT", None, {}, {"signal": "HIGH"}])
def test_an_expectation_outside_the_classes_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue, classes: JsonValue
) -> None:
    assert math.isnan(score(answer, expected, classes))


@given(HOSTILE_JSON, LABELS)
def test_any_answer_scores_0_or_1_and_1_only_for_the_label(
    answer: JsonValue, expected: JsonValue
) -> None:
    assert score(answer, expected, SIGNALS) == float(answer == expected)


@given(LABELS, HOSTILE_JSON)
def test_the_label_itself_scores_1_whatever_stands_beside_its_parts(
    label: JsonValue, beside: JsonValue
) -> None:
    assert score(label, label, SIGNALS) == 1.0
    assert score({"signal": label, "beside": beside}, {"signal": label}) == 1.0


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"expected": "gold:canvas"}, True),
        ({"field": "canvas", "expected": "gold:canvas", "classes": SIGNALS}, True),
        ({"expected": "gold:label", "classes": PARTS}, True),
        ({"field": "canvas"}, False),
        ({"expected": "a", "classes": []}, False),
        ({"expected": "a", "classes": ["x", "x"]}, False),
        ({"expected": "a", "classes": {}}, False),
        ({"expected": "a", "classes": {"signal": "HIGH"}}, False),
        ({"expected": "a", "classes": "HIGH"}, False),
        ({"expected": "a", "labels": SIGNALS}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "label_accuracy@1"
    assert SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
