"""What a run needs from storage: a journal to write through, datasets to read from.

The replay loop knows nothing of files or SQL. Each implementation of `RunJournal` passes the
same conformance test (design §1, §4.8).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterator, Sequence, Sized
from typing import Protocol

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodeResult


class RecordedSequences(Container[int], Sized, Protocol):
    """The sequence numbers that a journal holds durably."""


class RunJournal(Protocol):
    """The durable record of one theatre: its episodes and its audit chain."""

    async def recorded(self) -> RecordedSequences:
        """Return which episodes are recorded."""

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make a batch durable, then its audit events.

        A sequence number that is recorded already is refused with JournalError.
        """

    def results(self) -> AsyncIterator[EpisodeResult]:
        """Yield every recorded episode in dataset order, streaming."""

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one audit event durably and return its entry.

        An event with a `from_state` is a compare-and-swap: StateConflictError unless the
        theatre is in that state.
        """

    def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries in order, streaming."""


class DatasetReader(Protocol):
    """One open dataset whose bytes were hashed and found to be the committed ones."""

    @property
    def lines_total(self) -> int:
        """Return the number of lines."""

    def lines(self) -> Iterator[bytes]:
        """Yield each line without its line feed, from the very bytes that were hashed."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the raw bytes, from the same open file."""

    def close(self) -> None:
        """Close the file."""


class DatasetSource(Protocol):
    """Finds datasets by their committed path."""

    def open(self, path: str, *, sha256: str) -> DatasetReader:
        """Open, hash and return a dataset.

        Raises DatasetError where there is none at `path` and DatasetMismatchError where its
        SHA-256 is another one.
        """
