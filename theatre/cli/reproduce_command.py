"""`echelon reproduce`: the run of a bundle made again with the coin that it reveals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from theatre.cli.checking import require_consistent
from theatre.cli.committing import RevealedBundle, commit_reproduction
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.header_option import header_option
from theatre.cli.output import json_option, print_document
from theatre.cli.reports import print_run, run_report
from theatre.cli.reproduction import Verdict, compare_runs, may_vary, print_reproduction
from theatre.cli.run_command import run_to_end
from theatre.cli.running import RunOptions
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import parse_object, sha256_hex
from theatre.engine.coin import Coin
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import CERTIFICATE, COIN, bundle_name

EXIT_BY_VERDICT = {
    Verdict.EQUAL: ExitCode.OK,
    Verdict.WITHIN: ExitCode.LESSER_VERDICT,
    Verdict.DIFFERENT: ExitCode.CHECK_FAILED,
}


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
    its own, which is never certified: its coin was public. Ends with 0 where it is equal, with 9
    where only the scores agree, within their intervals, with 10 where it differs, or where the
    bundle does not pass its check. What people rated is refused.
    """
    workspace = Workspace.from_environment()
    bundle, kept = _bundle_of(target, workspace)
    require_consistent(bundle, as_json=as_json, is_named=True, certificate=kept)
    revealed = RevealedBundle(
        coin=Coin.from_line((bundle / COIN).read_bytes()),
        bundle=bundle,
        bundle_hash=sha256_hex((bundle / "SHA256SUMS").read_bytes()),
    )

    def made_again() -> Path:
        theatre = asyncio.run(
            commit_reproduction(revealed, template_folder=constructs, workspace=workspace)
        )
        options = RunOptions(headers_env=headers_env)
        run_to_end(theatre.theatre_id, workspace, options, quiet=quiet)
        return _require_sealed(theatre.theatre_id, workspace, as_json=as_json)

    first = made_again()
    comparison = compare_runs(bundle, first)
    if comparison["verdict"] == Verdict.WITHIN and not may_vary(bundle):
        comparison = compare_runs(bundle, first, made_again())
    if as_json:
        print_document(comparison)
    else:
        print_reproduction(comparison)
    code = EXIT_BY_VERDICT[Verdict(str(comparison["verdict"]))]
    if code is not ExitCode.OK:
        raise CommandEndedError(code)


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


def _require_sealed(theatre_id: str, workspace: Workspace, *, as_json: bool) -> Path:
    """Return the bundle of a run that has ended; where it left none, say why and end."""
    view = workspace.store.view(theatre_id)
    bundle = view.folder / bundle_name(theatre_id)
    if bundle.is_dir():
        return bundle
    report = run_report(view)
    print_document(report) if as_json else print_run(report)
    raise CommandEndedError(ExitCode.FAILURE)
