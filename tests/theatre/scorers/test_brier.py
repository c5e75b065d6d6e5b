"""`brier`: one minus the squared gap between stated confidence and outcome, exact."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.brier import SCORER

PROBABILITIES = st.floats(0, 1)
PARTS: JsonObject = {"canvas": "pricing", "signal": "LOW"}


def params_with(**own: JsonValue) -> JsonObject:
    return {"expected": "gold:signal", "label": "signal", **own}


def score(answer: JsonValue, expected: JsonValue = "LOW", **own: JsonValue) -> float:
    return number(SCORER, case_of(params_with(**own), answer, expected=expected))


@pytest.mark.parametrize(
    ("confidence", "label", "value"),
    [
        (1, "LOW", 1.0),
        (0, "HIGH", 1.0),
        (1.0, "HIGH", 0.0),
        (0.0, "LOW", 0.0),
        (-0.0, "LOW", 0.0),
        (0.5, "LOW", 0.75),
        (0.5, "HIGH", 0.75),
        (0.7, "LOW", 0.91),
        (0.7, "HIGH", 0.51),
        (0.1, "HIGH", 0.99),
        (0.3, "HIGH", 0.91),
        (5e-324, "HIGH", 1.0),
    ],
)
def test_the_score_is_1_minus_the_squared_gap_on_the_decimal_as_written(
    confidence: float, label: str, value: float
) -> None:
    assert score({"confidence": confidence, "signal": label}) == value


@pytest.mark.parametrize(
    ("answer", "own", "value"),
    [
        ({"sure": {"p": 0.7}, "signal": "LOW"}, {"confidence": "sure.p"}, 0.91),
        ({"p": [0.2, 0.7], "routes": [{"signal": "LOW"}]},
         {"confidence": "p.1", "label": "routes.0.signal"}, 0.91),
    ],
)  # fmt: skip
def test_confidence_and_label_are_paths_below_the_answer(
    answer: JsonValue, own: JsonObject, value: float
) -> None:
    assert score(answer, **own) == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ({**PARTS, "confidence": 0.7}, 0.91),
        ({**PARTS, "signal": "HIGH", "confidence": 0.7}, 0.51),
        ({"signal": "LOW", "confidence": 0.7}, 0.0),
    ],
)
def test_without_a_path_the_answer_is_itself_a_label_of_parts(
    answer: JsonValue, value: float
) -> None:
    case = case_of({"expected": "gold:label"}, answer, expected=PARTS)
    assert SCORER.score(case) == value


@pytest.mark.parametrize(
    "answer", [{}, {"signal": "LOW"}, {"signal": "LOW", "confidence": None}, {"confidence": None}]
)
def test_an_answer_without_confidence_is_undefined(answer: JsonValue) -> None:
    assert SCORER.score(case_of(params_with(), answer, expected="LOW")) is None


@pytest.mark.parametrize(
    "confidence", ["0.7", True, False, -0.1, 1.0000000000000002, 70, math.nan, math.inf, [0.7], {}]
)
def test_what_is_no_probability_scores_0_whatever_the_label(confidence: JsonValue) -> None:
    assert score({"confidence": confidence, "signal": "LOW"}) == 0.0
    assert score({"confidence": confidence, "signal": "HIGH"}) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected", "own"),
    [
        ({"confidence": 0}, "LOW", {}),
        ({"confidence": 0, "signal": "?"}, "LOW", {"classes": ["LOW", "HIGH"]}),
        ({"confidence": 0, "signal": "LOW"}, {"signal": "LOW"}, {}),
        ({"confidence": 0, "signal": {}}, {"signal": "LOW"}, {}),
        (
            {"confidence": 0, "signal": {"signal": "?"}},
            {"signal": "LOW"},
            {"classes": {"signal": ["LOW", "HIGH"]}},
        ),
        ([], "LOW", {}),
        (0.7, "LOW", {}),
    ],
)
def test_confidence_about_nothing_scores_0_even_where_it_is_0(
    answer: JsonValue, expected: JsonValue, own: JsonObject
) -> None:
    assert score(answer, expected, **own) == 0.0


@pytest.mark.parametrize(("expected", "classes"), [({}, None), ("?", ["LOW", "HIGH"])])
@pytest.mark.parametrize("answer", [{"confidence": 1, "signal": "LOW"}, {}, None])
def test_an_expectation_that_is_no_label_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue, classes: JsonValue
) -> None:
    own: JsonObject = {} if classes is None else {"classes": classes}
    assert math.isnan(score(answer, expected, **own))


@given(HOSTILE_JSON, HOSTILE_JSON)
def test_any_answer_is_undefined_or_scores_between_0_and_1(
    answer: JsonValue, label: JsonValue
) -> None:
    for shape in (answer, {"confidence": answer, "signal": label}):
        value = SCORER.score(case_of(params_with(), shape, expected="LOW"))
        assert value is None or 0.0 <= value <= 1.0


@given(confidence=PROBABILITIES, right=st.booleans())
def test_the_score_is_the_nearest_double_of_the_exact_value(
    confidence: float, *, right: bool
) -> None:
    answer: JsonValue = {"confidence": confidence, "signal": "LOW" if right else "HIGH"}
    exact = 1 - (Fraction(repr(confidence)) - right) ** 2
    assert score(answer) == float(exact)


@given(PROBABILITIES, PROBABILITIES)
def test_more_confidence_helps_a_right_label_and_hurts_a_wrong_one(
    one: float, other: float
) -> None:
    low, high = sorted([one, other])
    right = [score({"confidence": p, "signal": "LOW"}) for p in (low, high)]
    wrong = [score({"confidence": p, "signal": "HIGH"}) for p in (low, high)]
    assert right == sorted(right)
    assert wrong == sorted(wrong, reverse=True)


@given(st.integers(0, 20), st.integers(0, 20))
def test_nobody_does_better_on_average_than_by_the_true_share(right: int, other: int) -> None:
    def total(confidence: Fraction) -> Fraction:
        return sum(
            (1 - (confidence - outcome) ** 2 for outcome in [1] * right + [0] * (20 - right)),
            Fraction(0),
        )

    observed = sum(
        score({"confidence": right / 20, "signal": label})
        for label in ["LOW"] * right + ["HIGH"] * (20 - right)
    )
    assert observed == pytest.approx(float(total(Fraction(right, 20))))
    assert total(Fraction(right, 20)) >= total(Fraction(other, 20))


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"expected": "gold:signal"}, True),
        ({"field": "a", "expected": "b", "confidence": "p", "label": "l", "classes": ["x"]}, True),
        ({"field": "confidence"}, False),
        ({"expected": "b", "confidence": 0.7}, False),
        ({"expected": "b", "label": ""}, False),
        ({"expected": "b", "p": "confidence"}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "brier@1"
    assert SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
