"""The audit events of recorded episodes: one a batch, one a failure, one a refusal.

Source: contract/evidence.md §3. The batch event carries the digest of its records, so the audit
head on the certificate binds every invocation record.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodeResult, InvocationStatus, sequence_ranges
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


def covered_sequences(entry: JsonObject) -> Iterator[int]:
    """Yield the sequence numbers that a batch entry of the chain covers."""
    if entry["event_type"] == RECORDED:
        for first, last in cast("dict[str, list[list[int]]]", entry["detail"])["seqs"]:
            yield from range(first, last + 1)


def troubled_sequence(entry: JsonObject) -> int | None:
    """Return which episode an entry of the chain reports a failure or a refusal of, if any."""
    if entry["event_type"] in {FAILED, REFUSED}:
        return cast("dict[str, int]", entry["detail"])["seq"]
    return None


def _batch_detail(ordered: Sequence[EpisodeResult]) -> JsonObject:
    hasher = hashlib.sha256()
    for result in ordered:
        hasher.update(result.record.line)
    statuses = Counter(result.status.value for result in ordered)
    return {
        "seqs": [[first, last] for first, last in sequence_ranges(r.seq for r in ordered)],
        "records_sha256": hasher.hexdigest(),
        "statuses": {status.value: statuses[status.value] for status in InvocationStatus},
    }


def _trouble_detail(result: EpisodeResult) -> JsonObject:
    call = answering_call(result.record.document)
    attempt = answering_attempt(result.record.document)
    return {
        "seq": result.seq,
        "episode_id": result.episode_id,
        "construct_id": call["construct_id"],
        "hop": call["hop"],
        "status": result.status.value,
        "reason": attempt["reason"],
        "error_detail": cast("JsonObject", attempt["response"])["error_detail"],
    }
