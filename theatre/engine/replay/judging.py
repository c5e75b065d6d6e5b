"""Asks a judge about an answer, before it is scored, and records every exchange."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import ProgrammeError
from theatre.engine.models import JUDGEMENTS, GroundTruthEpisode, Judge, ask_judge
from theatre.engine.replay.calls import CalledEpisode, EpisodeCaller
from theatre.engine.scoring import TheatreScoringProvider


def require_judge(provider: TheatreScoringProvider, judge: Judge | None) -> Judge | None:
    """Return the judge that must be asked; None where no criterion needs one.

    Raises ProgrammeError where one does and there is none.
    """
    if not provider.needs_judge:
        return None
    if judge is None:
        raise ProgrammeError("expected a judge for the criteria that need one, got none to ask")
    return judge


class JudgedCaller:
    """Calls for one episode as `EpisodeCaller` does, and has the answer judged."""

    def __init__(
        self,
        caller: EpisodeCaller,
        *,
        provider: TheatreScoringProvider,
        judge: Judge,
        gold: Mapping[str, JsonObject],
    ) -> None:
        self._caller = caller
        self._provider = provider
        self._judge = judge
        self._gold = gold

    async def call(self, episode: GroundTruthEpisode) -> CalledEpisode:
        """Return what came of the calls, with the exchanges about each judged criterion.

        Raises what the judge raises: then nothing of the episode is recorded.
        """
        called = await self._caller.call(episode)
        gold = self._gold.get(episode.episode_id)
        exchanges: dict[str, list[JsonObject]] = {}
        for criterion, judgement in self._provider.judgements(episode, called.answer, gold).items():
            _, exchanges[criterion] = await ask_judge(judgement, self._judge)
        kept: dict[str, JsonValue] = {name: [*made] for name, made in exchanges.items()}
        return dataclasses.replace(
            called,
            # Shares nothing with the record: a scorer may change what it is shown.
            answer=dataclasses.replace(called.answer, judgements=copy.deepcopy(exchanges)),
            record=called.record | {JUDGEMENTS: kept},
        )
