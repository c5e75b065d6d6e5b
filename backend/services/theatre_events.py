"""Events of a theatre: one for each change that is seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal, NamedTuple

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.jobs.announcements import ChangeListener
from backend.repositories.theatre_runs import UNFINISHED
from backend.repositories.theatre_views import TheatreView
from backend.services.stopping import wait_unless_stopping
from backend.services.theatre_bridge import WAITING
from backend.services.theatres import read_theatre

_LOOK_SECONDS = 5.0
"""Seconds until a change is seen whose announcement was lost."""
MAX_SECONDS = 20.0
"""Seconds after which a stream ends; a client that still listens reconnects."""

EventKind = Literal["state", "progress", "hitl", "end"]


class TheatreEvent(NamedTuple):
    """One change, and the theatre after it; its version is the id to resume from."""

    kind: EventKind
    view: TheatreView


async def theatre_events(
    engine: AsyncEngine,
    change_listener: ChangeListener,
    theatre_id: str,
    *,
    user_id: str,
    after: int,
    stopping: asyncio.Event,
) -> AsyncGenerator[TheatreEvent, None]:
    """Yield what changes in a user's theatre behind version `after`, until its run is over.

    Or until the service stops, or after MAX_SECONDS: the client reconnects then.
    Between two reads no connection is held. NotFoundError where it is not theirs.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + MAX_SECONDS
    state = None
    stops = False
    with change_listener.subscribe(theatre_id) as changes:
        while not stops and (left := deadline - loop.time()) > 0:
            async with engine.connect() as connection:
                view = await read_theatre(connection, theatre_id, user_id=user_id)
            over = view.run_status is not None and view.run_status not in (*UNFINISHED, WAITING)
            if view.version > after:
                yield TheatreEvent(_kind(view, state), view)
                after, state = view.version, view.state
            if over:
                yield TheatreEvent("end", view)
                return
            stops = await wait_unless_stopping(stopping, changes, min(_LOOK_SECONDS, left))


def _kind(view: TheatreView, state: str | None) -> EventKind:
    if view.run_status == WAITING:
        return "hitl"
    return "progress" if view.state == state else "state"
