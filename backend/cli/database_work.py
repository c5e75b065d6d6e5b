"""What commands do in the service's database, beside a running service or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.cli.refusals import or_end
from backend.database.opening import opened_database
from backend.database.sessions import application_engine
from backend.repositories.users import user_by_name
from backend.settings import Settings

T = TypeVar("T")


def in_database(work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Do `work` in one transaction and return what it does; a refusal ends the command."""
    settings = or_end(Settings.from_environment)
    return or_end(lambda: asyncio.run(_worked(settings, work)))


async def user_id_of(connection: AsyncConnection, username: str) -> str:
    """Return the id of a user; UsageError for a name that nobody has."""
    user = await user_by_name(connection, username)
    if user is None:
        raise click.UsageError("expected the name of a user, got one that nobody has")
    return user.id


async def _worked(settings: Settings, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    # It blocks; the loop has nothing else to do meanwhile.
    with opened_database(settings) as address:
        engine = application_engine(address, pool_size=1)
        try:
            async with engine.begin() as connection:
                return await work(connection)
        finally:
            await engine.dispose()
