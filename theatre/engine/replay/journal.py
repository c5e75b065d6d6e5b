"""What a run needs from storage: a journal to write through, datasets to read from.

The replay loop knows nothing of files or SQL. Each implementation of `RunJournal` passes the
same conformance test (docs/adr/0052).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import JournalError, ParseError
from theatre.engine.models import EpisodeResult, read_gold_labels
from theatre.engine.templates import GOLD_LABELS

MAX_EPISODES = 10_000_000
"""The highest sequence number: a corrupt one must not ask for terabytes."""


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
        """Yield in dataset order, streaming, what was recorded when the iteration began.

        JournalError with its `seq` for an episode that cannot be read.
        """

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one audit event durably and return its entry.

        A transition (an event with a `to_state`) is a compare-and-swap: StateConflictError
        unless the theatre is in its `from_state`; None is the state before the first.
        """

    def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries in order, streaming; JournalError for what is none."""


def read_result(seq: int, line: bytes) -> EpisodeResult:
    """Read the line that is stored as that of episode `seq`; JournalError for any other."""
    try:
        result = EpisodeResult.from_line(line)
    except ParseError as error:
        raise JournalError(
            f"a line of episode {seq} that cannot be read: {error}", seq=seq
        ) from error
    if result.seq != seq:
        raise JournalError(f"the line of episode {result.seq} in place of {seq}", seq=seq)
    return result


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDatasets:
    """The verified ground truth of one run: the replay dataset, and the others by name."""

    replay: DatasetReader
    others: dict[str, DatasetReader]

    def gold_labels(self, name: str) -> dict[str, JsonObject]:
        """Return episode id → gold label from the dataset `name`; empty where there is none."""
        reader = self.others.get(name)
        return {} if reader is None else read_gold_labels(reader.lines())

    def by_file_name(self, gold_name: str) -> dict[str, DatasetReader]:
        """Return the path in the bundle → the dataset."""
        named = {
            GOLD_LABELS if name == gold_name else name: reader
            for name, reader in self.others.items()
        }
        return {
            "ground_truth/dataset.jsonl": self.replay,
            **{f"ground_truth/{name}.jsonl": reader for name, reader in named.items()},
        }
