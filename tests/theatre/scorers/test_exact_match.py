"""`exact_match`: equality of canonical JSON, and nothing in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.scorers.scoring_cases import case_of
from theatre.engine.canonical_json import JsonValue, canonical_json, parse_json
from theatre.scorers.exact_match import SCORER

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not 2**53 <= abs(number) < 1e21  # integers that no parser lets in
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text("abé😀", max_size=4), inner, max_size=5)
    ),
    max_leaves=15,
)


def score(answer: JsonValue, expected: JsonValue) -> float | None:
    return SCORER.score(case_of({}, answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        (1, 1, 1.0),
        (1, 1.0, 1.0),
        (0, -0.0, 1.0),
        (1e21, 1e21, 1.0),
        (0.1 + 0.2, 0.3, 0.0),
        (True, 1, 0.0),
        (False, 0, 0.0),
        ("1", 1, 0.0),
        (None, None, 1.0),
        (None, 0, 0.0),
        (None, "", 0.0),
        ("é", "é", 1.0),
        ("é", "e\u0301", 0.0),
        ([], {}, 0.0),
        ([1, 2], [1, 2], 1.0),
        ([2, 1], [1, 2], 0.0),
        ([1, 2, 2], [1, 2], 0.0),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, 1.0),
        ({"a": 1, "b": None}, {"a": 1}, 0.0),
        ({}, {"a": 1}, 0.0),
    ],
)
def test_the_score_is_1_for_the_same_json_value_and_0_for_any_other(
    answer: JsonValue, expected: JsonValue, value: float
) -> None:
    assert score(answer, expected) == value


@given(JSON)
def test_a_value_that_went_over_the_wire_still_matches(value: JsonValue) -> None:
    assert score(parse_json(canonical_json(value).encode()), value) == 1.0


@given(JSON, JSON)
def test_the_score_is_0_or_1_and_the_same_in_both_directions(
    one: JsonValue, other: JsonValue
) -> None:
    assert score(one, other) == score(other, one)
    assert score(one, other) in {0.0, 1.0}


@pytest.mark.parametrize(
    "impossible",
    [float("nan"), float("inf"), 2**53, pytest.param(10**5000, id="huge"), "\ud800", {"\ud800": 1}],
)
def test_a_value_without_canonical_form_matches_nothing(impossible: JsonValue) -> None:
    assert score([impossible], [impossible]) == 0.0


def test_no_parameters_but_the_two_paths_are_known() -> None:
    assert SCORER.pin == "exact_match@1"
    assert SCORER.params_schema == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": [],
        "properties": {
            "field": {"type": "string", "minLength": 1},
            "expected": {"type": "string", "minLength": 1},
        },
    }
