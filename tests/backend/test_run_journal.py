"""The PostgreSQL journal keeps what a RunJournal must, all or nothing, and in columns too."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database.sessions import APPLICATION
from backend.repositories.run_journal import PostgresRunJournal
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, Database
from tests.theatre.files.journal_conformance import (
    ACTIVATED,
    COMMITTED,
    CREATED,
    OTHER_THEATRE_ID,
    THEATRE_ID,
    JournalConformance,
    content,
    remark,
    result,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import canonical_line
from theatre.engine.errors import JournalError, NotFoundError, StateConflictError
from theatre.engine.models import (
    EpisodeOutcome,
    EpisodeResult,
    InvocationRecord,
    InvocationStatus,
    Verdict,
)
from theatre.engine.replay.context import to_the_end

RESOLVED = AuditEvent(
    event_type="resolved",
    from_state="SETTLING",
    to_state="RESOLVED",
    detail={"outcome": "no_certificate", "outcome_reason": "nothing-scored", "results_hash": None},
    at="2026-11-21T12:00:09.000000Z",
)
SETTLING = AuditEvent(
    event_type="settling",
    from_state="ACTIVE",
    to_state="SETTLING",
    detail={},
    at="2026-11-21T12:00:08.000000Z",
)


@pytest.fixture
def theatres(database: Database) -> Database:
    """A database with two theatres whose commitments are stored and not yet made."""
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    for theatre_id in (THEATRE_ID, OTHER_THEATRE_ID):
        database.add_theatre(theatre_id, **COMMITMENT)
    return database


class TestPostgresRunJournal(JournalConformance):
    @pytest.fixture(autouse=True)
    def _place(self, theatres: Database) -> None:
        self.database = theatres

    @contextlib.asynccontextmanager
    async def opened(self, theatre_id: str) -> AsyncIterator[PostgresRunJournal]:
        engine = self.database.engine()
        try:
            yield PostgresRunJournal(engine, theatre_id)
        finally:
            await engine.dispose()


def test_what_a_run_writes_shows_in_columns(theatres: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        journal = PostgresRunJournal(engine, THEATRE_ID)
        for event in (CREATED, COMMITTED, ACTIVATED):
            await journal.note(event)
        await journal.append([result(1), result(2), refused(3)], [remark(1)])
        await journal.note(SETTLING)
        await journal.note(RESOLVED)

    theatres.play(scene)
    (row,) = theatres.rows(
        """
        SELECT state, progress, total_episodes, failure_count, refused_count, outcome,
            outcome_reason, certificate_id, started_at::text, resolved_at::text, version
        FROM theatres WHERE id = %s
        """,
        THEATRE_ID,
    )
    assert row == {
        "state": "RESOLVED",
        "progress": 3,
        "total_episodes": 3,
        "failure_count": 1,
        "refused_count": 1,
        "outcome": "no_certificate",
        "outcome_reason": "nothing-scored",
        "certificate_id": None,
        "started_at": "2026-11-21 12:00:02+00",
        "resolved_at": "2026-11-21 12:00:09+00",
        "version": 6,
    }
    episodes = theatres.rows("""
        SELECT seq, episode_id, invocation_status, outcome, latency_ms, scores_json, line
        FROM theatre_episode_scores ORDER BY seq LIMIT 2
    """)
    assert episodes == [
        {
            "seq": 1,
            "episode_id": "épisode \u2028 1",
            "invocation_status": "success",
            "outcome": "scored",
            "latency_ms": None,
            "scores_json": {"a": 1e-9, "b": None},
            "line": result(1).line,
        },
        {
            "seq": 2,
            "episode_id": "épisode \u2028 2",
            "invocation_status": "error",
            "outcome": "missing",
            "latency_ms": None,
            "scores_json": {"a": None, "b": None},
            "line": result(2).line,
        },
    ]


def refused(seq: int) -> EpisodeResult:
    """An episode that was declined, whose texts hold what PostgreSQL's cannot."""
    return EpisodeResult(
        seq=seq,
        episode_id="nul \0 in an id",
        status=InvocationStatus.REFUSED,
        outcome=EpisodeOutcome.EXCLUDED,
        scores={"nul \0": Verdict.EXCLUDED},
        facts={"note": "\0"},
        record=InvocationRecord(
            {"calls": [{"repeat": 0, "attempts": [{"response": {"latency_ms": 41}}]}], "note": "\0"}
        ),
    )


