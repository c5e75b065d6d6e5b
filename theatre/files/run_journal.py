"""The file journal: episodes and audit entries as JSON lines, made durable batch by batch.

Only what the audit trail names counts as recorded: there its digest stands. What a crash left
behind that, whole lines or a torn one, is removed when the journal is opened, and its episodes are
called again under the same invocation ids (docs/contract/evidence.md §4, docs/adr/0171).
"""

import contextlib
import itertools
import os
from array import array
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from pathlib import Path
from typing import cast

from theatre.engine.audit_chain import (
    AuditEvent,
    ChainHead,
    head_after,
    next_entry,
    verified_entries,
)
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.errors import JournalError, ParseError, StateConflictError
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.context import MAX_EPISODES, read_result, run_in_thread
from theatre.engine.replay.recording import read_sequences
from theatre.files.durable import append_durably, replace_durably, truncate_durably

EPISODES = "journal.jsonl"
TRAIL = "audit_trail.jsonl"


_ABSENT = -1
_LAST_BYTES = 1 << 16
"""The entry of a theatre's end has at most three reasons, with an example each."""


class EpisodeIndex:
    """Where each recorded episode begins in the file: eight bytes an episode."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._count = 0

    def __contains__(self, seq: object) -> bool:
        return (
            isinstance(seq, int)
            and 0 < seq <= len(self._offsets)
            and self._offsets[seq - 1] != _ABSENT
        )

    def __len__(self) -> int:
        return self._count

    def check_new(self, sequences: Sequence[object]) -> None:
        """Raise JournalError unless these are sequence numbers, none entered, none twice."""
        seen: set[int] = set()
        for seq in sequences:
            if type(seq) is not int or not 0 < seq <= MAX_EPISODES:
                raise JournalError(f"expected the sequence number of an episode, got {seq!r:.40}")
            if seq in self or seq in seen:
                raise JournalError(f"expected episode {seq} once in the journal, got it again")
            seen.add(seq)

    def put(self, seq: int, offset: int) -> None:
        """Enter episode `seq`, which `check_new` let through."""
        missing = seq - len(self._offsets)
        if missing > 0:
            self._offsets.extend(array("q", [_ABSENT]) * missing)
        self._offsets[seq - 1] = offset
        self._count += 1

    def places(self) -> Iterator[tuple[int, int]]:
        """Return episode and offset in dataset order, as they are now."""
        now = enumerate(self._offsets[:], start=1)
        return ((seq, offset) for seq, offset in now if offset != _ABSENT)

    def results(self, path: Path) -> Iterator[EpisodeResult]:
        """Yield in dataset order what `path` holds of the episodes that are entered now."""
        places = self.places()
        if self._count:
            with path.open("rb") as handle:
                for seq, offset in places:
                    handle.seek(offset)
                    yield read_result(seq, handle.readline())


class FileRunJournal:
    """Implements `theatre.engine.replay.RunJournal` in one theatre's folder.

    The caller holds the theatre's lock: there is one writer.
    """

    def __init__(self, folder: Path, theatre_id: str) -> None:
        """Open the journal, verify the chain, cut what is unfinished.

        Raises ChainBrokenError and JournalError for a trail that a crash cannot explain. Whether
        the episodes are those that it names is verified when they are read (`TrailBatches`).
        `torn` names the files that lost an unfinished end.
        """
        self._theatre_id = theatre_id
        self._episodes = folder / EPISODES
        self._trail = folder / TRAIL
        end_of_last_line = sum(map(len, _whole_lines(self._trail)))
        torn = [TRAIL] if _cut(self._trail, end_of_last_line) else []
        self._head = ChainHead()
        self.state: str | None = None
        """The state that the last transition led to; None for an empty chain."""
        self.commitment_hash: str | None = None
        """What the chain says was committed; None before."""
        named: list[range] = []
        for entry in verified_entries(_documents(self._trail), theatre_id=theatre_id):
            self._advance(entry)
            named += read_sequences(entry)
        self._index = EpisodeIndex()
        if _cut(self._episodes, self._index_lines(named)):
            torn.append(EPISODES)
        self.torn = tuple(torn)

    async def recorded(self) -> EpisodeIndex:
        """Return which episodes are recorded."""
        return self._index

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make `results` durable, then `events`; JournalError for an episode recorded before."""
        await run_in_thread(self._append, results, events)

    async def results(self) -> AsyncIterator[EpisodeResult]:
        """Yield what was recorded when the iteration began, in dataset order."""
        for result in self._index.results(self._episodes):
            yield result

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one event durably; a transition only from the state that it names."""
        return await run_in_thread(self._note, event)

    async def note_together(self, events: Sequence[AuditEvent]) -> None:
        """Make transitions durable, all of them or none: the whole trail is rewritten.

        For a theatre that ends: what comes after a crash finds it ended, or as it was.
        """
        await run_in_thread(self._note_together, events)

    async def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries in order."""
        for entry in _documents(self._trail):
            yield entry

    def _append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        self._index.check_new([result.seq for result in results])
        if not results:
            self._append_events(events)
            return
        # As the trail names them.
        results = sorted(results, key=lambda result: result.seq)
        # Episodes first: an entry of the trail must never name lines that a crash has lost.
        offset = append_durably(self._episodes, b"".join(result.line for result in results))
        try:
            self._append_events(events)
        except OSError:
            # No line may stand before those that the trail names next.
            truncate_durably(self._episodes, offset)
            raise
        for result in results:
            self._index.put(result.seq, offset)
            offset += len(result.line)

    def _note(self, event: AuditEvent) -> JsonObject:
        # Compare and swap: two processes cannot both make the same transition.
        if event.to_state is not None and event.from_state != self.state:
            raise StateConflictError(
                f"expected theatre {self._theatre_id} in {event.from_state}, got {self.state}"
            )
        return self._append_events([event])[-1]

    def _note_together(self, events: Sequence[AuditEvent]) -> None:
        entries = self._chain(events)
        lines = b"".join(canonical_line(entry) for entry in entries)
        replace_durably(self._trail, self._trail.read_bytes() + lines)
        for entry in entries:
            self._advance(entry)

    def _append_events(self, events: Sequence[AuditEvent]) -> list[JsonObject]:
        entries = self._chain(events)
        if entries:
            append_durably(self._trail, b"".join(canonical_line(entry) for entry in entries))
        for entry in entries:
            self._advance(entry)
        return entries

    def _chain(self, events: Sequence[AuditEvent]) -> list[JsonObject]:
        head, entries = self._head, []
        for event in events:
            entry = next_entry(head, self._theatre_id, event)
            head = head_after(entry)
            entries.append(entry)
        return entries

    def _index_lines(self, named: Sequence[range]) -> int:
        """Index the lines that the trail names, and return where they end.

        A line that cannot be read, or is not that of the episode which the trail names there, is
        left out: the digest of its batch will not match without it.
        """
        end = 0
        sequences = itertools.chain.from_iterable(named)
        for line, seq in zip(_whole_lines(self._episodes), sequences, strict=False):
            with contextlib.suppress(JournalError):
                read_result(seq, line)
                self._index.check_new([seq])
                self._index.put(seq, end)
            end += len(line)
        return end

    def _advance(self, entry: JsonObject) -> None:
        self._head = head_after(entry)
        if entry["to_state"] is not None:
            self.state = cast("str", entry["to_state"])
        if entry["event_type"] == "committed":
            detail = cast("JsonObject", entry["detail"])
            self.commitment_hash = cast("str", detail["commitment_hash"])


