"""`numeric_tolerance`: 1 where a number lies near enough to the expected one, else 0."""

from __future__ import annotations

from fractions import Fraction

from theatre.engine.canonical_json import JsonObject
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
    allowed = max(_tolerance(case, "abs"), _tolerance(case, "rel") * abs(expected))
    return 1.0 if abs(answer - expected) <= allowed else 0.0


def _tolerance(case: ScoringCase, name: str) -> Fraction:
    return exact_number(case.params.get(name)) or Fraction(0)


SCORER = Scorer(
    name="numeric_tolerance",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(
        {"abs": _TOLERANCE, "rel": _TOLERANCE}, required=("field", "expected")
    ),
    score=score,
)
