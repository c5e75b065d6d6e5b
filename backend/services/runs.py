"""Runs as their owner asks for them: accepted, waited for, cancelled."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.repositories.theatre_runs import (
    UNFINISHED,
    StoredTheatre,
    change_run,
    hold_theatre,
)
from backend.repositories.theatre_views import TheatreView
from backend.services.resources import TheatreResources
from backend.services.theatre_bridge import WAITING
from backend.services.theatres import own_theatre, require_state
from theatre.engine.errors import InvalidTransitionError
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.files.dataset_checks import verify_datasets

_LOOK_SECONDS = 0.1


async def accept_run(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    user_id: str,
    is_certificate_run: bool,
    resources: TheatreResources,
) -> TheatreView:
    """Queue the run of a user's theatre and return it: COMMITTED, and not asked before.

    A run that could not be begun (`failed` in COMMITTED) may be asked for again. Raises
    NotFoundError, StateConflictError, InvalidTransitionError, ExecutionPathUnavailableError, and
    DatasetError where a committed dataset is not there as it was committed.
    """
    stored = await hold_theatre(connection, theatre_id, user_id=user_id)
    _require_idle(stored)
    require_state(stored, TheatreState.COMMITTED, to="run")
    template = product_template(stored.value().template)
    await asyncio.to_thread(_check_data, template, resources)
    await change_run(
        connection,
        theatre_id,
        run_status="queued",
        is_certificate_run=is_certificate_run,
        error=None,
        updated_at=resources.clock(),
    )
    return await own_theatre(connection, theatre_id, user_id=user_id)


async def until_idle(
    engine: AsyncEngine, theatre_id: str, *, user_id: str, seconds: float
) -> TheatreView:
    """Return a user's theatre once its run is over or waits for people, or after `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        async with engine.connect() as connection:
            view = await own_theatre(connection, theatre_id, user_id=user_id)
        if view.run_status not in UNFINISHED or loop.time() >= deadline:
            return view
        await asyncio.sleep(_LOOK_SECONDS)


async def cancel_run(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    user_id: str,
    resources: TheatreResources,
) -> TheatreView:
    """Cancel the run of a user's theatre: at once where it waits for people, else when it stops.

    Raises NotFoundError, StateConflictError, and InvalidTransitionError unless it is ACTIVE or
    waits for people.
    """
    stored = await hold_theatre(connection, theatre_id, user_id=user_id)
    is_waiting = stored.run_status == WAITING
    require_state(
        stored,
        TheatreState.SETTLING if is_waiting else TheatreState.ACTIVE,
        to="cancel",
    )
    now = resources.clock()
    if is_waiting:
        # Taken up once more, to be ended: the journal has one writer.
        await change_run(
            connection, theatre_id, cancel_requested_at=now, run_status="queued", updated_at=now
        )
    else:
        await change_run(connection, theatre_id, cancel_requested_at=now, updated_at=now)
    return await own_theatre(connection, theatre_id, user_id=user_id)


async def refuse_settling(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> NoReturn:
    """Raise ExecutionPathUnavailableError for a user's market, InvalidTransitionError otherwise."""
    stored = await hold_theatre(connection, theatre_id, user_id=user_id)
    # Raises for a market and a simulation.
    product_template(stored.value().template)
    raise InvalidTransitionError(
        f"expected a market to settle, got a replay in {stored.state}: it settles by itself"
    )


def _require_idle(stored: StoredTheatre) -> None:
    if stored.run_status in UNFINISHED:
        raise InvalidTransitionError(
            f"expected a theatre that does not run, got one in {stored.state} whose run is "
            f"{stored.run_status}: GET /theatres/{stored.id} says how far it is"
        )


def _check_data(template: ProductTheatreTemplate, resources: TheatreResources) -> None:
    verify_datasets(template, resources.data)
