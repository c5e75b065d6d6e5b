"""`echelon reproduce`: the run of a bundle made again with the coin that it reveals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from theatre.cli.checking import check_folder, print_report
from theatre.cli.committing import Revealed, commit_reproduction
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.header_option import header_option
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.reports import print_run, run_report
from theatre.cli.reproduction import EQUAL, WITHIN, compared, print_reproduction
from theatre.cli.run_command import UNFINISHED, run_to_end
from theatre.cli.running import RunOptions
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import parse_object, sha256_hex
from theatre.engine.coin import Coin
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import CERTIFICATE, COIN, bundle_name


@click.command()
@click.argument("target", metavar="BUNDLE|CERTIFICATE", type=click.Path(path_type=Path))
@click.option(
    "--constructs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder whose constructs.toml and programs come first (default: this one).",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@header_option
@json_option
def reproduce(
    target: Path, *, constructs: Path, quiet: bool, headers_env: dict[str, str], as_json: bool
) -> None:
    """Make the run of BUNDLE again, with its data and the coin that it reveals, and compare.

    CERTIFICATE is one in a bundle, or one whose bundle is in this store. The result is a theatre of
    its own, which is never certified: its coin was public. Ends with 0 where it is equal, with 10
    where it differs, or where the bundle does not pass its check.
    """
    workspace = Workspace.from_environment()
    bundle, kept = _bundle_of(target, workspace)
    _require_consistent(bundle, kept, as_json=as_json)
    revealed = Revealed(
        coin=Coin.from_line((bundle / COIN).read_bytes()),
        bundle=bundle,
        bundle_hash=sha256_hex((bundle / "SHA256SUMS").read_bytes()),
    )
    theatre = asyncio.run(
        commit_reproduction(revealed, template_folder=constructs, workspace=workspace)
    )
    run_to_end(theatre.theatre_id, workspace, RunOptions(headers_env=headers_env), quiet=quiet)
    view = workspace.store.view(theatre.theatre_id)
    again = view.folder / bundle_name(view.theatre_id)
    if not again.is_dir():
        report = run_report(view)
        print_document(report) if as_json else print_run(report)
        waits = view.state in UNFINISHED
        raise CommandEndedError(ExitCode.INCOMPLETE if waits else ExitCode.FAILURE)
    comparison = compared(bundle, again)
    if as_json:
        print_document(comparison)
    else:
        print_reproduction(comparison)
    if comparison["verdict"] not in {EQUAL, WITHIN}:
        raise CommandEndedError(ExitCode.CHECK_FAILED)


def _bundle_of(target: Path, workspace: Workspace) -> tuple[Path, Path | None]:
    """Return the bundle that a user names, and the certificate that he gave from outside of it."""
    if target.is_dir():
        bundle, kept = target, None
    elif target.is_file() and (target.parent / "SHA256SUMS").is_file():
        bundle, kept = target.parent, None
    elif target.is_file():
        named: Any = parse_object(target.read_bytes()).get("theatre_id")
        bundle, kept = workspace.store.folder(str(named)) / bundle_name(str(named)), target
    else:
        raise NotFoundError(f"expected an evidence bundle or a certificate, got {target!s:.200}")
    if not (bundle / CERTIFICATE).is_file():
        raise NotFoundError(f"expected a bundle with a certificate, got {bundle!s:.200}")
    return bundle, kept


def _require_consistent(bundle: Path, kept: Path | None, *, as_json: bool) -> None:
    report = check_folder(bundle, certificate=kept)
    if report.consistent:
        return
    if as_json:
        print_document(report.as_document())
    else:
        echo(f"bundle       {bundle}")
        print_report(report)
    raise CommandEndedError(ExitCode.CHECK_FAILED if report.failed else ExitCode.INCOMPLETE)
