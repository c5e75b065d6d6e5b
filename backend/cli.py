"""`echelon serve` and `echelon key`: the service's part of the command line."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import NoReturn, TypeVar

import click
import uvicorn
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.auth.principals import Scope
from backend.database.opening import opened_database
from backend.database.sessions import application_engine
from backend.errors import BackendError
from backend.logs import log_as_json
from backend.main import create_app, now
from backend.repositories.registered_constructs import confirm as confirm_construct
from backend.repositories.users import user_by_name
from backend.services.api_keys import MAX_DAYS, NewKey, create_key
from backend.settings import Settings
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo, json_option, print_document
from theatre.engine.clock import format_rfc3339

_DRAIN_SECONDS = 30
_KEEP_ALIVE_SECONDS = 5
T = TypeVar("T")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
def serve(host: str, port: int) -> None:
    """Serve the HTTP interface until SIGTERM or SIGINT; requests at work are finished first."""
    settings = _or_end(Settings.from_environment)
    log_as_json(settings.log_level)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(settings),
            host=host,
            port=port,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
    )
    for ending in (signal.SIGINT, signal.SIGTERM):
        # The server drains, and then raises the signal again: being told to end is no failure.
        signal.signal(ending, lambda *_: None)
    with contextlib.suppress(SystemExit):  # Of a start that failed: the log says of what.
        server.run()
    if not server.started:
        echo("error (service): expected the service to start, got what the log says", err=True)
        raise CommandEndedError(ExitCode.FAILURE)


@click.group()
def key() -> None:
    """Make keys for tools."""


@key.command()
@click.option("--user", "username", required=True, help="Whose key it is.")
@click.option("--name", required=True, help="What it is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it may do; more than once for more.",
)
@click.option("--days", default=90, show_default=True, type=click.IntRange(1, MAX_DAYS))
@json_option
def create(username: str, name: str, scopes: tuple[str, ...], days: int, *, as_json: bool) -> None:
    """Make a key and print it, this once."""
    settings = _or_end(Settings.from_environment)
    made = _or_end(
        lambda: asyncio.run(_created(settings, username, name, tuple(map(Scope, scopes)), days))
    )
    if as_json:
        print_document(
            {
                "key": made.key,
                "id": made.stored.id,
                "name": made.stored.name,
                "scopes": made.stored.scopes,
                "expires_at": format_rfc3339(made.stored.expires_at),
            }
        )
    else:
        echo(made.key)
        echo(f"until {format_rfc3339(made.stored.expires_at)}; it is not shown again", err=True)


async def _created(
    settings: Settings, username: str, name: str, scopes: tuple[Scope, ...], days: int
) -> NewKey:
    # The loop has nothing else to do meanwhile.
    with opened_database(settings) as address:
        engine = application_engine(address, pool_size=1)
        try:
            async with engine.begin() as connection:
                user_id = await _user(connection, username)
                return await create_key(
                    connection, user_id=user_id, name=name, scopes=scopes, days=days, clock=now
                )
        finally:
            await engine.dispose()


async def _user(connection: AsyncConnection, username: str) -> str:
    user = await user_by_name(connection, username)
    if user is None:
        raise click.UsageError("expected the name of a user, got one that nobody has")
    return user.id


def _or_end(action: Callable[[], T]) -> T:
    try:
        return action()
    except BackendError as error:
        _end(error)


def _end(error: BackendError) -> NoReturn:
    for line in f"error ({error.code}): {error}".split("\n"):
        echo(line, err=True)
    raise CommandEndedError(ExitCode.INVALID) from error


@click.group()
def registration() -> None:
    """Confirm whose constructs are whose."""


@registration.command()
@click.argument("construct_id")
@click.option("--user", "username", required=True, help="Whose construct it is.")
def confirm(construct_id: str, username: str) -> None:
    """Confirm that CONSTRUCT_ID belongs to a user: its certificates count for routing then."""
    settings = _or_end(Settings.from_environment)
    if not _or_end(lambda: asyncio.run(_confirmed(settings, construct_id, username))):
        raise click.UsageError("expected a construct id that this user has registered, got none")
    echo(f"{construct_id} is {username}'s")


async def _confirmed(settings: Settings, construct_id: str, username: str) -> bool:
    with opened_database(settings) as address:
        engine = application_engine(address, pool_size=1)
        try:
            async with engine.begin() as connection:
                user_id = await _user(connection, username)
                return await confirm_construct(connection, construct_id, user_id=user_id, at=now())
        finally:
            await engine.dispose()
