"""`debate_judge`: the debate of an episode as one language model judges it, or a panel of them.

Asked by the rubric of `echelon debate evaluate`, turn by turn; a function of recorded exchanges.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, cast

from theatre.debate.blind import blind
from theatre.debate.episodes.pairs import debate_at
from theatre.debate.judge.questions import CREDIBILITY, FOLLOWS, RUBRICS, TURN, VALIDITY, list_turns
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Judgement, Scorer, ScorerKind, ScoringCase, replay_judgement
from theatre.judging.panel import (
    NotMeasurableError,
    SplitError,
    Votes,
    panel_passes,
    panel_schema,
    panel_score,
    votes_of,
)
from theatre.judging.recorded import agreement_computation
from theatre.judging.rubrics import Asking, one_of

MAX_JUDGED: Final = 20
"""How many turns of an answer are asked about, more than a runner's debate has: all that five
judges write about them has to fit its record."""

_FIGURES: Final[Mapping[str, Mapping[str, float | bool | None]]] = {
    "validity": VALIDITY,
    "credibility": CREDIBILITY,
    "answer_follows": FOLLOWS,
}


def judgement(case: ScoringCase) -> Judgement:
    """Ask every judge about every turn; return the mean over turns of what their votes come to.

    A turn that argues nothing, or does not state its answer, counts 0, as do those after
    MAX_JUDGED and what is no debate: to say less must not be worth more. Not a number from the
    first turn on without a usable answer, and where a split is to be unscored.
    """
    try:
        return panel_score(case.params, (yield from _passes(case)))
    except (NotMeasurableError, SplitError):
        return math.nan


def score(case: ScoringCase) -> float | None:
    """Return what the recorded exchanges come to; raises UnaskedError for others."""
    return replay_judgement(judgement(case), case.exchanges)


def votes(case: ScoringCase) -> list[Votes]:
    """Return each judge's votes, turn by turn; raises as `score`, and NotMeasurableError."""
    return votes_of(case.params, replay_judgement(_passes(case), case.exchanges))


def _passes(case: ScoringCase) -> Asking[list[Votes]]:
    debate, figure = debate_at(case.answer), cast("str", case.params["figure"])
    turns = [] if debate is None else list_turns(blind(debate))

    def ask(judge: JsonObject, seed: str) -> Asking[Votes]:
        given = [Fraction(0)] * max(1, len(turns))
        for place, data in enumerate(turns[:MAX_JUDGED]):
            said = yield from RUBRICS.ask(TURN, judge, data, f"{seed}/{place}")
            if said is None:
                raise NotMeasurableError
            given[place] = _vote(figure, said)
        return given

    return panel_passes(case.params, case.judge_seed, ask)


def _vote(figure: str, said: JsonObject) -> Fraction:
    argues = VALIDITY[cast("str", said["validity"])] is not None
    value = _FIGURES[figure][cast("str", said[figure])]
    # What argues nothing rests on nothing, whatever the judge says of its sources.
    return Fraction(value) if value is not None and argues else Fraction(0)


SCORER = Scorer(
    name="debate_judge",
    version=RUBRICS.version,
    kind=ScorerKind.JUDGED,
    params_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["field", "figure"],
        "oneOf": [{"required": ["judge"]}, {"required": ["panel"]}],
        "properties": {
            "field": {"type": "string", "minLength": 1},
            "figure": one_of(_FIGURES),
            "judge": RUBRICS.judge_schema,
            "panel": panel_schema(RUBRICS),
        },
    },
    score=score,
    needs_expectation=False,
    judgement=judgement,
)

AGREEMENT = agreement_computation("debate_judge_agreement", SCORER, votes)
