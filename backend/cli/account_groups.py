"""`echelon admin user …`, `invite …` and `budget …`: who may use the service, and for how much."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from uuid import UUID

import click
from pydantic import SecretStr, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.auth.credentials import Passwords
from backend.cli.database_work import require_user_id, row_document, run_as_operator
from backend.database.models.judging import UNITS
from backend.repositories import users
from backend.repositories.judge_ledger import UserBudget, read_budgets, set_budget
from backend.repositories.users import ListedUser, StoredInvite
from backend.runtime import now
from backend.schemas.accounts import Budgets, NewPassword, Registration
from backend.schemas.base import RequestDocument
from backend.services.accounts import MAX_DAYS, NewInvite, create_invite, insert_new_user
from theatre.cli.exits import echo, is_terminal, json_option, print_document
from theatre.cli.tables import print_table
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.engine.schema_registry import model_message

T = TypeVar("T", bound=RequestDocument)
_LONGEST_LINE = 4096
_LONGEST_NOTE = 200


class _Password(RequestDocument):
    password: NewPassword


@click.group(no_args_is_help=True)
def user() -> None:
    """Make, list, disable and enable users; set their passwords."""


@user.command()
@click.argument("username")
@click.option("--email", required=True, help="Their address.")
@click.option("--operator", "is_operator", is_flag=True, help="Who answers for this service.")
def create(username: str, email: str, *, is_operator: bool) -> None:
    """Make the user USERNAME, however registration is set.

    The password is asked for, or is the first line of stdin; it is no argument, which others on
    the machine could read.
    """
    given = {"username": username, "email": email, "password": _read_password()}
    new = _checked(Registration, given)
    password_hash = _hashed(new.password)

    async def made(connection: AsyncConnection) -> str:
        return await insert_new_user(
            connection,
            username=new.username,
            email=new.email,
            password_hash=password_hash,
            at=now(),
            is_operator=is_operator,
        )

    user_id = run_as_operator(made)
    echo(f"{username}: {'operator' if is_operator else 'user'} {user_id}")


@user.command("list")
@json_option
def list_users(*, as_json: bool) -> None:
    """List all users, the oldest first."""
    found = run_as_operator(users.list_users)
    if as_json:
        print_document({"users": [row_document(one) for one in found]})
        return
    rows = [
        (one.username, one.email, "operator" if one.is_operator else "user", _user_status(one))
        for one in found
    ]
    print_table(("name", "email", "kind", "standing"), rows)


@user.command()
@click.argument("username")
def disable(username: str) -> None:
    """End all tokens, pages and keys of USERNAME at once, and let them in no more.

    What they have started goes on: a run that is queued or under way ends and stands in the log.
    """

    async def disabled(connection: AsyncConnection, user_id: str) -> None:
        await users.disable_user(connection, user_id, at=now())

    _with_user(username, disabled)
    echo(f"{username}: disabled")


@user.command()
@click.argument("username")
def enable(username: str) -> None:
    """Let USERNAME log in again; tokens and keys from before stay ended."""
    _with_user(username, users.enable_user)
    echo(f"{username}: enabled")


@user.command()
@click.argument("username")
def password(username: str) -> None:
    """Set the password of USERNAME, asked for or read from stdin, and end their tokens.

    Keys stay good: `echelon key list` and `echelon key revoke`, or disable and enable the user.
    """
    password_hash = _hashed(_checked(_Password, {"password": _read_password()}).password)

    async def replaced(connection: AsyncConnection, user_id: str) -> None:
        await users.replace_password(connection, user_id, password_hash)

    _with_user(username, replaced)
    echo(f"{username}: password set, tokens ended")


def _read_password() -> str:
    """Return a password: asked for twice on a terminal, else the first line of stdin."""
    if is_terminal(sys.stdin):
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    return sys.stdin.readline(_LONGEST_LINE).rstrip("\r\n")


def _checked(kind: type[T], given: Mapping[str, str]) -> T:
    """Return a valid document; UsageError that names what is wrong, without the value."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        wrong = [
            f"{one['loc'][0]}: {model_message(one)}"
            for one in error.errors(include_input=False, include_url=False)
        ]
        raise click.UsageError("; ".join(wrong)) from None


def _hashed(password: SecretStr) -> str:
    return asyncio.run(Passwords().hash(password.get_secret_value()))


def _with_user(username: str, change: Callable[[AsyncConnection, str], Awaitable[object]]) -> None:
    """Change a user, disabled or not; NotFoundError for an unknown name."""

    async def changed(connection: AsyncConnection) -> None:
        user_id = await users.find_user_id(connection, username)
        if user_id is None:
            raise NotFoundError(
                f"expected a user {username}, got none: echelon admin user list has all names"
            )
        await change(connection, user_id)

    run_as_operator(changed)


def _user_status(one: ListedUser) -> str:
    return f"disabled {format_rfc3339(one.disabled_at)}" if one.disabled_at else "enabled"


# `echelon admin invite …`: for `ECHELON_REGISTRATION=invite`.


@click.group(no_args_is_help=True)
def invite() -> None:
    """Make, list and revoke invites to register."""


@invite.command("create")
@click.option("--note", default="", help="Whom it is for; up to 200 characters, shown by `list`.")
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, MAX_DAYS))
@json_option
def create_(note: str, days: int, *, as_json: bool) -> None:
    """Make an invite and print it, this once. It is good for one registration."""
    if len(note) > _LONGEST_NOTE:
        raise click.UsageError(f"expected a note of up to {_LONGEST_NOTE} characters, got more")

    async def made(connection: AsyncConnection) -> NewInvite:
        return await create_invite(connection, note=note, days=days, clock=now)

    new = run_as_operator(made)
    if as_json:
        print_document({"code": new.code, **row_document(new.stored)})
        return
    echo(new.code)
    echo(f"until {format_rfc3339(new.stored.expires_at)}; it is not shown again", err=True)


@invite.command("list")
@json_option
def list_invites(*, as_json: bool) -> None:
    """List all invites, the newest first, also those that are good no more."""
    found = run_as_operator(users.list_invites)
    if as_json:
        print_document({"invites": [row_document(one) for one in found]})
        return
    print_table(
        ("id", "note", "standing"), [(one.id, one.note, _invite_status(one)) for one in found]
    )


@invite.command()
@click.argument("invite_id", type=click.UUID)
def revoke(invite_id: UUID) -> None:
    """Revoke the invite INVITE_ID; an id is what `list` shows. One that is used stays used."""

    async def revoked(connection: AsyncConnection) -> StoredInvite:
        stored = await users.revoke_invite(connection, str(invite_id), at=now())
        if stored is None:
            raise NotFoundError(
                f"expected an invite {invite_id}, got none: echelon admin invite list has all ids"
            )
        return stored

    echo(f"{invite_id}: {_invite_status(run_as_operator(revoked))}")


def _invite_status(one: StoredInvite) -> str:
    if one.used_at is not None:
        return f"used by {one.used_by} {format_rfc3339(one.used_at)}"
    if one.revoked_at is not None:
        return f"revoked {format_rfc3339(one.revoked_at)}"
    word = "until" if one.expires_at > now() else "expired"
    return f"{word} {format_rfc3339(one.expires_at)}"


# `echelon admin budget …`: what users' runs may spend on the operator's judges.


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
        document = Budgets.model_validate({"day": day, "budgets": found})
        print_document(document.model_dump(mode="json"))
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
