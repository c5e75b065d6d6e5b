"""`echelon registration …`: whose constructs are whose, as the operator says."""

from __future__ import annotations

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.cli.database_work import in_database, user_id_of
from backend.repositories.registered_constructs import confirm as confirm_construct
from backend.runtime import now
from theatre.cli.output import echo


@click.group(no_args_is_help=True)
def registration() -> None:
    """Confirm whose constructs are whose."""


@registration.command()
@click.argument("construct_ids", metavar="CONSTRUCT_ID…", nargs=-1, required=True)
@click.option("--user", "username", required=True, help="Whose constructs they are.")
def confirm(construct_ids: tuple[str, ...], username: str) -> None:
    """Confirm that CONSTRUCT_IDs belong to a user: their certificates count for routing then.

    All of them or, where one is not registered by the user, none.
    """

    async def confirmed(connection: AsyncConnection) -> None:
        user_id = await user_id_of(connection, username)
        for one in construct_ids:
            if not await confirm_construct(connection, one, user_id=user_id, at=now()):
                raise click.UsageError(
                    f"expected construct ids that {username} has registered, got {one}"
                )

    in_database(confirmed)
    for construct_id in construct_ids:
        echo(f"{construct_id} is {username}'s")
