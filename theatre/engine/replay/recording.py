"""Scores what came of calls and makes it durable, batch by batch, with its audit events.

Source: docs/contract/evidence.md §3 and §7.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.clock import Clock, Sleep, format_rfc3339
from theatre.engine.errors import JournalError
from theatre.engine.models import (
    EPISODE_RESULT,
    FIRST,
    REPEATS,
    SECOND,
    EpisodeResult,
    EpisodeTrouble,
    InvocationRecord,
    InvocationStatus,
    RecordedBatch,
    sequence_ranges,
)
from theatre.engine.replay.context import RunJournal
from theatre.engine.replay.episode import CalledEpisode
from theatre.engine.replay.usage import usage_of
from theatre.engine.scoring import RepeatScores, TheatreScoringProvider
from theatre.engine.scoring.repeats import answering_round, last_attempt, outputs_of

# What an invocation record says: its answer, its outputs, whether its repeat differs.


def calls_of(record: JsonObject, repeat: int = FIRST) -> list[JsonObject]:
    """Return the calls of one round, in order of their hops."""
    calls = cast("list[JsonObject]", record["calls"])
    return [call for call in calls if call["repeat"] == repeat]


def answering_call(record: JsonObject) -> JsonObject:
    """Return the call whose outcome is the episode's: the last one of its round."""
    return answering_round(record)[-1]


def answering_attempt(record: JsonObject) -> JsonObject:
    """Return the attempt whose response is the episode's."""
    return last_attempt(answering_call(record))


def last_latency(record: JsonObject) -> int:
    """Return the latency of the answer that counts, in milliseconds."""
    response = cast("JsonObject", answering_attempt(record)["response"])
    return cast("int", response["latency_ms"])


def failure_of(called: CalledEpisode) -> str | None:
    """Return which episode failed, and the reason of the answer that counts; None of another."""
    if not called.answer.status.failed:
        return None
    response = cast("JsonObject", answering_attempt(called.record)["response"])
    return f"{called.episode.episode_id}: {response['error_detail']}"


def differs(record: JsonObject) -> bool:
    """Return whether a repeat did not give at every hop what the first round gave."""
    if not calls_of(record, SECOND):
        return False
    first, second = outputs_of(record, FIRST), outputs_of(record, SECOND)
    return canonical_bytes(first) != canonical_bytes(second)


def facts_of(record: JsonObject, repeats: RepeatScores | None = None) -> JsonObject:
    """Return what settling must know of a record; the journal stores it with the record.

    `adapters` are pins by construct, `version_mismatches` counts calls, `claimed` tells of a
    version that was not computed, `confidence` is the number that the answer states, if any,
    `input_changed` tells whether what was sent is not what the dataset holds, `usage` what calls
    without an envelope took; left out where there are none. Where each episode is asked more than
    once, `repeats` has the results of each answer: those may differ, and state no probability.
    """
    calls = cast("list[JsonObject]", record["calls"])
    sanitised = cast("JsonObject | None", record["sanitised"])
    response = cast("JsonObject", answering_attempt(record)["response"])
    output = record[EPISODE_RESULT] if EPISODE_RESULT in record else response["output_data"]
    stated = output.get("confidence") if isinstance(output, dict) else None
    reasons = (
        {attempt["reason"] for attempt in cast("list[JsonObject]", call["attempts"])}
        for call in calls
    )
    used = usage_of(calls)
    return {
        **({"usage": used} if used else {}),
        "adapters": {cast("str", call["construct_id"]): call["adapter"] for call in calls},
        "claimed": any(call["version_source"] == "claimed" for call in calls),
        "confidence": stated if isinstance(stated, int | float) and repeats is None else None,
        "differs": repeats is None and differs(record),
        **({} if repeats is None else {REPEATS: repeats.as_facts()}),
        "input_changed": (
            sanitised is not None and sanitised["raw_sha256"] != sanitised["sent_sha256"]
        ),
        "version_mismatches": sum("version-mismatch" in found for found in reasons),
    }


def input_sent(record: JsonObject) -> JsonObject:
    """Return the episode's input as the first construct of the chain was to get it."""
    request = cast("JsonObject", calls_of(record)[0]["request"])
    return cast("JsonObject", request["input_data"])


# The audit events of recorded episodes: one a batch, one a failure, one a refusal.
#
# Source: docs/contract/evidence.md §3. The batch event carries two digests. That of its records is
# for all who have the bundle: the audit head on the certificate binds every invocation record.
# That of the journal's lines is for the run itself, which verifies what it reads back
# (`trail_batches`).


RECORDED = "episodes_recorded"
FAILED = "episode_failed"
REFUSED = "episode_refused"


