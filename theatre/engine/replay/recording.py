"""Scores what came of calls and makes it durable, batch by batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.models import EpisodeResult, InvocationRecord
from theatre.engine.replay.calls import CalledEpisode
from theatre.engine.replay.events import batch_events
from theatre.engine.replay.journal import RunJournal
from theatre.engine.replay.records import facts_of
from theatre.engine.scoring import TheatreScoringProvider


class Recorder:
    """Turns called episodes into recorded ones; `gold` has the label of each that has one."""

    def __init__(
        self,
        journal: RunJournal,
        *,
        provider: TheatreScoringProvider,
        gold: Mapping[str, JsonObject],
        clock: Clock,
    ) -> None:
        self._journal = journal
        self._provider = provider
        self._gold = gold
        self._clock = clock

    async def record(self, batch: Sequence[CalledEpisode]) -> None:
        """Score `batch` and append it to the journal with its audit events.

        In a thread: a scorer that takes its time keeps no call from its answer.
        """
        results, events = await asyncio.to_thread(self._score, batch)
        await self._journal.append(results, events)

    def _score(
        self, batch: Sequence[CalledEpisode]
    ) -> tuple[list[EpisodeResult], list[AuditEvent]]:
        results = [self._result(called) for called in batch]
        return results, batch_events(results, at=format_rfc3339(self._clock()))

    def _result(self, called: CalledEpisode) -> EpisodeResult:
        episode = called.episode
        scores = self._provider.score_episode(
            episode, called.answer, self._gold.get(episode.episode_id)
        )
        return EpisodeResult(
            seq=episode.seq,
            episode_id=episode.episode_id,
            status=called.answer.status,
            outcome=scores.outcome,
            scores=scores.by_criterion,
            facts=facts_of(called.record),
            record=InvocationRecord(called.record),
        )
