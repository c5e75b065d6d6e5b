"""A run journal that notifies a listener of what became durable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.journal import RecordedSequences, RunJournal

OnRecorded = Callable[[Sequence[EpisodeResult]], None]


class NotifyingJournal:
    """Wraps a journal; the listener is called with a batch once it is durable."""

    def __init__(self, journal: RunJournal, listener: OnRecorded) -> None:
        self._journal = journal
        self._listener = listener

    async def recorded(self) -> RecordedSequences:
        """Return which episodes are recorded."""
        return await self._journal.recorded()

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make a batch durable, then call the listener; errors as the journal's own."""
        await self._journal.append(results, events)
        self._listener(results)

    def results(self) -> AsyncIterator[EpisodeResult]:
        """Yield what was recorded, in dataset order."""
        return self._journal.results()

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one audit event; errors as the journal's own."""
        return await self._journal.note(event)

    def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries."""
        return self._journal.trail()
