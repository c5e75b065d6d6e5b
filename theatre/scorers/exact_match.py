"""`exact_match`: 1 where answer and expectation are the same JSON value, else 0."""

from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import agree, params_schema


def score(case: ScoringCase) -> float:
    """Return 1 or 0: equality of canonical JSON (1 equals 1.0, and true does not equal 1)."""
    return 1.0 if agree(case.answer, case.expected) else 0.0


SCORER = Scorer(
    name="exact_match",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema({}),
    score=score,
)
