"""What a run recorded, read back against the digests that stand in its audit trail.

Source: docs/contract/earned.md §1; docs/contract/evidence.md §3. Everything that is read back is
verified while it streams past: on resume before anybody is called, and when the theatre is settled.
Memory: four bytes an episode, and what is hashed of the batches that are not read to their end.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self, cast

from theatre.engine.audit_chain import AuditEvent, ChainHead, verify_next
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ChainBrokenError, JournalChangedError, JournalError
from theatre.engine.models import EpisodeResult, InvocationStatus
from theatre.engine.replay.context import MAX_EPISODES, RunJournal
from theatre.engine.replay.recording import (
    FAILED,
    RECORDED,
    REFUSED,
    read_sequences,
    trouble_events,
)

_NONE = 0
_ADVICE = "what a run has recorded was changed, and nothing can be certified from it; run it anew"


@dataclass(slots=True)
class _Batch:
    """One batch entry of the trail, and what was read of its episodes so far."""

    entry: int
    first: int
    last: int
    journal_sha256: object
    left: int
    hasher: hashlib._Hash | None = None

    def __str__(self) -> str:
        return f"the batch of episodes {self.first} to {self.last} (audit entry {self.entry})"


class TrailBatches:
    """The batches that an audit trail names. Good for one reading of the journal."""

    def __init__(self) -> None:
        self._batches: list[_Batch] = []
        self._batch_of = array("I")
        self.troubled: set[int] = set()
        """The episodes whose failure or refusal the trail reports."""
        self.head = ChainHead()

    @classmethod
    async def read(cls, journal: RunJournal, theatre_id: str) -> Self:
        """Read and verify the trail; JournalChangedError where it is no unbroken chain."""
        batches = cls()
        try:
            async for entry in journal.trail():
                batches.head = verify_next(batches.head, entry, theatre_id=theatre_id)
                batches._take(entry)
        except (ChainBrokenError, JournalError, KeyError, TypeError, ValueError) as error:
            raise JournalChangedError(
                f"expected the audit trail as it was written, got {error}: {_ADVICE}"
            ) from error
        return batches

    async def results(self, journal: RunJournal) -> AsyncIterator[EpisodeResult]:
        """Yield every recorded episode in dataset order, each batch verified at its end.

        Raises JournalChangedError that names the first batch of which episodes are missing,
        unreadable, or not as they were recorded, and for an episode that no batch names.
        """
        seen = 0
        try:
            async for result in journal.results():
                self._require_none_between(seen, result.seq)
                self._verify(result)
                seen = result.seq
                yield result
        except JournalError as error:
            if error.seq is not None:
                self._refuse(error.seq, str(error))
            raise
        self._require_none_between(seen, len(self._batch_of) + 1)

    def _take(self, entry: JsonObject) -> None:
        detail = cast("dict[str, Any]", entry["detail"])
        if entry["event_type"] in {FAILED, REFUSED}:
            self.troubled.add(detail["seq"])
        if entry["event_type"] != RECORDED:
            return
        ranges = read_sequences(entry)
        batch = _Batch(
            entry=cast("int", entry["seq"]),
            first=ranges[0].start if ranges else 0,
            last=ranges[-1].stop - 1 if ranges else 0,
            journal_sha256=detail.get("journal_sha256"),
            left=sum(map(len, ranges)),
        )
        self._batches.append(batch)
        for sequences in ranges:
            self._claim(sequences, len(self._batches))

    def _claim(self, sequences: range, number: int) -> None:
        # Before memory is reserved: a forged range must not ask for terabytes.
        if not 0 < sequences.start < sequences.stop <= MAX_EPISODES + 1:
            raise ValueError(f"a batch of episodes {sequences.start} to {sequences.stop - 1}")
        missing = sequences.stop - 1 - len(self._batch_of)
        self._batch_of.extend([_NONE] * missing)
        for seq in sequences:
            if self._batch_of[seq - 1] != _NONE:
                raise ValueError(f"episode {seq} in two batches")
            self._batch_of[seq - 1] = number

    def _verify(self, result: EpisodeResult) -> None:
        number = self._batch_of[result.seq - 1] if result.seq <= len(self._batch_of) else _NONE
        if number == _NONE:
            raise JournalChangedError(
                f"expected episode {result.seq} in a batch of the audit trail, got it in none: "
                f"{_ADVICE}"
            )
        batch = self._batches[number - 1]
        hasher = batch.hasher or hashlib.sha256()
        hasher.update(result.line)
        batch.left -= 1
        batch.hasher = hasher if batch.left else None
        # Only whole batches have a digest, so a batch is judged at its last episode.
        if not batch.left and hasher.hexdigest() != batch.journal_sha256:
            self._refuse(result.seq, "other bytes")

    def _require_none_between(self, seen: int, seq: int) -> None:
        """Refuse where the trail names an episode between two that were read one after another."""
        for missing in range(seen + 1, min(seq, len(self._batch_of) + 1)):
            if self._batch_of[missing - 1] != _NONE:
                self._refuse(missing, f"no episode {missing}")

    def _refuse(self, seq: int, seen: str) -> None:
        number = self._batch_of[seq - 1] if seq <= len(self._batch_of) else _NONE
        where = "a batch" if number == _NONE else str(self._batches[number - 1])
        raise JournalChangedError(f"expected {where} as it was recorded, got {seen}: {_ADVICE}")


async def find_unrecorded_events(
    journal: RunJournal, theatre_id: str, *, at: str
) -> list[AuditEvent]:
    """Verify what is recorded; return the failures and refusals that a crash kept from the trail.

    Those are the last ones of the last batch: its entries are written one after another. Raises
    JournalChangedError, naming the first batch that is not as it was recorded.
    """
    batches = await TrailBatches.read(journal, theatre_id)
    return [
        event
        async for result in batches.results(journal)
        if result.status is not InvocationStatus.SUCCESS and result.seq not in batches.troubled
        for event in trouble_events([result], at=at)
    ]
