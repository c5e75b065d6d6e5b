"""The PostgreSQL journal: a batch of episodes and its audit entries in one transaction.

A writer locks the theatre's row: one batch or one transition at a time, in one order for all.
The state is a column, compared and set in the transaction of its audit entry.
"""

from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from sqlalchemy import ARRAY, Integer, Row, any_, func, insert, literal, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.models import Theatre, TheatreAuditEvent, TheatreEpisodeScore
from backend.database.models.evidence import HIGHEST_SEQUENCE
from backend.repositories.theatre_runs import lock_for_writing
from backend.repositories.theatres import queryable, queryable_text
from theatre.engine.audit_chain import AuditEvent, ChainHead, head_after, next_entry
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import JournalError, ParseError, StateConflictError
from theatre.engine.models import EpisodeResult, InvocationStatus, Scored
from theatre.engine.replay.context import read_result, to_the_end
from theatre.engine.replay.usage import UsageTally

# Results and audit events as rows, and what an event changes in its theatre's row.


_NANO = 1_000_000_000
_MAX_ERROR = 2000


def episode_row(theatre_id: str, result: EpisodeResult) -> dict[str, Any]:
    """Return the row of a recorded episode; a criterion without a score is null in it."""
    scores: JsonObject = {
        criterion: value.nano / _NANO if isinstance(value, Scored) else None
        for criterion, value in result.scores.items()
    }
    return {
        "theatre_id": theatre_id,
        "seq": result.seq,
        "episode_id": queryable_text(result.episode_id),
        "invocation_status": result.status.value,
        "outcome": result.outcome.value,
        "latency_ms": _latency(result.record.document),
        "scores_json": queryable(scores),
        "line": result.line,
    }


def event_row(entry: JsonObject) -> dict[str, Any]:
    """Return the row of an audit entry."""
    return {
        "theatre_id": entry["theatre_id"],
        "seq": entry["seq"],
        "event_type": entry["event_type"],
        "from_state": entry["from_state"],
        "to_state": entry["to_state"],
        "detail_json": queryable(cast("JsonObject", entry["detail"])),
        "prev_entry_hash": entry["prev_entry_hash"],
        "entry_hash": entry["entry_hash"],
        "entry": canonical_line(entry),
        "created_at": parse_rfc3339(cast("str", entry["at"])),
    }


def theatre_changes(event: AuditEvent) -> dict[str, Any]:
    """Return what an event changes in its theatre's row; nothing but for a transition."""
    if event.to_state is None or event.from_state is None:
        return {}
    moment = parse_rfc3339(event.at)
    changes: dict[str, Any] = {"state": event.to_state, "updated_at": moment, "lost_workers": 0}
    if event.event_type == "activated":
        changes |= {"total_episodes": event.detail["episodes"], "started_at": moment}
    if event.event_type == "resolved":
        changes |= {
            "outcome": event.detail["outcome"],
            "outcome_reason": event.detail.get("outcome_reason"),
            "certificate_id": event.detail.get("certificate_id"),
            "resolved_at": moment,
        }
        if "error_detail" in event.detail:
            error = f"{event.detail['outcome_reason']}: {event.detail['error_detail']}"
            changes["error"] = queryable_text(error)[:_MAX_ERROR]
    return changes


def _latency(record: JsonObject) -> int | None:
    """Return the latency of the last call of the first round, whichever answers count."""
    calls = cast("list[dict[str, Any]]", record["calls"])
    attempts = [call["attempts"] for call in calls if call.get("repeat") == 0]
    if not attempts or not attempts[-1]:
        return None
    return cast("int", attempts[-1][-1]["response"]["latency_ms"])


# Which episodes a journal holds, as the database says it: a few ranges, however many.


