"""Scores what came of calls and makes it durable, batch by batch."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import DEFAULT_MAX_BYTES, JsonObject, JsonValue
from theatre.engine.clock import Clock, Sleep, format_rfc3339
from theatre.engine.errors import JournalError
from theatre.engine.models import (
    MAX_EPISODE_BYTES,
    EpisodeResult,
    EpisodeTrouble,
    InvocationRecord,
    InvocationStatus,
    RecordedBatch,
    sequence_ranges,
)
from theatre.engine.oracle_contract import MAX_ANSWER_BYTES, clean_detail
from theatre.engine.replay.context import RunJournal
from theatre.engine.replay.episode import CalledEpisode
from theatre.engine.replay.records import answering_attempt, answering_call, facts_of
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate

# Groups finished episodes into durable batches: full, or old enough, whichever comes first.


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
        """Start empty."""
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


# The audit events of recorded episodes: one a batch, one a failure, one a refusal.
#
# Source: docs/contract/evidence.md §3. The batch event carries two digests. That of its records is
# for all who have the bundle: the audit head on the certificate binds every invocation record.
# That of the journal's lines is for the run itself, which verifies what it reads back
# (`recovery`).


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


# Why a run has no certificate: how its episodes ended, and what went wrong most often.
#
# Read off the audit trail, which has an entry for each failure and each refusal. The outcome names
# codes and counts alone; an example of each is found by its entry, for the owner.


UNSCORED = "unscored"
"""The construct answered, and no scorer gave a score: data or scorers are at fault."""

_MOST = 3
_SHOWN = 300
_GROUPS = 1000
"""At most so many reasons are grouped by their details; further ones by their codes alone."""
_CHANGING = re.compile(r"(?:0x)?[0-9a-f]{8,}|[0-9]+")
"""What differs between two failures for one reason: counts, line numbers, addresses, hashes."""


@dataclass(slots=True)
class _Group:
    code: str
    entry: int
    detail: JsonObject
    count: int = 0


@dataclass(slots=True)
class FailureReasons:
    """Takes the entries of a trail in order; memory is bounded, however many there are."""

    _statuses: Counter[str] = field(default_factory=Counter)
    _groups: dict[tuple[str, str], _Group] = field(default_factory=dict)

    def take(self, entry: JsonObject) -> None:
        """Count what an entry says of episodes, if anything."""
        detail = cast("JsonObject", entry["detail"])
        if entry["event_type"] == RECORDED:
            self._statuses.update(cast("dict[str, int]", detail["statuses"]))
        if entry["event_type"] in {FAILED, REFUSED}:
            self._group_of(cast("int", entry["seq"]), detail).count += 1

    @property
    def statuses(self) -> JsonObject:
        """Return how many recorded episodes ended with each status."""
        return {status.value: self._statuses[status.value] for status in InvocationStatus}

    def most_frequent(self, unscored: int = 0) -> list[JsonValue]:
        """Return code, count and the entry of an example, the most frequent first, at most three.

        `unscored` is how many answers no scorer gave a score for: they have no entry.
        """
        groups = [*self._groups.values()]
        if unscored:
            groups.append(_Group(UNSCORED, -1, {}, unscored))
        groups.sort(key=lambda group: (-group.count, group.entry))
        return [
            {
                "code": group.code,
                "count": group.count,
                "entry": group.entry if group.detail else None,
            }
            for group in groups[:_MOST]
        ]

    def details(self, reasons: Sequence[JsonValue]) -> dict[int, JsonObject]:
        """Return the details of the entries that `reasons` name, by entry."""
        named = {reason["entry"] for reason in cast("Sequence[JsonObject]", reasons)}
        groups = self._groups.values()
        return {group.entry: group.detail for group in groups if group.entry in named}

    def _group_of(self, seq: int, detail: JsonObject) -> _Group:
        code = cast("str", detail["reason"] or detail["status"])
        key = (code, _CHANGING.sub("0", _short(detail["error_detail"])))
        if key not in self._groups and len(self._groups) >= _GROUPS:
            key = (code, "")
        return self._groups.setdefault(key, _Group(code, seq, detail))


def reasons_with_examples(
    reasons: Sequence[JsonValue],
    details: Mapping[int, JsonObject],
    records: Mapping[int, JsonObject],
) -> list[JsonValue]:
    """Return `reasons` with examples in the place of entries, for the owner.

    `details` are those of the entries, `records` invocation records by sequence number: what a
    program wrote last before it failed is in no entry.
    """
    shown: list[JsonValue] = []
    for reason in cast("Sequence[JsonObject]", reasons):
        detail = details.get(cast("int", reason["entry"]))
        example: JsonObject | None = None
        if detail is not None:
            record = records.get(cast("int", detail["seq"]))
            stderr = None if record is None else answering_attempt(record)["stderr"]
            example = {
                "episode_id": _short(detail["episode_id"]),
                "error_detail": _short(detail["error_detail"]),
                "stderr": _last_line(stderr),
            }
        shown.append({"code": reason["code"], "count": reason["count"], "example": example})
    return shown


def _short(text: JsonValue) -> str:
    """Return a text as one line of bounded length, without control characters."""
    return " ".join(clean_detail(cast("str | None", text) or "").split())[:_SHOWN]


def _last_line(text: JsonValue) -> str | None:
    lines = [short for line in str(text or "").splitlines() if (short := _short(line))]
    return lines[-1] if lines else None


async def with_reasons(
    journal: RunJournal, outcome: JsonObject, *, unscored: int = 0
) -> JsonObject:
    """Return an outcome without a certificate, and why: `statuses` and `reasons`."""
    found = FailureReasons()
    async for entry in journal.trail():
        found.take(entry)
    return {**outcome, "statuses": found.statuses, "reasons": found.most_frequent(unscored)}


# How large an invocation record can become, whatever constructs answer (docs/adr/0055).
#
# A record that was written must be read back, so what a template may ask for is bounded before the
# first call: an answer within its own limits can then never make a run unreadable.


INPUTS_SHARE = DEFAULT_MAX_BYTES // 4
"""What the episode's input may take of a record, in bytes, in all calls together."""

