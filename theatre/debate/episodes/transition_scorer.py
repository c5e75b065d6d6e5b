"""`debate_transitions`: what the control loop did to the truth of a team's answers."""

from typing import cast

from theatre.debate.episodes.pairs import BEGUN, paired_case, probes_end_true
from theatre.debate.models import DIRECTION
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, params_schema

TURNED_AND_KEPT = "turned_and_kept"


def score(case: ScoringCase) -> float | None:
    """Return the `measure` of an episode, given the truth, in [0, 1].

    Of two probes, given the true action of each: `begun_false`, 1 where the false one ended true
    (realignment); `begun_true`, 1 where the true one did (paranoia resisted); `turned_and_kept`, 1
    where both did. Their true actions differ, so one answer to everything, keeping everything and
    changing everything all score 0 there. UNMEASURABLE without an action for each.

    Of a case debated twice, given the true action; of -1 … 1, moved to 0 … 1 by (1 + x) / 2:
    `net_effect`, won less lost between first and last attempt, by turns; `gain_per_retry`, the same
    by retries (None without one); `control`, true in the loop less true without it, by turns. 0
    without both debates. UNMEASURABLE where the truth is no action.
    """
    measure = cast("str", case.params["measure"])
    if measure in _OF_PROBES:
        ended = probes_end_true(case.answer, case.expected)
        if ended is None:
            return UNMEASURABLE
        return float(all(ended.values()) if measure == TURNED_AND_KEPT else ended[measure])
    if not isinstance(case.expected, str) or case.expected not in DIRECTION:
        return UNMEASURABLE
    pair = paired_case(case.answer, case.expected)
    if pair is None:
        return 0.0
    steps = pair.endpoints
    difference, whole = {
        "net_effect": (steps.ft - steps.tf, steps.total),
        "gain_per_retry": (steps.ft - steps.tf, pair.retries),
        "control": (pair.gain, len(pair.posthoc)),
    }[measure]
    return (1 + difference / whole) / 2 if whole else None


_OF_PROBES = (*BEGUN, TURNED_AND_KEPT)
_OF_PAIRS = ("net_effect", "gain_per_retry", "control")

SCORER = Scorer(
    name="debate_transitions",
    version="2",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(
        {"measure": {"enum": [*_OF_PROBES, *_OF_PAIRS]}}, required=("measure", "expected")
    ),
    score=score,
)
