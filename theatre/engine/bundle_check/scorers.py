"""The pinned scorers, put to a recorded answer: a number for each criterion, or why there is none.

Source: docs/scorers.md; docs/evidence.md, "The scores". Which scorer is asked about what, and what
an answer comes to that none is asked about, is decided here, without the engine's own provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from theatre.engine.bundle_check.json_values import NOTHING, Nothing, at
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import (
    GroundTruthEpisode,
    InvocationStatus,
    Judgement,
    Scorer,
    ScoringCase,
)

GOLD = "gold:"
NOT_APPLICABLE, DECLINED, UNSCORED = "not_applicable", "declined", "unscored"
UNREADABLE = 0
"""What an answer scores that holds nothing where the criterion looks."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAnswer:
    """A recorded answer: its status and, on success, the output of each hop in call order.

    `judgements` has the recorded exchanges of each criterion that a judge was asked about.
    """

    status: InvocationStatus
    hops: Mapping[str, JsonObject]
    judgements: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        """Tell whether there is something to score."""
        return self.status is InvocationStatus.SUCCESS

    @property
    def confidence(self) -> JsonValue:
        """Return what the last output has at `confidence`, null where it has nothing there."""
        outputs = list(self.hops.values())
        return outputs[-1].get("confidence") if outputs else None


@dataclass(frozen=True, slots=True)
class _Criterion:
    name: str
    scorer: Scorer
    params: JsonObject

    def case(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, gold: JsonObject | None
    ) -> ScoringCase | float | str:
        """Return what the scorer is to see, or what it comes to where it is not asked."""
        expected = self._expected(episode, gold)
        if isinstance(expected, Nothing):
            return NOT_APPLICABLE
        value = self._value(answer.hops)
        if isinstance(value, Nothing):
            return UNREADABLE
        return ScoringCase(
            input_data=episode.input_data,
            expected=expected,
            answer=value,
            params=self.params,
            hops=answer.hops,
            exchanges=answer.judgements.get(self.name, ()),
        )

    def result(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None, gold: JsonObject | None
    ) -> float | str:
        """Return the number of the scorer; a word, or 0, where it was not asked or gave none."""
        if answer is None or not answer.succeeded:
            return NOT_APPLICABLE if self._expected(episode, gold) is NOTHING else UNREADABLE
        case = self.case(episode, answer, gold)
        if not isinstance(case, ScoringCase):
            return case
        try:
            number = self.scorer.score(case)
        except Exception:  # noqa: BLE001  # a plug-in may raise anything: that is a value, not a crash
            return UNSCORED
        if number is None:
            return DECLINED
        return _plain_number(number)

    def _expected(
        self, episode: GroundTruthEpisode, gold: JsonObject | None
    ) -> JsonValue | Nothing:
        """Return what the answer is held against; NOTHING where the criterion does not apply."""
        path, whole = self.params.get("expected"), episode.expected_output
        if not isinstance(path, str):
            return NOTHING if whole is None and self.scorer.needs_expectation else whole
        if not path.startswith(GOLD):
            return NOTHING if whole is None else _at_path(whole, path)
        path = path.removeprefix(GOLD)
        if gold is None:
            return NOTHING
        return _at_path(gold, path) if path else gold

    def _value(self, hops: Mapping[str, JsonObject]) -> JsonValue | Nothing:
        """Return what lies at `field` of the last output, or at `construct:path` of a hop's."""
        path, last = self.params.get("field"), next(iter([*hops.values()][-1:]), None)
        if not isinstance(path, str):
            return NOTHING if last is None else last
        construct, named, inner = path.partition(":")
        output, inner = (hops.get(construct), inner) if named else (last, path)
        return NOTHING if output is None else _at_path(output, inner)


class PinnedScorers:
    """What each committed criterion is scored by; every scorer is there in its pinned version."""

    def __init__(self, plan: CommittedPlan, installed: Mapping[str, Scorer]) -> None:
        self._criteria = [
            _Criterion(name, installed[scorer], plan.params[name])
            for name, scorer in plan.scorers.items()
        ]
        self.needs_judge = any(one.scorer.judgement is not None for one in self._criteria)

    def judgements(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, gold: JsonObject | None
    ) -> dict[str, Judgement]:
        """Return criterion → what a judge is to be asked about `answer`."""
        asked = {}
        for one in self._criteria:
            case = one.case(episode, answer, gold) if answer.succeeded else NOT_APPLICABLE
            if one.scorer.judgement is not None and isinstance(case, ScoringCase):
                asked[one.name] = one.scorer.judgement(case)
        return asked

    def results(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None, gold: JsonObject | None
    ) -> dict[str, float | str]:
        """Return criterion → the scorer's number, or the word for why it gave none.

        Where there is no successful answer the arithmetic looks at `not_applicable` alone.
        """
        return {one.name: one.result(episode, answer, gold) for one in self._criteria}


def _plain_number(number: object) -> float | str:
    """Return what a plug-in gave, if it is a number; numpy's write themselves otherwise."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return UNSCORED
    return float(number) if isinstance(number, float) else number


def _at_path(value: JsonValue, path: str) -> JsonValue | Nothing:
    """Return what lies at a dotted path: members by name, items of arrays by number."""
    current: JsonValue | Nothing = value
    for step in path.split("."):
        if isinstance(current, list):
            current = at(current, int(step)) if _INDEX.fullmatch(step) else NOTHING
        else:
            current = at(current, step)
    return current
