"""`llm_judge`: a criterion as a language model judges it, a function of recorded exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import TypeAlias, TypeVar, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Judgement, Scorer, ScorerKind, ScoringCase, replay_judgement
from theatre.judging.messages import ANTHROPIC
from theatre.judging.panel import SplitError, judges_of, panel_schema, settle, split_of
from theatre.judging.rubrics import Asking
from theatre.verification.judge.measures import MEASURES, NotMeasurableError
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
        return _score(case, _votes(case, passes))
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
    return [_mean(votes) for votes in passes if votes is not None]


def panel_votes(case: ScoringCase) -> list[list[Fraction] | None]:
    """Return each judge's votes on the items of an answer; None of one that had none to rate.

    Raises as `repeat_passes`.
    """
    passes = repeat_passes(case, MEASURES[cast("str", case.params["measure"])])
    return _votes(case, passes)


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
    votes = _votes(case, [[Fraction(one)] for one in said])
    return settle(split_of(case.params), [vote for given in votes if given for vote in given])


def repeats_of(judge: JsonObject) -> int:
    """Return how often a judge is asked about an answer."""
    return int(cast("float", judge["repeats"]))


def _passes(case: ScoringCase, measure: Measured[ResultT]) -> Asking[list[ResultT]]:
    made = []
    for place, judge in enumerate(judges_of(case.params)):
        # Of a judge alone the orders stay what they were before there were panels.
        base = f"{case.judge_seed}/judge {place}" if place else case.judge_seed
        for number in range(repeats_of(judge)):
            seed = f"{base}/{number}"
            asked = replace(case, params={**case.params, "judge": judge}, judge_seed=seed)
            made.append((yield from measure(asked)))
    return made


def _votes(
    case: ScoringCase, passes: Sequence[list[Fraction] | None]
) -> list[list[Fraction] | None]:
    rest, votes = iter(passes), list[list[Fraction] | None]()
    for judge in judges_of(case.params):
        rated = [one for one in islice(rest, repeats_of(judge)) if one is not None]
        votes.append([_mean(item) for item in zip(*rated, strict=True)] if rated else None)
    return votes


def _score(case: ScoringCase, votes: Sequence[list[Fraction] | None]) -> float | None:
    split, rated = split_of(case.params), [given for given in votes if given is not None]
    # Whether there is anything to rate is itself a matter that judges can differ about.
    if split == "unscored" and 0 < len(rated) < len(votes):
        raise SplitError
    items = [settle(split, item) for item in zip(*rated, strict=True)]
    return float(_mean(items)) if items else None


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


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
