"""`echelon admin budget …`: what users' runs may spend on the operator's judges."""

from __future__ import annotations

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.cli.database_work import require_user_id, run_as_operator
from backend.database.models.judging import UNITS
from backend.repositories.judge_ledger import UserBudget, read_budgets, set_budget
from backend.runtime import now
from backend.services.budgets import budget_documents
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.tables import print_table

_AMOUNT = click.IntRange(0, 10**15)


@click.group(no_args_is_help=True)
def budget() -> None:
    """Show and set what users' runs may spend on judges; without one, nothing."""


@budget.command()
@click.argument("username")
@json_option
def show(username: str, *, as_json: bool) -> None:
    """Show the budgets of USERNAME: allowed, reserved, spent and left, in all and today."""
    day = now().date()

    async def read(connection: AsyncConnection) -> list[UserBudget]:
        user_id = await require_user_id(connection, username)
        return [*await read_budgets(connection, user_id, day=day)]

    found = run_as_operator(read)
    if as_json:
        print_document({"day": day.isoformat(), "budgets": budget_documents(found)})
        return
    rows = [
        (one.unit, whose, *map(str, (*balance, balance.left)), str(one.lost))
        for one in found
        for whose, balance in (("in all", one.total), ("today", one.today))
    ]
    print_table(("unit", "whose", "allowed", "reserved", "spent", "left", "lost"), rows)
    for one in found:
        echo(f"{one.unit}: at most {one.per_run} a run")


@budget.command("set")
@click.argument("username")
@click.option("--unit", type=click.Choice(UNITS), required=True, help="Whole ones of which.")
@click.option("--total", type=_AMOUNT, required=True, help="In all, what is spent included.")
@click.option("--per-run", type=_AMOUNT, help="By one run; as much as in all without it.")
@click.option("--per-day", type=_AMOUNT, help="On one day in UTC; the same.")
def set_(username: str, unit: str, total: int, per_run: int | None, per_day: int | None) -> None:
    """Set what the runs of USERNAME may spend, those that wait for their budget included.

    `micros` are millionths of the currency of `ECHELON_JUDGE_PRICES`, `tokens` are those of models
    that it does not name.
    """

    async def changed(connection: AsyncConnection) -> None:
        await set_budget(
            connection,
            await require_user_id(connection, username),
            unit=unit,
            allowed=total,
            per_run=total if per_run is None else per_run,
            per_day=total if per_day is None else per_day,
            at=now(),
        )

    run_as_operator(changed)
    echo(f"{username}: at most {total} {unit}")
