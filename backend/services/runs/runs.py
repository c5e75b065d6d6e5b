"""Runs for their owner: accepted, waited for, cancelled."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal, NamedTuple, NoReturn

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.jobs.announcements import ChangeListener, ChangeSignal
from backend.jobs.queue import queue_run
from backend.repositories.theatre_runs import UNFINISHED, StoredTheatre, change_run, lock_theatre
from backend.repositories.theatres import TheatreView, find_uploads
from backend.repositories.transparency_log import is_queued
from backend.services.resources import TheatreResources
from backend.services.runs.execution import WAITING, WAITING_BUDGET
from backend.services.theatres import (
    end_unfinished,
    read_theatre,
    read_usage,
    require_state,
    require_version,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import DatasetError, InvalidTransitionError, ProgrammeError
from theatre.engine.models import judge_providers, read_episodes
from theatre.engine.replay.preflight import largest_episode_bytes
from theatre.engine.scoring.provider import criteria_scorers
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.engine.theatre import CANCELLED
from theatre.files.datasets import verify_datasets

# Waits that end when the service stops.


async def wait_unless_stopping(
    stopping: asyncio.Event, changes: ChangeSignal, seconds: float
) -> bool:
    """Wait for a change or the service's stop, at most `seconds`; tell whether it stops."""
    waiting = [asyncio.create_task(changes.wait(seconds)), asyncio.create_task(stopping.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
    return stopping.is_set()


_LOOK_SECONDS = 5.0
"""Seconds until a change is seen whose announcement was lost."""


async def accept_run(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    user_id: str,
    versions: frozenset[int] | None,
    is_certificate_run: bool | None,
    ground_truth_path: str | None = None,
    answers_path: str | None = None,
    resources: TheatreResources,
) -> TheatreView:
    """Queue the run of a user's theatre and return it; it must be COMMITTED and not queued before.

    One that waits for its budget goes on as what it began; `is_certificate_run` is None where the
    request does not say, which is a run for a certificate where it begins.

    A run that could not be begun (`failed` in COMMITTED) may be asked for again. A rehearsal may
    run on another dataset, `ground_truth_path`, named as a template names one, and with the canned
    answers of an upload, `answers_path`. Raises NotFoundError, StateConflictError,
    RequestRefusedError for a version that is not in `versions`, InvalidTransitionError,
    ExecutionPathUnavailableError, ProgrammeError for a template that needs a judge which the
    service has not, and DatasetError where a committed dataset is not there as it was committed or
    the answers are none.
    """
    stored = await lock_theatre(connection, theatre_id, user_id=user_id)
    require_version(stored, versions)
    _require_idle(stored)
    if stored.run_status == WAITING_BUDGET:
        _require_same(
            stored, ground_truth_path, answers_path, is_certificate_run=is_certificate_run
        )
        await change_run(
            connection, theatre_id, lost_workers=0, error=None, updated_at=resources.clock()
        )
        await queue_run(connection, theatre_id)
        return await read_theatre(connection, theatre_id, user_id=user_id)
    is_certificate_run = is_certificate_run is not False
    require_state(stored, TheatreState.COMMITTED, to="run")
    stored.value().require_in_time(resources.clock())
    document = stored.value().template
    template = product_template(document)
    _require_judges(document, resources)
    if not is_certificate_run and await is_queued(connection, theatre_id):
        raise InvalidTransitionError(
            "cannot rehearse a theatre whose commitment is in the log: run it for its certificate, "
            "or cancel it and commit its template again"
        )
    uploads = await find_uploads(connection, user_id)
    rehearsal = await asyncio.to_thread(
        _checked_data, template, ground_truth_path, uploads, resources
    )
    answers = await asyncio.to_thread(_checked_answers, answers_path, uploads, resources)
    await change_run(
        connection,
        theatre_id,
        is_certificate_run=is_certificate_run,
        lost_workers=0,
        rehearsal_sha256=rehearsal,
        answers_sha256=answers,
        error=None,
        updated_at=resources.clock(),
    )
    await queue_run(connection, theatre_id)
    return await read_theatre(connection, theatre_id, user_id=user_id)


async def until_idle(
    engine: AsyncEngine,
    change_listener: ChangeListener,
    theatre_id: str,
    *,
    user_id: str,
    seconds: float,
    stopping: asyncio.Event,
) -> TheatreView:
    """Return a user's theatre once its run is over or waits for someone, or after `seconds`.

    At once where the service is stopping.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    stops = False
    with change_listener.subscribe(theatre_id) as changes:
        while True:
            async with engine.connect() as connection:
                view = await read_theatre(connection, theatre_id, user_id=user_id)
            left = deadline - loop.time()
            if view.run_status not in UNFINISHED or left <= 0 or stops:
                return view
            stops = await wait_unless_stopping(stopping, changes, min(_LOOK_SECONDS, left))


async def cancel_run(
    connection: AsyncConnection,
    engine: AsyncEngine,
    theatre_id: str,
    *,
    user_id: str,
    versions: frozenset[int] | None,
    resources: TheatreResources,
) -> TheatreView:
    """Cancel a user's theatre: one that is COMMITTED at once, a run when it stops.

    Raises NotFoundError, StateConflictError, RequestRefusedError as `accept_run`, and
    InvalidTransitionError unless it is COMMITTED, ACTIVE or waits for people.
    """
    stored = await lock_theatre(connection, theatre_id, user_id=user_id)
    require_version(stored, versions)
    is_waiting = stored.run_status == WAITING
    going_on = TheatreState.SETTLING if is_waiting else TheatreState.ACTIVE
    require_state(stored, TheatreState.COMMITTED, going_on, to="cancel")
    now = resources.clock()
    if stored.state == TheatreState.COMMITTED:
        await end_unfinished(connection, engine, stored, resources, outcome={**CANCELLED})
        return await read_theatre(connection, theatre_id, user_id=user_id)
    await change_run(connection, theatre_id, cancel_requested_at=now, updated_at=now)
    if is_waiting or stored.run_status == WAITING_BUDGET:
        # Queued once more, to be ended by a worker: the journal must have one writer.
        await queue_run(connection, theatre_id)
    return await read_theatre(connection, theatre_id, user_id=user_id)


async def refuse_settling(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> NoReturn:
    """Raise ExecutionPathUnavailableError for a user's market, InvalidTransitionError otherwise."""
    stored = await lock_theatre(connection, theatre_id, user_id=user_id)
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


def _require_same(
    stored: StoredTheatre, *paths: str | None, is_certificate_run: bool | None
) -> None:
    """Raise InvalidTransitionError for a request that would make another run of it."""
    is_other = is_certificate_run not in {None, stored.is_certificate_run}
    if is_other or any(path is not None for path in paths):
        raise InvalidTransitionError(
            "expected a run that waits for its budget to go on as it began, got a request for "
            "another: send none of its settings"
        )


def _require_judges(document: JsonObject, resources: TheatreResources) -> None:
    """Raise ProgrammeError for a template that needs a judge which the service has not."""
    for chosen in criteria_scorers(document).values():
        scorer = resources.scorers.get(str(chosen["scorer"]))
        missing = judge_providers(chosen.get("params")).difference(resources.judges.providers)
        if scorer is not None and scorer.judgement is not None and missing:
            raise ProgrammeError(
                f"expected judges of {', '.join(sorted(resources.judges.providers)) or 'none'}, "
                f"which this service has, got {', '.join(sorted(missing))}: run the template with "
                "the command line and a key of your own"
            )


def _checked_data(
    template: ProductTheatreTemplate,
    ground_truth_path: str | None,
    uploads: frozenset[str],
    resources: TheatreResources,
) -> str | None:
    """Verify what a run will read, and return the SHA-256 of what it reads instead, if it does."""
    verify_datasets(template, resources.data, resources.runners)
    if ground_truth_path is None:
        return None
    sha256 = resources.data.take(ground_truth_path, uploads=uploads)
    dataset = resources.data.open(ground_truth_path, sha256=sha256)
    try:
        episodes = read_episodes(dataset.lines(), max_bytes=largest_episode_bytes(template))
        if not sum(1 for _ in episodes):
            raise DatasetError(f"expected episodes in {ground_truth_path}, got none")
    finally:
        dataset.close()
    return sha256


def _checked_answers(
    answers_path: str | None, uploads: frozenset[str], resources: TheatreResources
) -> str | None:
    """Return the SHA-256 of canned answers that can be read, where a rehearsal names any."""
    if answers_path is None:
        return None
    # An upload of the user's own: an answer is shown again, and a dataset root is the operator's.
    sha256 = resources.data.take(answers_path, uploads=uploads)
    resources.data.canned_answers(sha256)
    return sha256


# Events of a theatre: one for each change that is seen.


MAX_SECONDS = 20.0
"""Seconds after which a stream ends; a client that still listens reconnects."""

EventKind = Literal["state", "progress", "hitl", "budget", "end"]


class TheatreEvent(NamedTuple):
    """One change, theatre and `usage` after it; the version is the id to resume from."""

    kind: EventKind
    view: TheatreView
    usage: JsonObject | None


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
                over = view.run_status not in (None, *UNFINISHED, WAITING, WAITING_BUDGET)
                is_new = over or view.version > after
                usage = await read_usage(connection, view) if is_new else None
            if view.version > after:
                yield TheatreEvent(_kind(view, state), view, usage)
                after, state = view.version, view.state
            if over:
                yield TheatreEvent("end", view, usage)
                return
            stops = await wait_unless_stopping(stopping, changes, min(_LOOK_SECONDS, left))


def _kind(view: TheatreView, state: str | None) -> EventKind:
    if view.run_status == WAITING:
        return "hitl"
    if view.run_status == WAITING_BUDGET:
        return "budget"
    return "progress" if view.state == state else "state"
