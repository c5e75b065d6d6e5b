"""`timestamp_order`: the share of neighbouring times that stand in order."""

from itertools import pairwise

from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import params_schema, parse_moment


def score(case: ScoringCase) -> float | None:
    """Return ordered pairs / neighbouring pairs of an array of RFC 3339 times, in [0, 1].

    A pair is in order where the second time is not before the first; times are in UTC, spelt
    with a `Z`. What is no time is in order with nothing. None, undefined, for fewer than two
    times, which have no order; 0 for an answer that is no array, or a single item that is no
    time.
    """
    if not isinstance(case.answer, list):
        return 0.0
    moments = [parse_moment(item) for item in case.answer]
    if len(moments) < 2:  # noqa: PLR2004  # a pair
        return 0.0 if None in moments else None
    ordered = sum(
        earlier is not None and later is not None and earlier <= later
        for earlier, later in pairwise(moments)
    )
    return ordered / (len(moments) - 1)


SCORER = Scorer(
    name="timestamp_order",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema({}, required=("field",), takes_expected=False),
    score=score,
    needs_expectation=False,
)