def test_the_bytes_keep_what_columns_cannot_hold(theatres: Database) -> None:
    event = AuditEvent(event_type="remark", detail={"\0": ["\0"]}, at=CREATED.at)

    async def scene(engine: AsyncEngine) -> None:
        journal = PostgresRunJournal(engine, THEATRE_ID)
        await journal.append([refused(3)], [event])
        results, entries = await content(journal)
        assert results == [refused(3)]
        assert results[0].record.line == canonical_line(refused(3).record.document)
        assert entries[0]["detail"] == {"\0": ["\0"]}

    theatres.play(scene)
    assert theatres.rows(
        "SELECT episode_id, scores_json, latency_ms FROM theatre_episode_scores"
    ) == [
        {"episode_id": "nul \ufffd in an id", "scores_json": {"nul \ufffd": None}, "latency_ms": 41}
    ]
    assert theatres.rows("SELECT detail_json FROM theatre_audit_events") == [
        {"detail_json": {"\ufffd": ["\ufffd"]}}
    ]


def test_a_batch_whose_events_are_refused_leaves_no_results(theatres: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        journal = PostgresRunJournal(engine, THEATRE_ID)
        with pytest.raises(StateConflictError, match="in SETTLING, got None"):
            await journal.append([result(1)], [remark(1), RESOLVED])
        assert await content(journal) == ([], [])

    theatres.play(scene)
    assert theatres.rows("SELECT DISTINCT progress FROM theatres") == [{"progress": 0}]


def test_what_goes_with_an_event_is_written_in_its_transaction(theatres: Database) -> None:
    async def rename(connection: AsyncConnection, event: AuditEvent) -> None:
        await connection.execute(
            text("UPDATE theatres SET error = :error WHERE id = :id"),
            {"error": event.event_type, "id": THEATRE_ID},
        )

    async def fail(connection: AsyncConnection, _: AuditEvent) -> None:
        await connection.execute(text("SELECT 1 / 0"))

    async def scene(engine: AsyncEngine) -> None:
        effects = {"created": rename, "committed": fail}
        journal = PostgresRunJournal(engine, THEATRE_ID, effects=effects)
        await journal.note(CREATED)
        with pytest.raises(DBAPIError, match="division by zero"):
            await journal.note(COMMITTED)
        assert len((await content(journal))[1]) == 1

    theatres.play(scene)
    query = "SELECT state, error FROM theatres WHERE id = %s"
    assert theatres.rows(query, THEATRE_ID) == [{"state": "DRAFT", "error": "created"}]


def test_a_worker_of_an_older_epoch_writes_nothing(theatres: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        old = PostgresRunJournal(engine, THEATRE_ID)
        await old.append([result(1)], [remark(1)])
        async with engine.begin() as connection:
            await connection.execute(text("UPDATE theatres SET run_epoch = 1"))
        before = await content(old)
        fenced = rf"^expected to hold the run of theatre {THEATRE_ID} in epoch 0, got epoch 1"
        with pytest.raises(StateConflictError, match=fenced):
            await old.append([result(2)], [remark(2)])
        with pytest.raises(StateConflictError, match=fenced):
            await old.note(remark(2))
        assert await content(old) == before
        await PostgresRunJournal(engine, THEATRE_ID, epoch=1).append([result(2)], [])

    theatres.play(scene)


def test_of_twenty_that_commit_at_once_one_does(theatres: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        await PostgresRunJournal(engine, THEATRE_ID).note(CREATED)
        journals = [PostgresRunJournal(engine, THEATRE_ID) for _ in range(20)]
        ended = await asyncio.gather(
            *(journal.note(COMMITTED) for journal in journals), return_exceptions=True
        )
        lost = [one for one in ended if isinstance(one, StateConflictError)]
        assert (len(ended), len(lost)) == (20, 19)
        assert {str(one) for one in lost} == {
            f"expected theatre {THEATRE_ID} in DRAFT, got COMMITTED"
        }
        assert len((await content(journals[0]))[1]) == 2

    theatres.play(scene)


def test_of_two_that_record_the_same_episode_one_does(theatres: Database) -> None:
    async def scene(engine: AsyncEngine) -> None:
        journals = [PostgresRunJournal(engine, THEATRE_ID) for _ in range(4)]
        ended = await asyncio.gather(
            *(journal.append([result(7)], [remark(n)]) for n, journal in enumerate(journals)),
            return_exceptions=True,
        )
        lost = [one for one in ended if isinstance(one, JournalError)]
        assert (len(lost), ended.count(None)) == (3, 1)
        results, entries = await content(journals[0])
        assert (results, len(entries)) == ([result(7)], 1)

    theatres.play(scene)


def test_answers_that_are_in_are_recorded_although_their_writer_is_cancelled(
    theatres: Database,
) -> None:
    batch = [result(seq) for seq in range(1, 1_001)]

    async def scene(engine: AsyncEngine) -> None:
        journal = PostgresRunJournal(engine, THEATRE_ID)
        writing = asyncio.create_task(journal.append(batch, [remark(1)]))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        results, entries = await content(journal)
        assert (results, len(entries)) == (batch, 1)

    theatres.play(scene)


def test_a_theatre_that_is_not_there_has_no_journal(theatres: Database) -> None:
    stranger = "00000000-0000-7000-8000-000000000000"

    async def scene(engine: AsyncEngine) -> None:
        with pytest.raises(NotFoundError, match=f"^expected theatre {stranger}, got none$"):
            await PostgresRunJournal(engine, stranger).append([result(1)], [])

    theatres.play(scene)


def test_a_long_journal_is_read_without_holding_it_in_memory(theatres: Database) -> None:
    episodes, padding = 6_000, 5_000
    with theatres.connected(APPLICATION) as connection:
        connection.execute(
            """
            INSERT INTO theatre_episode_scores
                (theatre_id, seq, episode_id, invocation_status, outcome, scores_json, line)
            SELECT %s, n, n, 'success', 'scored', '{}', convert_to(format(
                '{"episode_id":"%%s","facts":{},"invocation":{"pad":"%%s"},"outcome":"scored",'
                '"scores":{},"seq":%%s,"status":"success"}' || chr(10),
                n, repeat('x', %s), n), 'UTF8')
            FROM generate_series(1, %s) AS n
            """,
            [THEATRE_ID, padding, episodes],
        )

    async def scene(engine: AsyncEngine) -> None:
        journal = PostgresRunJournal(engine, THEATRE_ID)
        assert len(await journal.recorded()) == episodes
        tracemalloc.start()
        try:
            numbers = [one.seq async for one in journal.results()]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert numbers == list(range(1, episodes + 1))
        assert peak < episodes * padding / 2

    theatres.play(scene)


def test_a_cancellation_is_not_forgotten_where_the_transaction_fails_after_it() -> None:
    async def play() -> bool:
        may_fail = asyncio.Event()

        async def fail() -> None:
            await may_fail.wait()
            raise JournalError("expected nothing")

        writing = asyncio.ensure_future(to_the_end(fail()))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.sleep(0)
        may_fail.set()
        await asyncio.wait([writing])
        return writing.cancelled()

    assert asyncio.run(play())
