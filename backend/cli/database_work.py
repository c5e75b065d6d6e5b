"""Commands' work in the service's database, with or without a running service."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple, TypeVar

import click
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.migrations import open_database
from backend.database.sessions import OWNER, application_engine, operator_engine
from backend.errors import BackendError, SettingsError
from backend.repositories.users import find_user_by_name
from backend.settings import Settings
from theatre.cli.exits import CommandEndedError, ExitCode, echo
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339

# How commands of the service end after an error.


T = TypeVar("T")


def end_on_refusal(action: Callable[[], T]) -> T:
    """Return what `action` returns; print an error of the service and end with exit code 5.

    One of the database that does not let it in ends with exit code 1.
    """
    try:
        return action()
    except BackendError as error:
        raise _ended(f"error ({error.code}): {error}", ExitCode.INVALID) from error
    except OperationalError as error:
        seen = str(error.orig).strip()
        message = f"error (database): expected a database that lets the service in, got: {seen}"
        raise _ended(message, ExitCode.FAILURE) from error


def _ended(message: str, code: ExitCode) -> CommandEndedError:
    for line in message.split("\n"):
        echo(line, err=True)
    return CommandEndedError(code)


def run_in_database(work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Do `work` in one transaction and return its result; an error ends the command."""
    return run_at_database(
        lambda address: _run_work(application_engine(address, pool_size=1), work)
    )


def run_at_database(work: Callable[[str], Coroutine[None, None, T]]) -> T:
    """Do `work` with the address of the database, as `run_in_database` does it."""
    settings = end_on_refusal(Settings.from_environment)

    def worked() -> T:
        with open_database(settings) as address:
            return asyncio.run(work(address))

    return end_on_refusal(worked)


def run_as_operator(work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Do `work` like `run_in_database`, with the rights of the owner of the tables."""
    settings = end_on_refusal(Settings.from_environment)

    def worked() -> T:
        with open_owned_database(settings, migrated=True) as address:
            return asyncio.run(_run_work(operator_engine(address), work))

    return end_on_refusal(worked)


@contextmanager
def open_owned_database(settings: Settings, *, migrated: bool) -> Iterator[str]:
    """Yield the address of the database as the owner of its tables."""
    if settings.database_url is None:
        with EmbeddedServer(settings.home) as server:
            if migrated:
                migrations.upgrade(server.address(OWNER))
            yield server.address(OWNER)
    elif settings.migration_url is None:
        raise SettingsError(
            "expected ECHELON_MIGRATION_URL, the database as the owner of its tables, got none"
        )
    else:
        yield settings.migration_url.get_secret_value()


async def require_user_id(connection: AsyncConnection, username: str) -> str:
    """Return the id of a user; UsageError for an unknown name."""
    user = await find_user_by_name(connection, username)
    if user is None:
        raise click.UsageError("there is no user of this name")
    return user.id


async def _run_work(engine: AsyncEngine, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    # It blocks; the event loop has no other task.
    try:
        async with engine.begin() as connection:
            return await work(connection)
    finally:
        await engine.dispose()


def row_document(row: NamedTuple) -> JsonObject:
    """Return a stored row as a document, its moments as RFC 3339."""
    members = row._asdict().items()
    return {
        name: format_rfc3339(one) if isinstance(one, datetime) else one for name, one in members
    }
