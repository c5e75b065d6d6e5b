"""`echelon admin construct …`: whose construct ids are whose, as the operator says."""

from __future__ import annotations

from collections.abc import Callable

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.cli.database_work import run_as_operator
from backend.repositories.registered_constructs import Decision
from backend.repositories.users import find_user_id
from backend.runtime import now
from backend.services.constructs import decide_claim
from theatre.cli.output import echo


@click.group(no_args_is_help=True)
def construct() -> None:
    """Decide whose construct ids are whose."""


def _construct_options(command: Callable[..., None]) -> Callable[..., None]:
    """Take construct ids and the user whose they are, or are not."""
    command = click.option("--user", "username", required=True, help="Who claims them.")(command)
    return click.argument("construct_ids", metavar="CONSTRUCT_ID…", nargs=-1, required=True)(
        command
    )


@construct.command()
@_construct_options
def confirm(construct_ids: tuple[str, ...], username: str) -> None:
    """Confirm that CONSTRUCT_IDs belong to a user: runs that end from now on count.

    All of them or, where one is not claimed by the user, none. A claim lapses after 14 days.
    """
    _decide(construct_ids, "confirmed", username)


@construct.command()
@_construct_options
def reject(construct_ids: tuple[str, ...], username: str) -> None:
    """Reject a user's claims of CONSTRUCT_IDs: others may claim them, the user in 14 days."""
    _decide(construct_ids, "rejected", username)


@construct.command()
@_construct_options
def release(construct_ids: tuple[str, ...], username: str) -> None:
    """Take confirmed CONSTRUCT_IDs from a user: others may claim them, old runs do not count."""
    _decide(construct_ids, "released", username)


def _decide(construct_ids: tuple[str, ...], decision: Decision, username: str) -> None:
    async def decided(connection: AsyncConnection) -> None:
        user_id = await find_user_id(connection, username)
        if user_id is None:
            raise click.UsageError("there is no user of this name")
        for one in construct_ids:
            await decide_claim(connection, one, decision, user_id=user_id, at=now())

    run_as_operator(decided)
    for one in construct_ids:
        echo(f"{decision} for {username}: {one}")
