"""`echelon key …`: keys for tools, and the keys that sign certificates and the log."""

import contextlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from shlex import quote
from uuid import UUID

import click
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.auth.credentials import Scope
from backend.cli.database_work import (
    require_user_id,
    row_document,
    run_at_database,
    run_in_database,
)
from backend.database.sessions import application_engine
from backend.jobs.announcements import ChangeListener, running
from backend.repositories.users import StoredKey, find_keys
from backend.runtime import now
from backend.services.accounts import MAX_DAYS, NewKey, create_key, revoke
from backend.services.transparency.keys import LogKeys, log_revocation, publish_trust
from backend.services.transparency.writer import write_log
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.tables import print_table
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.files.trust_home import TrustHome
from theatre.transparency.trust import Trust

user_option = click.option("--user", "username", required=True, help="Whose key it is.")


@click.group(no_args_is_help=True)
def key() -> None:
    """Make, list and revoke keys for tools; make those that sign certificates."""


@key.command()
@user_option
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

    async def made(connection: AsyncConnection) -> NewKey:
        user_id = await require_user_id(connection, username)
        granted = tuple(map(Scope, scopes))
        return await create_key(
            connection, user_id=user_id, name=name, scopes=granted, days=days, clock=now
        )

    new = run_in_database(made)
    if as_json:
        shown = ("id", "name", "scopes", "expires_at")
        document = row_document(new.stored)
        print_document({"key": new.key, **{member: document[member] for member in shown}})
    else:
        echo(new.key)
        echo(f"until {format_rfc3339(new.stored.expires_at)}; it is not shown again", err=True)


@key.command("list")
@user_option
@json_option
def list_(username: str, *, as_json: bool) -> None:
    """List a user's keys, the newest first, also those that are good no more."""

    async def found(connection: AsyncConnection) -> Sequence[StoredKey]:
        return await find_keys(connection, await require_user_id(connection, username))

    keys = run_in_database(found)
    if as_json:
        print_document({"keys": [row_document(one) for one in keys]})
        return
    rows = [(one.id, one.name, " ".join(one.scopes), _key_status(one, now())) for one in keys]
    print_table(("id", "name", "scopes", "standing"), rows)


@key.command("revoke")
@click.argument("key_id", type=click.UUID)
@user_option
@json_option
def revoke_(key_id: UUID, username: str, *, as_json: bool) -> None:
    """Revoke the key KEY_ID, for good; an id is what `list` shows, not the key itself."""

    async def revoked(connection: AsyncConnection) -> StoredKey:
        user_id = await require_user_id(connection, username)
        return await revoke(connection, key_id=str(key_id), user_id=user_id, clock=now)

    stored = run_in_database(revoked)
    if as_json:
        print_document(row_document(stored))
    else:
        echo(f"{stored.name}: {_key_status(stored, now())}")


@key.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--issuer", required=True, help="The name on the certificates.")
@click.option("--rotate", is_flag=True, help="Sign certificates with a new key from now on.")
@click.option("--revoke", "kid", metavar="KID", help="Revoke a key in the log of the service.")
def trust(folder: Path, issuer: str, *, rotate: bool, kid: str | None) -> None:
    """Make the keys that sign certificates and log in FOLDER, and print their settings.

    What is there already stays. FOLDER is of one service: a second log of its key would be a fork.
    With --revoke, for a key that may be in other hands: what the log has behind that entry does not
    count, the service signs with it no more, and where it is the one that signs a new one is made.
    Then start the service again.
    """
    home = TrustHome(folder.resolve())
    if kid is not None:
        made = _revoke_issuer(home, kid)
    else:
        made = home.open(issuer=issuer, at=now())
        if rotate:
            made = home.rotate(made, at=now())
    # As a shell reads them: a folder may have spaces.
    echo(f"ECHELON_TRUST={quote(str(home.folder / 'trust.json'))}")
    echo(f"ECHELON_ISSUER_KEY={quote('file2:' + str(home.folder / 'issuer.pem'))}")
    echo(f"ECHELON_LOG_KEY={quote('file2:' + str(home.folder / 'log.pem'))}")
    echo(f"issuer {made.keys[-1].key.kid}", err=True)


def _revoke_issuer(home: TrustHome, kid: str) -> Trust:
    """Revoke a key in the service's log, then in `trust.json`; what died in between goes on."""
    current = home.read()
    if current is None:
        raise NotFoundError(f"expected a trust.json in {home.folder}, got none")
    current.find_key(kid)
    # The new key counts from before the old one is refused: what is issued in between is signed.
    at = now()

    async def revoked(address: str) -> Trust:
        engine = application_engine(address, pool_size=4)
        try:
            async with contextlib.AsyncExitStack() as stack:
                if home.has_keys():
                    # A service that runs writes the log; where none does, this process does.
                    keys = LogKeys(trust=current, sign_log=home.log_signer(current))
                    listener = await stack.enter_async_context(ChangeListener(address).listen())
                    await stack.enter_async_context(running(write_log(engine, listener, keys)))
                trust = await log_revocation(engine, current, kid, at=at)
            home.write(trust)
            if home.has_keys() and trust.keys[-1].revoked_index is not None:
                trust = home.rotate(trust, at=at)
            await publish_trust(engine, trust, at=at)
        finally:
            await engine.dispose()
        return trust

    return run_at_database(revoked)


def _key_status(stored: StoredKey, at: datetime) -> str:
    if stored.revoked_at is not None:
        return f"revoked {format_rfc3339(stored.revoked_at)}"
    word = "until" if stored.expires_at > at else "expired"
    return f"{word} {format_rfc3339(stored.expires_at)}"
