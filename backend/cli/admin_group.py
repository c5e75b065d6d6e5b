"""`echelon admin …`: what the operator does with what is stored, and says of claims."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.cli.account_groups import budget, invite, user
from backend.cli.database_work import end_on_refusal, open_owned_database, run_as_operator
from backend.database.migrations import open_database
from backend.database.sessions import application_engine, operator_engine
from backend.evidence_store import EvidenceStore
from backend.repositories.registered_constructs import Decision
from backend.repositories.users import find_user_id
from backend.runtime import now
from backend.services.constructs import decide_claim
from backend.services.integrity.backups import Backup, restore_backup, take_backup
from backend.services.integrity.fsck import StoreCheck, StoreReport, Verdict
from backend.services.integrity.restored_log import compare_restored_log, recover_service_log
from backend.services.resources import TheatreResources
from backend.settings import Settings
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    NamedPath,
    echo,
    json_option,
    print_document,
)
from theatre.transparency.notes import Checkpoint

T = TypeVar("T")
_EXIT_CODES = {Verdict.DAMAGED: ExitCode.CHECK_FAILED, Verdict.EMPTY: ExitCode.NOT_FOUND}
_VERDICTS = {
    Verdict.INTACT: "intact",
    Verdict.EMPTY: "EMPTY: no row to check, in a database that may be new or not restored",
    Verdict.DAMAGED: "DAMAGED",
}

# `echelon admin construct …`: whose construct ids are whose, as the operator says.


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


@click.group(no_args_is_help=True)
def admin() -> None:
    """Back up, restore and re-verify what is stored; users, invites, owners and budgets."""


for _group in (budget, construct, invite, user):
    admin.add_command(_group)


@admin.command()
@json_option
def fsck(*, as_json: bool) -> None:
    """Re-verify the whole evidence store and every row against it.

    Exit code 10 where one differs, 3 where there is nothing to check.
    """
    settings = end_on_refusal(Settings.from_environment)
    report = end_on_refusal(lambda: asyncio.run(_checked(settings)))
    if as_json:
        print_document(_document(report))
    else:
        _print(report)
    if report.verdict is not Verdict.INTACT:
        raise CommandEndedError(_EXIT_CODES[report.verdict])


@admin.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def backup(folder: Path, *, as_json: bool) -> None:
    """Copy the database and the evidence store into FOLDER; the service may go on meanwhile.

    Exit 10 where the store has lost objects, which the backup then lacks.
    """
    settings = end_on_refusal(Settings.from_environment)

    def taken() -> Backup:
        with open_owned_database(settings, migrated=True) as address:
            return take_backup(address, _store(settings), folder, at=now())

    done = end_on_refusal(taken)
    _print_backup("backed up", done, as_json=as_json)
    if done.damaged:
        raise CommandEndedError(ExitCode.CHECK_FAILED)


@admin.command()
@click.argument("folder", type=NamedPath(file_okay=False))
@json_option
def restore(folder: Path, *, as_json: bool) -> None:
    """Bring the backup in FOLDER into an empty database and the evidence store.

    Keys are no part of it: users log in anew, and the service signs nothing, where they are not
    copied by hand. The log is compared with what its witnesses have seen: exit code 6 where it is
    behind, 10 where they have seen another tree.
    """
    settings = end_on_refusal(Settings.from_environment)

    def restored() -> Backup:
        with open_owned_database(settings, migrated=False) as address:
            done = restore_backup(address, _store(settings), folder)
            _print_backup("restored", done, as_json=as_json)
            for other in _with_log(address, compare_restored_log):
                echo(f"warning: {other}", err=True)
            return done

    end_on_refusal(restored)


@admin.command("recover")
@click.argument("place")
def recover_log(place: str) -> None:
    """Take what the service's log lacks from a newer copy of it at PLACE, a URL or a folder.

    After a restore from an older backup. Every entry is held to the log's own signature, and
    nothing is signed. What theatres came to since the backup is in the log, and not in the rows.
    """
    settings = end_on_refusal(Settings.from_environment)

    def recovered() -> Checkpoint:
        with open_owned_database(settings, migrated=True) as address:
            return _with_log(address, lambda engine: recover_service_log(engine, place))

    done = end_on_refusal(recovered)
    echo(f"log       {done.origin}: {done.size} entries")


def _with_log(address: str, work: Callable[[AsyncEngine], Awaitable[T]]) -> T:
    async def worked() -> T:
        engine = operator_engine(address)
        try:
            return await work(engine)
        finally:
            await engine.dispose()

    return asyncio.run(worked())


def _print_backup(what: str, done: Backup, *, as_json: bool) -> None:
    if as_json:
        print_document({**done._asdict(), "damaged": list(done.damaged)})
        return
    for key in done.damaged:
        echo(f"damaged in the store, not in the backup  {key}")
    echo(f"{what}: {done.objects} objects of {done.bytes} bytes, and the rows of {done.taken_at}")


def _store(settings: Settings) -> EvidenceStore:
    return EvidenceStore(settings.evidence_url, settings.home.resolve() / "evidence")


async def _checked(settings: Settings) -> StoreReport:
    # It blocks; the loop has nothing else to do meanwhile.
    with open_database(settings) as address:
        engine = application_engine(address, pool_size=1)
        try:
            resources = TheatreResources.of(settings, clock=now, environment=os.environ)
            return await StoreCheck(engine, resources).run()
        finally:
            await engine.dispose()


def _document(report: StoreReport) -> dict[str, object]:
    return {
        "verdict": report.verdict,
        "theatres": report.theatres,
        "templates": report.templates,
        "uploads": report.uploads,
        "entries": report.entries,
        "bundles": report.bundles,
        "objects": report.objects,
        "findings": [one._asdict() for one in report.findings],
        "unnamed": list(report.unnamed),
    }


def _print(report: StoreReport) -> None:
    for one in report.findings:
        echo(f"{one.code}  {one.subject}")
        echo(f"    expected {one.expected}")
        echo(f"    got      {one.actual}")
    for key in report.unnamed:
        echo(f"named by nothing  {key}")
    echo(
        f"{_VERDICTS[report.verdict]}; {len(report.findings)} findings, "
        f"{report.theatres} theatres, {report.templates} templates, {report.uploads} uploads, "
        f"{report.entries} entries of the log, {report.bundles} bundles, {report.objects} objects, "
        f"{len(report.unnamed)} of them named by nothing"
    )
