"""`llm_judge`: a criterion as a language model judges it, a function of recorded exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias, TypeVar, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Judgement, Scorer, ScorerKind, ScoringCase, replay_judgement
from theatre.judging.messages import ANTHROPIC
from theatre.judging.rubrics import Asking
from theatre.verification.judge.measures import MEASURES, NotMeasurableError
from theatre.verification.judge.questions import RUBRICS
from theatre.verification.labelled_claims import SHIPPED_SHA256
from theatre.verification.lexical import UNMEASURABLE

ResultT = TypeVar("ResultT")
Measured: TypeAlias = Callable[[ScoringCase], Asking[ResultT]]
"""Asks about an answer once, and says what came of it."""


def judgement(case: ScoringCase) -> Judgement:
    """Ask for the committed measure as often as was committed; return the mean.

    None where every pass finds it undefined. UNMEASURABLE from the first pass on that has no
    usable answer: what is left would be a choice among answers.
    """
    try:
        passes = yield from _passes(case, MEASURES[cast("str", case.params["measure"])])
    except NotMeasurableError:
        return UNMEASURABLE
    scores = [score for score in passes if score is not None]
    return float(sum(scores, Fraction(0)) / len(scores)) if scores else None


def score(case: ScoringCase) -> float | None:
    """Return what the recorded exchanges come to; raises UnaskedError for others."""
    return replay_judgement(judgement(case), case.exchanges)


def pass_scores(case: ScoringCase) -> list[Fraction]:
    """Return what each pass of a scored episode came to, where it was defined.

    Raises as `repeat_passes`.
    """
    passes = repeat_passes(case, MEASURES[cast("str", case.params["measure"])])
    return [score for score in passes if score is not None]


def repeat_passes(case: ScoringCase, measure: Measured[ResultT]) -> list[ResultT]:
    """Return what `measure`, which asks as the committed one does, finds in each recorded pass.

    Raises as `score`, and NotMeasurableError where a pass has no usable answer.
    """
    return replay_judgement(_passes(case, measure), case.exchanges)


def _passes(case: ScoringCase, measure: Measured[ResultT]) -> Asking[list[ResultT]]:
    judge = cast("JsonObject", case.params["judge"])
    made = []
    for number in range(int(cast("float", judge["repeats"]))):
        found = yield from measure(replace(case, judge_seed=f"{case.judge_seed}/{number}"))
        made.append(found)
    return made


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
        "required": ["measure", "field", "record", "judge"],
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
        },
        "if": {"properties": {"measure": {"const": "reply_accuracy"}}},
        "then": {"required": ["expected", "question"]},
    },
    score=score,
    needs_expectation=False,
    judgement=judgement,
)
