"""`echelon log`: the user's log, shown, exported, checked, and brought back after a restore."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from theatre.api.issuer_log import issuer_home, read_record
from theatre.api.log_network import open_log
from theatre.api.run_log import sweep
from theatre.api.workspace import Workspace
from theatre.cli.exits import CommandEndedError, ExitCode, echo, json_option, print_document
from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import NotFoundError, TheatreError
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.log_folder import LogFolder
from theatre.files.theatre_store import RECEIPT, FileTheatreStore, read_coin
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import COMMITMENT_PROOF, STATEMENT
from theatre.transparency.continuation import hold_to_copy, recover
from theatre.transparency.entries import EntryType
from theatre.transparency.fsck import (
    Finding,
    LogReport,
    StoredTheatre,
    check_log,
    check_theatre,
    logged_closing,
)
from theatre.transparency.notes import Checkpoint, Note, SignedCheckpoint
from theatre.transparency.run_entries import receipt_commitment
from theatre.transparency.trust import Trust


async def check_user_log(home: TrustHome, trust: Trust, store: FileTheatreStore) -> LogReport:
    """Check the log, and hold each theatre of a store that was logged to its entries."""
    report = await check_log(home.log, await home.log.signed(), trust.log)
    if report.checkpoint is None or len(report.leaves) != report.checkpoint.size:
        # Of a log that cannot be read each theatre would be missing.
        return report
    for theatre_id in store.theatre_ids():
        report.findings += _check_stored(home, trust, store, theatre_id, report)
    return report


def _check_stored(
    home: TrustHome, trust: Trust, store: FileTheatreStore, theatre_id: str, report: LogReport
) -> Iterator[Finding]:
    try:
        view = store.view(theatre_id)
        if not (view.folder / COMMITMENT_PROOF).exists():
            # It has not begun, or is none that is logged.
            return
        document = parse_object((view.folder / RECEIPT).read_bytes())
        commitment = receipt_commitment(
            CommitmentReceipt.from_document(document), read_coin(view.folder)
        )
    except (TheatreError, OSError) as error:
        subject = f"theatre {theatre_id}"
        yield Finding("theatre-unreadable", subject, "its trail and receipt", str(error))
        return
    closing = None
    if view.resolution is not None:
        is_certified = view.resolution.get("outcome") == "certified"
        closing = EntryType.CERTIFICATE if is_certified else EntryType.VOID
    if home.open_commitments.find(theatre_id) is not None:
        # The next command closes it, or finishes that: either is in order.
        closing = logged_closing(report, theatre_id)
    statement = view.folder / bundle_name(theatre_id) / "proofs" / STATEMENT
    stored = StoredTheatre(
        theatre_id=theatre_id,
        commitment=commitment,
        closing=closing,
        statement=_read(statement),
    )
    yield from check_theatre(report, stored, trust.issuer_keys())


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@click.group()
def log() -> None:
    """Show, export and check your log, and bring it back after a restore."""


@log.command("show")
@json_option
def show_log(*, as_json: bool) -> None:
    """Show the last checkpoint of your log.

    Commitments of runs that have ended without being closed are closed first.
    """
    asyncio.run(sweep(at=datetime.now(UTC)))
    data = asyncio.run(issuer_home().log.read("checkpoint"))
    checkpoint = Checkpoint.parse(Note.parse(data).text)
    if as_json:
        print_document(
            {"origin": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root.hex()}
        )
    else:
        for line in data.decode().splitlines():
            echo(line)


@log.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def export(folder: Path) -> None:
    """Copy your log and your trust.json to FOLDER; what is there already is brought up to date.

    Your log is held to this copy from now on, before anything is signed: where it was restored
    from an older one, the copy shows it. A newer copy is never overwritten.
    """
    home = issuer_home()
    source = home.folder / "log"
    if not (source / "checkpoint").exists():
        raise NotFoundError(f"expected a log in {source}, got none: no run has made one yet")
    if (folder / "checkpoint").exists():
        asyncio.run(_hold_to_export(home, folder))
    # The checkpoint last: who reads meanwhile finds every tile of the one that he sees.
    shutil.copytree(source / "tile", folder / "tile", dirs_exist_ok=True)
    shutil.copyfile(home.folder / "trust.json", folder / "trust.json")
    shutil.copyfile(source / "checkpoint", folder / "checkpoint")
    home.remember_copy(folder)
    echo(f"exported {folder}")


@log.command()
@json_option
def fsck(*, as_json: bool) -> None:
    """Re-verify your log: each tile, the signed root, each entry. Nothing is changed.

    Each theatre of the working folder that was logged is held to its entries. Exit code 10 where
    something is wrong, 3 where there is no log or none with an entry.
    """
    home = issuer_home()
    store = FileTheatreStore(Workspace.from_environment().home)
    report = asyncio.run(check_user_log(home, _trust_of(home), store))
    verdict = "damaged" if report.findings else "intact" if report.leaves else "empty"
    if as_json:
        findings = [finding._asdict() for finding in report.findings]
        print_document({"verdict": verdict, "entries": len(report.leaves), "findings": findings})
    else:
        for finding in report.findings:
            echo(f"{finding.code}  {finding.subject}")
            echo(f"    expected {finding.expected}")
            echo(f"    got      {finding.actual}")
        echo(f"{verdict}; {len(report.findings)} findings, {len(report.leaves)} entries")
    if verdict != "intact":
        raise CommandEndedError(ExitCode.CHECK_FAILED if report.findings else ExitCode.NOT_FOUND)


@log.command("recover")
@click.argument("place")
def recover_log(place: str) -> None:
    """Take what your log lacks from a newer copy of it at PLACE, a URL or a folder.

    After a restore from an older backup. Every entry is held to the checkpoint that your log's key
    signed; nothing is signed.
    """
    home = issuer_home()
    trust = _trust_of(home)

    async def recovered() -> Checkpoint:
        async with open_log(place) as copy, home.log.hold():
            return await recover(home.log, copy, trust.log)

    done = asyncio.run(recovered())
    # Else a key that was revoked since would sign on, and the next export would forget it.
    caught_up = trust.caught_up(asyncio.run(read_record(home, trust)).keys)
    home.write(caught_up)
    echo(f"log       {done.origin}: {done.size} entries")
    if caught_up != trust:
        echo("keys      as the log has them: `echelon trust rotate` where the last is not here")


async def _hold_to_export(home: TrustHome, folder: Path) -> None:
    trust = _trust_of(home)
    ours = SignedCheckpoint.verify(await home.log.read("checkpoint"), [trust.log]).checkpoint
    await hold_to_copy(home.log, ours, LogFolder(folder), trust.log, seen_by=str(folder))


def _trust_of(home: TrustHome) -> Trust:
    trust = home.read()
    if trust is None:
        raise NotFoundError(f"expected a trust.json in {home.folder}, got none")
    return trust
