"""Each process hears of what any of them changed in a theatre."""

import asyncio

from backend.database.sessions import APPLICATION
from backend.jobs.announcements import ChangeListener
from tests.backend.databases import A_TEMPLATE, A_USER, Database

THEATRE_ID = "018f0000-0000-7000-8000-00000000000a"
OTHER_THEATRE_ID = "018f0000-0000-7000-8000-00000000000b"
PATIENCE_SECONDS = 60.0


def change(database: Database, theatre_id: str) -> None:
    with database.connected(APPLICATION) as connection:
        connection.execute("UPDATE theatres SET progress = 1 WHERE id = %s", [theatre_id])


def break_connection_of_listener(database: Database) -> None:
    with database.connected("postgres") as connection:
        (ended,) = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND starts_with(query, 'LISTEN')"
        ).fetchall()
    assert ended == {"count": 1}


def test_a_committed_change_is_told_to_whoever_waits_for_that_theatre(database: Database) -> None:
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    for theatre_id in (THEATRE_ID, OTHER_THEATRE_ID):
        database.add_theatre(theatre_id)

    async def scene() -> None:
        change_listener = ChangeListener(database.application)
        with (
            change_listener.subscribe(THEATRE_ID) as news,
            change_listener.subscribe(OTHER_THEATRE_ID) as other,
        ):
            async with change_listener.listen():
                # Told once without a reason, when somebody begins to listen.
                assert await news.wait(PATIENCE_SECONDS)
                assert await other.wait(0)
                await asyncio.to_thread(change, database, THEATRE_ID)
                assert await news.wait(PATIENCE_SECONDS)
                assert not await other.wait(0)
                await asyncio.to_thread(break_connection_of_listener, database)
                # What was announced meanwhile is lost: everybody looks.
                assert await news.wait(PATIENCE_SECONDS)
                assert await other.wait(PATIENCE_SECONDS)

    asyncio.run(scene())