def batch_events(results: Sequence[EpisodeResult], *, at: str) -> list[AuditEvent]:
    """Return the events for a batch of results, which are taken in dataset order."""
    ordered = sorted(results, key=lambda result: result.seq)
    records, journal = hashlib.sha256(), hashlib.sha256()
    for result in ordered:
        records.update(result.record.line)
        journal.update(result.line)
    statuses = Counter(result.status.value for result in ordered)
    batch = RecordedBatch(
        seqs=sequence_ranges(result.seq for result in ordered),
        records_sha256=records.hexdigest(),
        journal_sha256=journal.hexdigest(),
        statuses={status.value: statuses[status.value] for status in InvocationStatus},
    )
    recorded = AuditEvent(event_type=RECORDED, at=at, detail=batch.as_document())
    return [recorded, *trouble_events(ordered, at=at)]


def trouble_events(ordered: Iterable[EpisodeResult], *, at: str) -> Iterator[AuditEvent]:
    """Yield an event for each failure and each refusal among results in dataset order."""
    for result in ordered:
        if result.status is InvocationStatus.SUCCESS:
            continue
        call = answering_call(result.record.document)
        attempt = last_attempt(call)
        response = cast("JsonObject", attempt["response"])
        trouble = EpisodeTrouble(
            seq=result.seq,
            episode_id=result.episode_id,
            construct_id=cast("str", call["construct_id"]),
            hop=cast("int", call["hop"]),
            status=result.status.value,
            reason=cast("str | None", attempt["reason"]),
            error_detail=cast("str | None", response["error_detail"]),
        )
        event_type = REFUSED if result.status is InvocationStatus.REFUSED else FAILED
        yield AuditEvent(event_type=event_type, at=at, detail=trouble.as_document())


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


# Finished episodes become durable in batches: full, or old enough, whichever comes first.


_T = TypeVar("_T")


class BatchWriter(Generic[_T]):
    """Collects items and flushes them; on leaving, also after an error, flushes the rest.

    A flush that began ends, however often its caller is cancelled. After one that failed
    nothing more is written. A `put` while a batch is being written waits for it: with
    n callers, no more than `size` + n - 1 items are ever in memory only.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[_T]], Awaitable[None]],
        *,
        size: int,
        max_age: float,
        sleep: Sleep,
    ) -> None:
        self._flush = flush
        self._size = size
        self._max_age = max_age
        self._sleep = sleep
        self._pending: list[_T] = []
        self._writing = asyncio.Lock()
        self._broken = False
        self._timer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what is left; raises what this write, or one in the background, raised."""
        await _finish(asyncio.ensure_future(self._close()))

    async def put(self, item: _T) -> None:
        """Add `item`; raises what an earlier write in the background raised."""
        self._pending.append(item)
        if self._timer is not None and self._timer.done():
            timer, self._timer = self._timer, None
            timer.result()
        # The lock makes writes sequential: the chain has one head.
        async with self._writing:
            if len(self._pending) >= self._size:
                await self._write_pending()
        if self._timer is None and self._pending:
            self._timer = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        await self._sleep(self._max_age)
        await self._write()

    async def _close(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            # A write that it has begun ends first.
            timer.cancel()
            await asyncio.wait([timer])
            if not timer.cancelled():
                timer.result()
        await self._write()

    async def _write(self) -> None:
        async with self._writing:
            await self._write_pending()

    async def _write_pending(self) -> None:
        batch, self._pending = self._pending, []
        if not batch or self._broken:
            return
        write = asyncio.ensure_future(self._flush(batch))
        try:
            await _finish(write)
        finally:
            self._broken = write.cancelled() or write.exception() is not None


async def _finish(work: asyncio.Future[None]) -> None:
    """Wait until `work` has ended; only then let a cancellation through."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    work.result()
    if cancelled is not None:
        raise cancelled


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
        """Score `batch` and append it to the journal with its audit events."""
        # In a thread: a scorer that takes its time keeps no call from its answer.
        results, events = await asyncio.to_thread(self._score, batch)
        await self._journal.append(results, events)

    def _score(
        self, batch: Sequence[CalledEpisode]
    ) -> tuple[list[EpisodeResult], list[AuditEvent]]:
        results = []
        for called in batch:
            episode, repeats = called.episode, None
            gold = self._gold.get(episode.episode_id)
            if called.repeats:
                scores, repeats = self._provider.score_repeats(episode, called.repeats, gold)
            else:
                scores = self._provider.score_episode(episode, called.answer, gold)
            results.append(
                EpisodeResult(
                    seq=episode.seq,
                    episode_id=episode.episode_id,
                    status=called.answer.status,
                    outcome=scores.outcome,
                    scores=scores.by_criterion,
                    facts=facts_of(called.record, repeats),
                    record=InvocationRecord(called.record),
                )
            )
        return results, batch_events(results, at=format_rfc3339(self._clock()))
