"""What only waits ends when the service stops, however long it might have gone on."""

import asyncio

import pytest

from backend.jobs.announcements import ChangeListener, ChangeSignal
from backend.services.runs import runs
from backend.services.runs.runs import wait_unless_stopping
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, USER_ID, Database
from tests.theatre.echelon_process import PATIENCE_SECONDS
from tests.theatre.files.journal_conformance import THEATRE_ID


def test_a_wait_ends_with_its_time_with_news_or_with_the_service() -> None:
    async def scene() -> tuple[bool, bool, bool]:
        stopping, changes = asyncio.Event(), ChangeSignal()
        timed_out = await wait_unless_stopping(stopping, changes, 0.001)
        asyncio.get_running_loop().call_soon(changes.notify)
        told = await wait_unless_stopping(stopping, changes, 2 * PATIENCE_SECONDS)
        asyncio.get_running_loop().call_soon(stopping.set)
        return timed_out, told, await wait_unless_stopping(stopping, changes, 2 * PATIENCE_SECONDS)

    assert asyncio.run(asyncio.wait_for(scene(), PATIENCE_SECONDS)) == (False, False, True)


def test_a_stream_of_events_ends_with_the_service(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_SECONDS", 2 * PATIENCE_SECONDS)
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    database.add_theatre(THEATRE_ID, **COMMITMENT)

    async def scene() -> list[str]:
        engine, stopping = database.engine(), asyncio.Event()
        kinds = []
        events = runs.theatre_events(
            engine,
            ChangeListener(database.application),
            THEATRE_ID,
            user_id=USER_ID,
            after=0,
            stopping=stopping,
        )
        async for event in events:
            kinds.append(event.kind)
            stopping.set()
        await engine.dispose()
        return list(kinds)

    assert asyncio.run(asyncio.wait_for(scene(), PATIENCE_SECONDS)) == ["state"]
