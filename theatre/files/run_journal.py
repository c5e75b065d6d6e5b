"""The file journal: episodes and audit entries as JSON lines, made durable batch by batch.

A line that a crash cut short is removed when the journal is opened, and its episode called
again under the same invocation id (contract/evidence.md §4).
"""

from __future__ import annotations

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
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, parse_object
from theatre.engine.errors import JournalError, ParseError, StateConflictError
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.beside import beside_the_loop
from theatre.files.durable import append_durably, truncate_durably
from theatre.files.episode_index import EpisodeIndex

EPISODES = "journal.jsonl"
TRAIL = "audit_trail.jsonl"


class FileRunJournal:
    """Implements `theatre.engine.replay.RunJournal` in one theatre's folder.

    The caller holds the theatre's lock: there is one writer.
    """

    def __init__(self, folder: Path, theatre_id: str) -> None:
        """Open the journal, cut torn last lines, verify the chain.

        Raises ChainBrokenError and JournalError for what a crash cannot explain. `torn` names
        the files that lost an unfinished last line.
        """
        self._theatre_id = theatre_id
        self._episodes = folder / EPISODES
        self._trail = folder / TRAIL
        self.torn = tuple(p.name for p in (self._episodes, self._trail) if _cut_torn_line(p))
        self._index = EpisodeIndex()
        for offset, seq in _recorded_episodes(self._episodes):
            self._index.check_new([seq])
            self._index.put(cast("int", seq), offset)
        self._head = ChainHead()
        self._state: str | None = None
        self._commitment_hash: str | None = None
        for entry in verified_entries(self._entries(), theatre_id=theatre_id):
            self._advance(entry)

    @property
    def state(self) -> str | None:
        """Return the state that the last transition led to; None for an empty chain."""
        return self._state

    @property
    def commitment_hash(self) -> str | None:
        """Return what the chain says was committed; None before."""
        return self._commitment_hash

    async def recorded(self) -> EpisodeIndex:
        """Return which episodes are recorded."""
        return self._index

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make `results` durable, then `events`; JournalError for an episode recorded before."""
        await beside_the_loop(self._append, results, events)

    async def results(self, within: range | None = None) -> AsyncIterator[EpisodeResult]:
        """Yield what was recorded when the iteration began, in dataset order."""
        offsets = self._index.offsets(within)
        if not offsets:
            return
        with self._episodes.open("rb") as handle:
            for offset in offsets:
                handle.seek(offset)
                yield EpisodeResult.from_line(handle.readline())

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one event durably; a transition only from the state that it names."""
        return await beside_the_loop(self._note, event)

    async def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries in order."""
        for entry in self._entries():
            yield entry

    def _append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        self._index.check_new([result.seq for result in results])
        lines = [result.as_line() for result in results]
        if lines:
            offset = append_durably(self._episodes, b"".join(lines))
            for result, line in zip(results, lines, strict=True):
                self._index.put(result.seq, offset)
                offset += len(line)
        self._append_events(events)

    def _note(self, event: AuditEvent) -> JsonObject:
        if event.to_state is not None and event.from_state != self._state:
            raise StateConflictError(
                f"expected theatre {self._theatre_id} in {event.from_state}, got {self._state}"
            )
        return self._append_events([event])[-1]

    def _append_events(self, events: Sequence[AuditEvent]) -> list[JsonObject]:
        head, entries = self._head, []
        for event in events:
            entry = next_entry(head, self._theatre_id, event)
            head = head_after(entry)
            entries.append(entry)
        if entries:
            append_durably(self._trail, b"".join(canonical_line(entry) for entry in entries))
        for entry in entries:
            self._advance(entry)
        return entries

    def _advance(self, entry: JsonObject) -> None:
        self._head = head_after(entry)
        if entry["to_state"] is not None:
            self._state = cast("str", entry["to_state"])
        if entry["event_type"] == "committed":
            detail = cast("JsonObject", entry["detail"])
            self._commitment_hash = cast("str", detail["commitment_hash"])

    def _entries(self) -> Iterator[JsonObject]:
        for _, entry in _documents(self._trail):
            yield entry


def read_trail(folder: Path, theatre_id: str) -> Iterator[JsonObject]:
    """Yield a theatre's audit entries for a reader, verified one against the other.

    A line that is still being written is left out. Raises as `FileRunJournal`.
    """
    entries = (entry for _, entry in _documents(folder / TRAIL))
    return verified_entries(entries, theatre_id=theatre_id)


def count_episodes(folder: Path) -> int:
    """Return how many episodes are recorded durably, for a reader."""
    path = folder / EPISODES
    if not path.exists():
        return 0
    with path.open("rb") as handle:
        return sum(line.endswith(b"\n") for line in handle)


def recorded_results(folder: Path, seqs: Collection[int]) -> Iterator[EpisodeResult]:
    """Yield what is recorded of some episodes, for a reader."""
    missing = set(seqs)
    for line, document in _documents(folder / EPISODES) if missing else ():
        if document["seq"] in missing:
            missing.discard(cast("int", document["seq"]))
            yield EpisodeResult.from_line(line)
        if not missing:
            return


def _recorded_episodes(path: Path) -> Iterator[tuple[int, JsonValue]]:
    """Yield offset and sequence number of each whole line; JournalError for a strange line.

    The bytes of a line are evidence: only the spelling that was written is taken.
    """
    offset = 0
    for number, (line, document) in enumerate(_documents(path), start=1):
        if canonical_line(document) != line:
            raise JournalError(
                f"{path.name}, line {number}: expected the line as it was recorded, got the same "
                "in another spelling: somebody wrote into the journal"
            )
        yield offset, document.get("seq")
        offset += len(line)


def _documents(path: Path) -> Iterator[tuple[bytes, JsonObject]]:
    """Yield each whole line and its document; JournalError for one that is no document."""
    if not path.exists():
        return
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                document = parse_object(line)
            except ParseError as error:
                raise JournalError(f"{path.name}, line {number}: {error}") from error
            yield line, document


def _cut_torn_line(path: Path) -> bool:
    """Remove what follows the last line feed; tell whether there was anything."""
    if not path.exists():
        return False
    size = path.stat().st_size
    end = _end_of_last_line(path, size)
    if end == size:
        return False
    truncate_durably(path, end)
    return True


def _end_of_last_line(path: Path, size: int) -> int:
    block = 64 * 1024
    with path.open("rb") as handle:
        position = size
        while position > 0:
            start = max(0, position - block)
            handle.seek(start)
            found = handle.read(position - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            position = start
    return 0
