"""`llm_judge`: a criterion as a language model judges it, a function of recorded exchanges."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias, TypeVar, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Judgement, Scorer, ScorerKind, ScoringCase, replay_judgement
from theatre.judging.messages import ANTHROPIC
from theatre.judging.panel import (
    NotMeasurableError,
    SplitError,
    Votes,
    mean_of,
    panel_passes,
    panel_schema,
    panel_score,
    settle,
    split_of,
    votes_of,
)
from theatre.judging.recorded import agreement_computation
from theatre.judging.rubrics import Asking
from theatre.verification.judge.measures import MEASURES
from theatre.verification.judge.questions import RUBRICS
from theatre.verification.labelled_claims import SHIPPED_SHA256
from theatre.verification.lexical import UNMEASURABLE

ResultT = TypeVar("ResultT")
Measured: TypeAlias = Callable[[ScoringCase], Asking[ResultT]]
"""Asks about an answer once, and says what came of it."""


def judgement(case: ScoringCase) -> Judgement:
    """Ask for the committed measure as often as was committed; return the mean of its items.

    An item's score is what the votes of all judges come to by the rule of the panel; a judge's
    vote is its mean over its passes. None where every pass finds nothing to rate. UNMEASURABLE
    from the first pass on that has no usable answer, and where a split is to be unscored.
    """
    try:
        passes = yield from _passes(case, MEASURES[cast("str", case.params["measure"])])
        return panel_score(case.params, passes)
    except (NotMeasurableError, SplitError):
        return UNMEASURABLE


def score(case: ScoringCase) -> float | None:
    """Return what the recorded exchanges come to; raises UnaskedError for others."""
    return replay_judgement(judgement(case), case.exchanges)


def pass_scores(case: ScoringCase) -> list[Fraction]:
    """Return what each pass of a scored episode came to, where it was defined, judge by judge.

    Raises as `repeat_passes`.
    """
    passes = repeat_passes(case, MEASURES[cast("str", case.params["measure"])])
    return [mean_of(votes) for votes in passes if votes is not None]


def panel_votes(case: ScoringCase) -> list[Votes]:
    """Return each judge's votes on the items of an answer; None of one that had none to rate.

    Raises as `repeat_passes`.
    """
    passes = repeat_passes(case, MEASURES[cast("str", case.params["measure"])])
    return votes_of(case.params, passes)


def repeat_passes(case: ScoringCase, measure: Measured[ResultT]) -> list[ResultT]:
    """Return what `measure`, which asks as the committed one does, finds in each recorded pass.

    Those of one judge follow each other. Raises as `score`, and NotMeasurableError where a pass
    has no usable answer.
    """
    return replay_judgement(_passes(case, measure), case.exchanges)


def settled_item(case: ScoringCase, said: Sequence[bool]) -> Fraction:
    """Return what one item comes to of which each pass says whether it holds, judge by judge.

    SplitError where the rule of the panel leaves that open.
    """
    votes = votes_of(case.params, [[Fraction(one)] for one in said])
    return settle(split_of(case.params), [vote for given in votes if given for vote in given])


def _passes(case: ScoringCase, measure: Measured[ResultT]) -> Asking[list[ResultT]]:
    def ask(judge: JsonObject, seed: str) -> Asking[ResultT]:
        return measure(replace(case, params={**case.params, "judge": judge}, judge_seed=seed))

    return panel_passes(case.params, case.judge_seed, ask)


def committed_judge(
    model: str, *, temperature: int | None, repeats: int, provider: str = ANTHROPIC
) -> JsonObject:
    """Return everything that decides how a judge is asked and read, as one object."""
    return RUBRICS.committed(model, temperature=temperature, provider=provider, repeats=repeats)


def probe(provider: str, model: str, temperature: int | None) -> JsonObject:
    """Return a short request of the kind that a judge is sent, which nothing scores."""
    judge = RUBRICS.committed(model, temperature=temperature, provider=provider)
    return RUBRICS.request("reply", judge, _PROBE, "")


_PROBE: JsonObject = {
    "question": "How many files does this change touch?",
    "expected": {"number": 1},
    "files": [],
    "files_omitted": 1,
    "reply": "1",
}

_PATH: JsonObject = {"type": "string", "minLength": 1}

SCORER = Scorer(
    name="llm_judge",
    version=RUBRICS.version,
    kind=ScorerKind.JUDGED,
    params_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["measure", "field", "record"],
        "oneOf": [{"required": ["judge"]}, {"required": ["panel"]}],
        "properties": {
            "measure": {"enum": [*MEASURES]},
            "field": _PATH,
            "expected": _PATH,
            "record": _PATH,
            "question": _PATH,
            "judge": RUBRICS.judge_schema,
            "controls": {
                "type": "object",
                "additionalProperties": False,
                "required": ["every", "labelled_sha256"],
                "properties": {
                    "every": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
                    "labelled_sha256": {"const": SHIPPED_SHA256},
                },
            },
            "panel": panel_schema(RUBRICS),
        },
        "if": {"properties": {"measure": {"const": "reply_accuracy"}}},
        "then": {"required": ["expected", "question"]},
    },
    score=score,
    needs_expectation=False,
    judgement=judgement,
)

AGREEMENT = agreement_computation("judge_agreement", SCORER, panel_votes)
