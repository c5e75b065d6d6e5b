"""`contains_terms`: how many of the terms a text has."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.contains_terms import SCORER

TERMS = st.lists(st.text("abß", min_size=1, max_size=3), min_size=1, max_size=5)
TEXTS = st.text("abßAB ", max_size=12)


def score(answer: JsonValue, expected: JsonValue, *, case: bool | None = None) -> float:
    params: JsonObject = {"field": "text", "expected": "terms"}
    if case is not None:
        params["case"] = case
    return number(SCORER, case_of(params, answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "terms", "value"),
    [
        ("warm sand and oxide red", ["warm sand", "oxide red"], 1.0),
        ("warm sand", ["warm sand", "oxide red"], 0.5),
        ("warm  sand", ["warm sand"], 0.0),
        ("warm\nsand", ["warm sand"], 0.0),
        ("Warm Sand", ["WARM sand"], 1.0),
        ("STRASSE", ["straße"], 1.0),
        ("concatenate", ["cat"], 1.0),
        ("é", ["e\u0301"], 0.0),
        ("red", ["red", "red", "blue"], 0.5),
        ("red", ["red", "RED", "blue"], 0.5),
        ("", ["red"], 0.0),
        (["red"], ["red"], 0.0),
        ({"red": "red"}, ["red"], 0.0),
        (None, ["red"], 0.0),
        (1, ["1"], 0.0),
    ],
)
def test_the_score_is_the_share_of_terms_that_the_text_has(
    answer: JsonValue, terms: list[JsonValue], value: float
) -> None:
    assert score(answer, terms) == value
    params: JsonObject = {"field": "text", "terms": terms}
    assert number(SCORER, case_of(params, answer)) == value
    assert number(SCORER, case_of(params, answer, expected=["other"])) == value


@pytest.mark.parametrize(
    ("answer", "terms", "case", "value"),
    [
        ("Warm Sand", ["warm", "Sand"], True, 0.5),
        ("Warm Sand", ["warm", "Sand"], False, 1.0),
        ("red", ["red", "RED"], True, 0.5),
        ("red", ["red", "RED"], False, 1.0),
    ],
)
def test_case_counts_where_the_template_says_so(
    answer: str, terms: list[JsonValue], *, case: bool, value: float
) -> None:
    assert score(answer, terms, case=case) == value


@pytest.mark.parametrize("expected", [None, "red", [], [""], ["red", ""], ["red", 1], {"a": "red"}])
@pytest.mark.parametrize("answer", ["red", None, ["red"]])
def test_an_expectation_that_lists_no_terms_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue
) -> None:
    assert math.isnan(score(answer, expected))


@given(HOSTILE_JSON, TERMS)
def test_any_answer_gets_a_score_between_0_and_1(answer: JsonValue, terms: list[JsonValue]) -> None:
    assert 0.0 <= score(answer, terms) <= 1.0


@given(terms=TERMS, case=st.booleans())
def test_a_text_of_all_the_terms_scores_1(terms: list[JsonValue], *, case: bool) -> None:
    assert score(" ".join(map(str, terms)), terms, case=case) == 1.0


@given(text=TEXTS, more=TEXTS, terms=TERMS, case=st.booleans())
def test_more_text_never_lowers_the_score(
    text: str, more: str, terms: list[JsonValue], *, case: bool
) -> None:
    assert score(text + more, terms, case=case) >= score(text, terms, case=case)


@given(TEXTS, TERMS.flatmap(lambda terms: st.tuples(st.just(terms), st.permutations(terms))))
def test_the_order_of_the_terms_plays_no_part(
    text: str, orders: tuple[list[JsonValue], list[JsonValue]]
) -> None:
    one, other = orders
    assert score(text, one) == score(text, other)


def test_a_hostile_text_is_scored_to_its_end() -> None:
    terms: list[JsonValue] = ["a" * 200 + "b", "b" + "a" * 200, "ab" * 100]
    # A quadratic search would take hours here, not seconds.
    assert score("a" * 1_048_576, terms) == 0.0


@pytest.mark.reproducibility
def test_every_supported_python_folds_case_alike() -> None:
    characters = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    folded = "\n".join(character.casefold() for character in characters)
    assert hashlib.sha256(folded.encode()).hexdigest() == (
        "f22ade6b82331f45ea1f03b3dcce7341cd99881e528b5456c646fccc66a652c9"
    )


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"field": "text", "expected": "terms"}, True),
        ({"field": "text", "terms": ["red"], "case": True}, True),
        ({"field": "text"}, False),
        ({"terms": ["red"]}, False),
        ({"field": "text", "terms": ["red"], "expected": "terms"}, False),
        ({"field": "text", "terms": []}, False),
        ({"field": "text", "terms": [""]}, False),
        ({"field": "text", "terms": ["red", "red"]}, False),
        ({"field": "text", "expected": "terms", "case": "lower"}, False),
        ({"field": "text", "expected": "terms", "words": True}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "contains_terms@1"
    assert not SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
