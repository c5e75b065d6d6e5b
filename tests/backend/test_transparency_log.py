"""The log in rows keeps what a log must, and the database refuses every other change of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database.embedded.cluster import SUPERUSER
from backend.database.sessions import OWNER
from backend.repositories.transparency_log import PostgresLog, hold_writer_lock
from backend.services.transparency.writer import Pace
from tests.backend.databases import Database
from tests.theatre.transparency.log_conformance import LOG, LogConformance, write
from tests.theatre.transparency.log_stage import entry
from theatre.transparency.errors import LogForkError
from theatre.transparency.log import LogWriter


class TestPostgresLog(LogConformance):
    @pytest.fixture(autouse=True)
    def _place(self, database: Database) -> None:
        self.database = database

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[PostgresLog]:
        async with self._engine() as engine, hold_writer_lock(engine):
            yield PostgresLog(engine)

    @contextlib.asynccontextmanager
    async def unlocked(self) -> AsyncIterator[PostgresLog]:
        async with self._engine() as engine:
            yield PostgresLog(engine)

    @contextlib.asynccontextmanager
    async def _engine(self) -> AsyncIterator[AsyncEngine]:
        engine = self.database.engine()
        try:
            yield engine
        finally:
            await engine.dispose()

    async def change_a_tile(self) -> None:
        with self.database.connected(SUPERUSER) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("UPDATE log_entries SET entry = '{}' WHERE log_index = 0")

    def test_a_refused_writer_has_written_nothing(self) -> None:
        """Tiles are stored with the checkpoint that signs them, or not at all."""

        async def scene() -> None:
            async with self.opened() as store, self.unlocked() as other:
                await write(store, 0, 2)
                late = LogWriter(other, LOG.key, LOG.sign)
                await late.open()
                await write(store, 2, 3)
                with pytest.raises(LogForkError, match="expected one writer"):
                    await late.append([entry(3)])
                await late.open()
                assert (await late.append([entry(4)])).indices == (3,)

        asyncio.run(scene())


def test_an_entry_of_a_transaction_that_took_long_is_not_passed_over(database: Database) -> None:
    """The writer does not look again at what older transactions queued: this one is not older."""
    insert = "INSERT INTO log_queue (type, entry) VALUES ('key/v1', %s)"

    async def scene(engine: AsyncEngine) -> None:
        store = PostgresLog(engine)
        writer = LogWriter(store, LOG.key, LOG.sign)
        await writer.open()
        with database.connected(OWNER) as slow, slow.transaction():
            slow.execute(insert, [entry(1)])
            database.add("log_queue", {"type": "key/v1", "entry": entry(2)})
            (taken,) = await store.take_queued()
            assert taken.entry == entry(2)
            await writer.append([taken.entry])
            assert await store.take_queued() == []
        (taken,) = await store.take_queued()
        assert taken.entry == entry(1)
        await writer.append([taken.entry])
        assert await store.take_queued() == []
        # One that starts again finds nothing to be logged twice.
        assert await PostgresLog(engine).take_queued() == []

    database.play(scene)


def test_a_burst_is_signed_at_once_and_then_a_checkpoint_a_second() -> None:
    pace = Pace(0.0)
    waits = [pace.seconds_to_wait(0.0) for _ in range(8)]
    assert waits == [0.0] * 8
    assert [pace.seconds_to_wait(float(second)) for second in (0, 1, 2)] == [1.0, 1.0, 1.0]
    # Ten quiet seconds, and it is idle again.
    assert [pace.seconds_to_wait(12.0) for _ in range(8)] == [0.0] * 8
