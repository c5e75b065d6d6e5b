"""Theatres that end before a construct is called: cancelled, or past the date to begin by.

The row's lock decides against a run that begins at the same moment. The worker of a run that was
taken up then has an older epoch: it can write nothing more
(docs/design/service.md, "COMMITTED can end").
"""

from __future__ import annotations

import logging
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.repositories.theatre_runs import (
    StoredTheatre,
    change_run,
    find_overdue_theatres,
    lock_committed,
)
from backend.services.resources import TheatreResources
from backend.services.theatre_bridge import end_within
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import TheatreError
from theatre.engine.theatre import OVERDUE

_log = logging.getLogger(__name__)


async def end_uncalled(
    connection: AsyncConnection,
    engine: AsyncEngine,
    stored: StoredTheatre,
    resources: TheatreResources,
    *,
    outcome: JsonObject,
) -> None:
    """Resolve a COMMITTED theatre, whose row the caller has locked, without a call."""
    await end_within(connection, engine, stored, resources, outcome=outcome)
    await change_run(
        connection,
        stored.id,
        run_status="cancelled",
        # A new epoch refuses the writes of a worker that has just taken the run up.
        run_epoch=stored.run_epoch + 1,
        run_job_id=None,
        error=None,
    )


async def end_overdue(engine: AsyncEngine, resources: TheatreResources, *, at: datetime) -> int:
    """End every theatre that did not begin in time, a transaction each; return how many."""
    async with engine.connect() as connection:
        found = await find_overdue_theatres(connection, at=at)
    ended = 0
    for theatre_id in found:
        try:
            async with engine.begin() as connection:
                stored = await lock_committed(connection, theatre_id)
                if stored is not None and stored.value().is_overdue(at):
                    await end_uncalled(connection, engine, stored, resources, outcome={**OVERDUE})
                    ended += 1
        except TheatreError as error:
            fields = {"theatre_id": theatre_id, "code": error.code}
            _log.warning("an overdue theatre cannot be ended", extra={"fields": fields})
    return ended
