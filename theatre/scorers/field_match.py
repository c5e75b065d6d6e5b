"""`field_match`: the share of an object's members that the answer gets right."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import (
    UNMEASURABLE,
    agree,
    exact_number,
    members_of,
    most_frequent,
    params_schema,
)
from theatre.scorers.numeric_tolerance import within_most

_OWN_PARAMS: JsonObject = {
    "fields": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
    "abs": {"type": "number", "minimum": 0},
}


def score(case: ScoringCase) -> float:
    """Return matching members / asked members, in [0, 1].

    Asked are the members `fields`, or all that the expectation has; members that only the
    answer has change nothing. Two numbers match within `abs` (default 0), everything else by
    equality of canonical JSON. An answer that is no object scores 0. UNMEASURABLE where the
    expectation is no object, holds nothing to ask for, or lacks a member of `fields`.
    """
    expected = case.expected
    if not isinstance(expected, dict):
        return UNMEASURABLE
    asked = cast("list[str]", case.params.get("fields", list(expected)))
    if not asked or not expected.keys() >= set(asked):
        return UNMEASURABLE
    answer = case.answer
    if not isinstance(answer, dict):
        return 0.0
    allowed = exact_number(case.params.get("abs")) or Fraction(0)
    matches = sum(
        name in answer and _match(answer[name], expected[name], allowed) for name in asked
    )
    return matches / len(asked)


def _match(answer: JsonValue, expected: JsonValue, allowed: Fraction) -> bool:
    wanted, given = exact_number(expected), exact_number(answer)
    if wanted is None or given is None:
        return agree(answer, expected)
    return abs(given - wanted) <= allowed


def all_members(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return the members of all expectations, each with the value that matches most of them."""
    allowed, found = params.get("abs", 0), members_of(expectations)
    within = exact_number(allowed) or Fraction(0)

    def best(values: list[JsonValue]) -> JsonValue:
        both = (within_most(values, {"abs": allowed}), most_frequent(values))
        return max(both, key=lambda one: sum(_match(one, value, within) for value in values))

    return {name: best(values) for name, values in found.items()} or None


SCORER = Scorer(
    name="field_match",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(_OWN_PARAMS),
    score=score,
    one_for_all=all_members,
)