def read_trail(folder: Path, theatre_id: str) -> Iterator[JsonObject]:
    """Yield a theatre's audit entries for a reader, verified one against the other.

    A line that is still being written is left out. Raises as `FileRunJournal`.
    """
    return verified_entries(_documents(folder / TRAIL), theatre_id=theatre_id)


def last_state(folder: Path) -> str | None:
    """Return the state that the trail's last whole line leads to; None where it leads to none.

    For a quick look: nothing is verified. A theatre that waits to begin has one, and one that has
    ended.
    """
    with (folder / TRAIL).open("rb") as handle:
        handle.seek(max(0, handle.seek(0, os.SEEK_END) - _LAST_BYTES))
        lines = [line for line in handle if line.endswith(b"\n")]
    try:
        return cast("str | None", parse_object(lines[-1])["to_state"]) if lines else None
    except (ParseError, KeyError):
        return None


def count_episodes(folder: Path) -> int:
    """Return how many episodes are recorded durably, for a reader."""
    return sum(1 for _ in _whole_lines(folder / EPISODES))


def recorded_results(folder: Path, seqs: Collection[int]) -> Iterator[EpisodeResult]:
    """Yield what is recorded of some episodes, for a reader."""
    missing = set(seqs)
    for line in _whole_lines(folder / EPISODES) if missing else ():
        result = EpisodeResult.from_line(line)
        if result.seq in missing:
            missing.discard(result.seq)
            yield result
        if not missing:
            return


def results_in_order(folder: Path) -> Iterator[EpisodeResult]:
    """Yield what is recorded in dataset order, for a reader; errors as `RunJournal.results`."""
    path, index, offset = folder / EPISODES, EpisodeIndex(), 0
    for line in _whole_lines(path):
        seq = EpisodeResult.from_line(line).seq
        index.check_new([seq])
        index.put(seq, offset)
        offset += len(line)
    yield from index.results(path)


def _documents(path: Path) -> Iterator[JsonObject]:
    """Yield the document of each whole line; JournalError for a line that is none."""
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            yield parse_object(line)
        except ParseError as error:
            raise JournalError(
                f"{path.name}, line {number}: {error}; put the file back as it was, or run the "
                "template anew"
            ) from error


def _whole_lines(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    with path.open("rb") as handle:
        for line in handle:
            if line.endswith(b"\n"):
                yield line


def _cut(path: Path, end: int) -> bool:
    """Remove what is behind `end`; return whether there was anything."""
    if not path.exists() or path.stat().st_size == end:
        return False
    truncate_durably(path, end)
    return True