ANSWERS_SHARE = DEFAULT_MAX_BYTES - INPUTS_SHARE

_GROWTH = 4
"""Canonical JSON takes less than four times the bytes it was read from: 1e15 has 16 digits."""


def largest_episode_bytes(template: ProductTheatreTemplate) -> int:
    """Return how long a line of the replay dataset may be, in bytes: every call repeats it."""
    calls = _rounds(template) * _hops(template)
    return min(MAX_EPISODE_BYTES, INPUTS_SHARE // (_GROWTH * calls))


def largest_answers_bytes(template: ProductTheatreTemplate, *, turns: int | None = None) -> int:
    """Return the largest size of all answers and rejected bytes of one record, in bytes.

    Hop k is sent the outputs of the k hops before it, and answers with one more. `turns` is how
    many calls an interactive episode has, whose runner writes what is sent.
    """
    hops = _hops(template) if turns is None else turns
    sent_on = hops * (hops - 1) // 2 if turns is None else 0
    rejected = hops * (template.execution_policy.retry_policy.max_retries + 1)
    return _rounds(template) * (_GROWTH * (hops + sent_on) + rejected) * MAX_ANSWER_BYTES


def _hops(template: ProductTheatreTemplate) -> int:
    # Not `template.hops`: chain and steps may still contradict each other here.
    invoked = sum(step.type == "construct_invocation" for step in template.programme)
    return max(len(template.product_theatre_config.construct_chain), invoked)


def _rounds(template: ProductTheatreTemplate) -> int:
    return 2 if template.execution_policy.deterministic_sample else 1


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
