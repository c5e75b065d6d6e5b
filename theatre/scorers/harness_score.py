"""`harness_score`: what the program that asked the construct said of its answer.

Nothing of it is recomputed: a criterion with a weight above 0 has the cap `scores-by-harness`.
"""

from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import exact_number, params_schema


def score(case: ScoringCase) -> float | None:
    """Return the number at `field`, in [0, 1]; null is a score that was never given: None.

    Anything else there, also a number outside 0 to 1, is 0.
    """
    if case.answer is None:
        return None
    number = exact_number(case.answer)
    return float(number) if number is not None and 0 <= number <= 1 else 0.0


SCORER = Scorer(
    name="harness_score",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema({}, required=("field",)),
    score=score,
    needs_expectation=False,
)
