"""`numeric_tolerance`: 1 where a number lies near enough to the expected one, else 0."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, exact_number, params_schema

_TOLERANCE: JsonObject = {"type": "number", "minimum": 0}


def score(case: ScoringCase) -> float:
    """Return 1 where |answer - expected| ≤ max(abs, rel · |expected|), else 0.

    Exact on the decimals as written, so the edge belongs to the tolerance: 0.3 lies within
    0.1 of 0.2, though the doubles do not say so. Both tolerances default to 0. An answer that
    is no number scores 0. UNMEASURABLE where the expectation is no number.
    """
    expected = exact_number(case.expected)
    if expected is None:
        return UNMEASURABLE
    answer = exact_number(case.answer)
    if answer is None:
        return 0.0
    return 1.0 if abs(answer - expected) <= _allowed(expected, case.params) else 0.0


def _allowed(expected: Fraction, params: JsonObject) -> Fraction:
    fixed, share = (exact_number(params.get(name)) or Fraction(0) for name in ("abs", "rel"))
    return max(fixed, share * abs(expected))


def within_most(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return a number within the tolerance of as many expectations as possible."""
    numbers = [one for one in map(exact_number, expectations) if one is not None]
    lows = sorted(one - _allowed(one, params) for one in numbers)
    highs = sorted(one + _allowed(one, params) for one in numbers)
    if not numbers:
        return None
    # Where most have begun and not yet ended; as far as the next end all of these hold.
    begin = max(lows, key=lambda low: bisect_right(lows, low) - bisect_left(highs, low))
    middle = (begin + highs[bisect_left(highs, begin)]) / 2
    most = Fraction(sys.float_info.max)
    return float(max(-most, min(most, middle)))


SCORER = Scorer(
    name="numeric_tolerance",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(
        {"abs": _TOLERANCE, "rel": _TOLERANCE}, required=("field", "expected")
    ),
    score=score,
    one_for_all=within_most,
)
