"""Exchanges with a judge: those that the scorer asks for, about the recorded answer, and no others.

What a judge said is its own word. That it was asked just this, and nothing besides, is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.invocations.recorded import JUDGEMENTS
from theatre.engine.bundle_check.reading.json_values import DefectError, require_members, shown
from theatre.engine.bundle_check.report import Cause
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import UnaskedError
from theatre.engine.models import GroundTruthEpisode, judged_again
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementCheck:
    """Asks again, of the record instead of the judge; a Cause stands for what is not to be had."""

    provider: TheatreScoringProvider | Cause
    gold: Mapping[str, JsonObject] | Cause

    def members(self, record: JsonObject) -> frozenset[str]:
        """Return what a record has to hold, or may where nobody can say who is to be asked."""
        if isinstance(self.provider, Cause):
            return frozenset({JUDGEMENTS} & record.keys())
        return frozenset({JUDGEMENTS} if self.provider.needs_judge else ())

    def check(self, record: JsonObject, episode: GroundTruthEpisode, answer: EpisodeAnswer) -> None:
        """Raise DefectError for exchanges that the answer does not ask for, or that are missing."""
        provider, gold = self.provider, self.gold
        if isinstance(provider, Cause) or isinstance(gold, Cause) or not provider.needs_judge:
            return
        asked = provider.judgements(episode, answer, gold.get(episode.episode_id))
        recorded = record[JUDGEMENTS]
        if not isinstance(recorded, dict):
            raise DefectError("judgements as an object", shown(recorded))
        require_members(recorded, frozenset(asked), "judgements")
        for criterion, judgement in asked.items():
            exchanges = recorded[criterion]
            if not isinstance(exchanges, list):
                raise DefectError(f"exchanges about {criterion} as an array", shown(exchanges))
            told = [exchange for exchange in exchanges if isinstance(exchange, dict)]
            if len(told) != len(exchanges):
                raise DefectError(f"exchanges about {criterion} as objects", "others")
            try:
                judged_again(judgement, told)
            except UnaskedError as error:
                raise DefectError(f"what is to be asked about {criterion}", str(error)) from error
