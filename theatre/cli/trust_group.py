"""`echelon trust`: the issuer's keys, shown, rotated and revoked."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import click

from theatre.api.issuer_log import append_entries, compare_log, issuer_home
from theatre.api.run_log import sweep
from theatre.api.workspace import Workspace
from theatre.cli.exits import NamedPath, echo, json_option, print_document
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import NotFoundError
from theatre.transparency.errors import MalformedError
from theatre.transparency.policy import Policy
from theatre.transparency.trust import key_entry


@click.group()
def trust() -> None:
    """Show, rotate and revoke the keys that sign your certificates."""


@trust.command()
@json_option
def show(*, as_json: bool) -> None:
    """Show the keys, the log and the policy of witnesses: what a reader needs to trust you."""
    home = issuer_home()
    current = home.open(issuer=Workspace.from_environment().issuer, at=datetime.now(UTC))
    asyncio.run(sweep(at=datetime.now(UTC)))
    if as_json:
        print_document(current.as_document())
        return
    echo(f"issuer   {current.issuer}")
    for trusted in current.keys:
        span = f"from {format_rfc3339(trusted.valid_from)}"
        if trusted.valid_until is not None:
            span += f" to {format_rfc3339(trusted.valid_until)}"
        if trusted.revoked_index is not None:
            span += f", revoked at entry {trusted.revoked_index}"
        echo(f"key      {trusted.key.kid} {span}")
    echo(f"log      {current.log}")
    echo(f"folder   {home.folder}")


@trust.command()
@json_option
def rotate(*, as_json: bool) -> None:
    """Sign with a new key from now on; the old one counts for what it has signed."""
    home = issuer_home()
    # By the key that counted when they were issued: the next one does not.
    asyncio.run(sweep(at=datetime.now(UTC)))
    now = datetime.now(UTC)
    current = home.open(issuer=Workspace.from_environment().issuer, at=now)
    # Before the keys are changed: a log that was restored cannot say so.
    asyncio.run(compare_log(home, current))
    rotated = home.rotate(current, at=now)
    asyncio.run(append_entries(home, rotated, [key_entry(key) for key in rotated.keys[-2:]]))
    if as_json:
        print_document(rotated.as_document())
    else:
        echo(f"key      {rotated.keys[-1].key.kid} from {format_rfc3339(now)}")


@trust.command()
@click.argument("kid")
@json_option
def revoke(kid: str, *, as_json: bool) -> None:
    """Refuse the signatures of the key KID on everything that is logged from now on.

    A key that may be in other hands is revoked; a new one signs from now on. What the log has
    before this still counts: a thief could not have put it there.
    """
    home = issuer_home()
    current = home.read()
    if current is None:
        raise NotFoundError(f"expected one of your keys (none yet), got {kid!r:.100}")
    # As `rotate`: what the log has before the revocation counts.
    asyncio.run(sweep(at=datetime.now(UTC)))
    now = datetime.now(UTC)
    entry = key_entry(current.find_key(kid), revoked_at=now)
    appended = asyncio.run(append_entries(home, current, [entry]))
    revoked = current.revoked(kid, index=appended.indices[0])
    home.write(revoked)
    if kid == revoked.keys[-1].key.kid:
        revoked = home.rotate(revoked, at=now)
        asyncio.run(append_entries(home, revoked, [key_entry(revoked.keys[-1])]))
    if as_json:
        print_document(revoked.as_document())
    else:
        echo(f"revoked  {kid} at entry {appended.indices[0]} of the log")
        echo(f"key      {revoked.keys[-1].key.kid}")


@trust.command()
@click.argument("file", type=NamedPath(dir_okay=False))
def policy(file: Path) -> None:
    """Take FILE, a C2SP tlog-policy, as yours: it names the witnesses that your log asks.

    Readers of your trust.json ask for the quorum that it states.
    """
    home = issuer_home()
    current = home.open(issuer=Workspace.from_environment().issuer, at=datetime.now(UTC))
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"expected the policy in UTF-8 in {file}, got other bytes") from error
    asked = Policy.parse(text.encode())
    if set(asked.logs) != {current.log}:
        raise MalformedError(f"expected the policy to name your log, {current.log}, and no other")
    home.write(current._replace(policy=asked, policy_text=text))
    for witness in asked.witnesses.values():
        echo(f"witness  {witness.key} {witness.url or 'not asked: it has no address'}")
    echo(f"quorum   {asked.quorum}")
