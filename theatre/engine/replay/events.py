"""The audit events of recorded episodes: one a batch, one a failure, one a refusal.

Source: docs/contract/evidence.md §3. The batch event carries two digests. That of its records is
for all who have the bundle: the audit head on the certificate binds every invocation record. That
of the journal's lines is for the run itself, which verifies what it reads back (`recovery`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import JournalError
from theatre.engine.models import (
    EpisodeResult,
    EpisodeTrouble,
    InvocationStatus,
    RecordedBatch,
    sequence_ranges,
)
from theatre.engine.replay.records import answering_attempt, answering_call

RECORDED = "episodes_recorded"
FAILED = "episode_failed"
REFUSED = "episode_refused"


def batch_events(results: Sequence[EpisodeResult], *, at: str) -> list[AuditEvent]:
    """Return the events for a batch of results, which are taken in dataset order."""
    ordered = sorted(results, key=lambda result: result.seq)
    recorded = AuditEvent(event_type=RECORDED, at=at, detail=_batch_detail(ordered))
    return [recorded, *trouble_events(ordered, at=at)]


def trouble_events(ordered: Iterable[EpisodeResult], *, at: str) -> Iterator[AuditEvent]:
    """Yield an event for each failure and each refusal among results in dataset order."""
    for result in ordered:
        if result.status is InvocationStatus.SUCCESS:
            continue
        event_type = REFUSED if result.status is InvocationStatus.REFUSED else FAILED
        yield AuditEvent(event_type=event_type, at=at, detail=_trouble_detail(result))


def read_sequences(entry: JsonObject) -> list[range]:
    """Return which episodes a batch entry of the chain names, in ranges; none of another entry.

    Raises JournalError for a batch entry that no run has written.
    """
    if entry["event_type"] != RECORDED:
        return []
    try:
        pairs = cast("dict[str, list[tuple[int, int]]]", entry["detail"])["seqs"]
        return [range(first, last + 1) for first, last in pairs]
    except (KeyError, TypeError, ValueError) as error:
        raise JournalError(
            f"expected the episodes of a batch in audit entry {entry['seq']}, got none"
        ) from error


def _batch_detail(ordered: Sequence[EpisodeResult]) -> JsonObject:
    records, journal = hashlib.sha256(), hashlib.sha256()
    for result in ordered:
        records.update(result.record.line)
        journal.update(result.line)
    statuses = Counter(result.status.value for result in ordered)
    return RecordedBatch(
        seqs=sequence_ranges(result.seq for result in ordered),
        records_sha256=records.hexdigest(),
        journal_sha256=journal.hexdigest(),
        statuses={status.value: statuses[status.value] for status in InvocationStatus},
    ).as_document()


def _trouble_detail(result: EpisodeResult) -> JsonObject:
    call = answering_call(result.record.document)
    attempt = answering_attempt(result.record.document)
    response = cast("JsonObject", attempt["response"])
    return EpisodeTrouble(
        seq=result.seq,
        episode_id=result.episode_id,
        construct_id=cast("str", call["construct_id"]),
        hop=cast("int", call["hop"]),
        status=result.status.value,
        reason=cast("str | None", attempt["reason"]),
        error_detail=cast("str | None", response["error_detail"]),
    ).as_document()