class RecordedRanges:
    """Sequence numbers as ascending inclusive ranges that do not touch."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._firsts = [first for first, _ in ranges]
        self._lasts = [last for _, last in ranges]

    def __contains__(self, seq: object) -> bool:
        if not isinstance(seq, int):
            return False
        place = bisect_right(self._firsts, seq) - 1
        return place >= 0 and seq <= self._lasts[place]

    def __len__(self) -> int:
        pairs = zip(self._firsts, self._lasts, strict=True)
        return sum(last - first + 1 for first, last in pairs)


Effect = Callable[[AsyncConnection, AuditEvent], Awaitable[None]]
"""What else is written in the transaction of an event, before the state moves."""
Preparation = Callable[[], Awaitable[None]]
"""What is made durable elsewhere before the transaction of an event begins."""

_ROWS_AT_A_TIME = 500

# No timeouts: a settlement reads slowly, since it scores and writes between two fetches.
_READ_AT_LEISURE = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_RANGES = text("""
    SELECT lower(r) AS first, upper(r) - 1 AS last
    FROM (
        SELECT unnest(range_agg(int4range(seq, seq, '[]'))) AS r
        FROM theatre_episode_scores WHERE theatre_id = :theatre_id
    ) AS ranges
    ORDER BY first
""")


class PostgresRunJournal:
    """Implements `theatre.engine.replay.RunJournal` for a theatre that has its row."""

    def __init__(
        self,
        engine: AsyncEngine,
        theatre_id: str,
        *,
        epoch: int = 0,
        effects: Mapping[str, Effect] | None = None,
        preparations: Mapping[str, Preparation] | None = None,
    ) -> None:
        """Write as the holder of `epoch`; both mappings are by the type of an event."""
        self._engine = engine
        self._theatre_id = theatre_id
        self._epoch = epoch
        self._effects = dict(effects or {})
        self._preparations = dict(preparations or {})

    async def recorded(self) -> RecordedRanges:
        """Return which episodes are recorded."""
        async with self._engine.connect() as connection:
            rows = await connection.execute(_RANGES, {"theatre_id": self._theatre_id})
            return RecordedRanges([(row.first, row.last) for row in rows])

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make `results` and `events` durable, all or nothing.

        JournalError for an episode recorded before, StateConflictError for an older epoch.
        """
        await to_the_end(self._append(results, events))

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one event durably; a transition only from the state that it names."""
        if event.event_type in self._preparations:
            await self._preparations[event.event_type]()
        (entry,) = await to_the_end(self._append([], [event]))
        return entry

    async def note_within(self, connection: AsyncConnection, event: AuditEvent) -> JsonObject:
        """Append one event in the caller's transaction; errors as `note`."""
        state = await self._lock(connection)
        (entry,) = await self._insert_events(connection, state, [event])
        return entry

    async def results(self) -> AsyncIterator[EpisodeResult]:
        """Yield what was recorded when the iteration began, in dataset order."""
        table = TheatreEpisodeScore
        query = select(table.seq, table.line).where(table.theatre_id == self._theatre_id)
        query = query.order_by(table.seq)
        async with self._streaming(query) as rows:
            async for row in rows:
                yield read_result(row.seq, row.line)

    async def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries in order."""
        table = TheatreAuditEvent
        query = select(table.entry).where(table.theatre_id == self._theatre_id).order_by(table.seq)
        async with self._streaming(query) as rows:
            async for row in rows:
                try:
                    entry = parse_object(row.entry)
                except ParseError as error:
                    raise JournalError(f"an audit entry that cannot be read: {error}") from error
                yield entry

    @asynccontextmanager
    async def _streaming(self, query: Any) -> AsyncIterator[AsyncIterator[Row[Any]]]:  # noqa: ANN401
        """Open a cursor in the server: what it shows is what was there when it was opened."""
        async with self._engine.connect() as connection:
            for setting in _READ_AT_LEISURE:
                await connection.execute(text(setting))
            options = {"yield_per": _ROWS_AT_A_TIME}
            async with connection.stream(query, execution_options=options) as rows:
                yield rows

    async def _append(
        self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]
    ) -> list[JsonObject]:
        async with self._engine.begin() as connection:
            # The lock first: it refuses older epochs, and keeps rows and chain in one order.
            state = await self._lock(connection)
            await self._insert_results(connection, results)
            return await self._insert_events(connection, state, events)

    async def _lock(self, connection: AsyncConnection) -> str:
        """Lock the theatre's row for this transaction; return its state."""
        return await lock_for_writing(connection, self._theatre_id, epoch=self._epoch)

    async def _insert_results(
        self, connection: AsyncConnection, results: Sequence[EpisodeResult]
    ) -> None:
        if not results:
            return
        await self._check_new(connection, [result.seq for result in results])
        rows = [episode_row(self._theatre_id, result) for result in results]
        await connection.execute(insert(TheatreEpisodeScore), rows)
        statuses = [result.status for result in results]
        failed = (InvocationStatus.ERROR, InvocationStatus.TIMEOUT)
        counted = (
            update(Theatre)
            .where(Theatre.id == self._theatre_id)
            .values(
                progress=Theatre.progress + len(results),
                failure_count=Theatre.failure_count + sum(map(statuses.count, failed)),
                refused_count=Theatre.refused_count + statuses.count(InvocationStatus.REFUSED),
                heartbeat_at=func.now(),
                # Only losses in a row, without a new record, end a run.
                lost_workers=0,
                **await self._usage_sums(connection, results),
            )
        )
        await connection.execute(counted)

    async def _usage_sums(
        self, connection: AsyncConnection, results: Sequence[EpisodeResult]
    ) -> dict[str, Any]:
        """Return what changes in the sums of what calls took; the row is locked."""
        found = [result.facts["usage"] for result in results if "usage" in result.facts]
        if not found:
            return {}
        before = select(Theatre.usage_sums).where(Theatre.id == self._theatre_id)
        tally = UsageTally.from_sums({}, await connection.scalar(before))
        for used in found:
            tally.note(cast("JsonObject", used))
        return {"usage_sums": tally.as_sums()}

    async def _check_new(self, connection: AsyncConnection, sequences: Sequence[int]) -> None:
        """Raise JournalError unless these are sequence numbers, none recorded, none twice."""
        for seq in sequences:
            if not 0 < seq <= HIGHEST_SEQUENCE:
                raise JournalError(f"expected the sequence number of an episode, got {seq!r:.40}")
        table = TheatreEpisodeScore
        query = select(table.seq).where(
            table.theatre_id == self._theatre_id,
            table.seq == any_(literal(list(sequences), ARRAY(Integer))),
        )
        seen = set((await connection.execute(query)).scalars())
        for seq in sequences:
            if seq in seen:
                raise JournalError(f"expected episode {seq} once in the journal, got it again")
            seen.add(seq)

    async def _insert_events(
        self, connection: AsyncConnection, state: str, events: Sequence[AuditEvent]
    ) -> list[JsonObject]:
        head = await self._head(connection)
        # Before its chain begins a theatre is in no state.
        current = state if head.length else None
        entries: list[JsonObject] = []
        for event in events:
            if event.to_state is not None:
                if event.from_state != current:
                    raise StateConflictError(
                        f"expected theatre {self._theatre_id} in {event.from_state}, got {current}"
                    )
                current = event.to_state
            entry = next_entry(head, self._theatre_id, event)
            head = head_after(entry)
            await self._write(connection, event._replace(at=head.at), entry)
            entries.append(entry)
        return entries

    async def _write(
        self, connection: AsyncConnection, event: AuditEvent, entry: JsonObject
    ) -> None:
        if event.event_type in self._effects:
            await self._effects[event.event_type](connection, event)
        await connection.execute(insert(TheatreAuditEvent), event_row(entry))
        changes = theatre_changes(event)
        if changes:
            moved = update(Theatre).where(Theatre.id == self._theatre_id).values(changes)
            await connection.execute(moved)

    async def _head(self, connection: AsyncConnection) -> ChainHead:
        table = TheatreAuditEvent
        query = (
            select(table.seq, table.entry_hash, table.created_at)
            .where(table.theatre_id == self._theatre_id)
            .order_by(table.seq.desc())
            .limit(1)
        )
        last = (await connection.execute(query)).one_or_none()
        if last is None:
            return ChainHead()
        return ChainHead(last.seq + 1, last.entry_hash, format_rfc3339(last.created_at))
