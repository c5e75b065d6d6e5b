"""`echelon theatre …`: validate, hash, commit, run and show theatres."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import click

from theatre.cli.committing import (
    commit_template,
    missing_data_warnings,
    read_template,
    require_runnable,
    require_valid,
    validate_template,
)
from theatre.cli.exits import CommandEndedError, ExitCode, InterruptedRunError
from theatre.cli.export_command import export
from theatre.cli.header_option import header_option
from theatre.cli.hitl_command import hitl
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.pictures import draw_pictures
from theatre.cli.progress import ProgressLine
from theatre.cli.reports import PENDING, print_run, print_violations, run_report
from theatre.cli.running import RunOptions, run_theatre
from theatre.cli.workspace import Workspace
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.errors import NotFoundError
from theatre.engine.state_machine import TheatreState
from theatre.files.theatre_store import HeldTheatre

UNFINISHED = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE, TheatreState.SETTLING})

DEFAULT_OPTIONS = RunOptions()

template_argument = click.argument("template", type=click.Path(path_type=Path))


@click.group(no_args_is_help=True)
def theatre() -> None:
    """Validate, commit, run and show theatres."""


theatre.add_command(export)
theatre.add_command(hitl)


@theatre.command()
@template_argument
@json_option
def validate(template: Path, *, as_json: bool) -> None:
    """Check TEMPLATE against the schema and every rule; all violations are listed."""
    document = read_template(template)
    report = validate_template(document)
    warnings = [warning.as_document() for warning in report.warnings]
    if report.valid:
        roots = Workspace.from_environment().datasets_for(template.parent)
        warnings += missing_data_warnings(document, roots)
    errors = [error.as_document() for error in report.errors]
    if as_json:
        print_document({"valid": report.valid, "errors": errors, "warnings": warnings})
    else:
        print_violations("error", errors)
        print_violations("warning", warnings)
        click.echo("valid" if report.valid else f"invalid: {len(errors)} error(s)")
    if not report.valid:
        raise CommandEndedError(ExitCode.INVALID)


@theatre.command("hash")
@template_argument
@json_option
def hash_(template: Path, *, as_json: bool) -> None:
    """Print the commitment hash that TEMPLATE would get; nothing is stored."""
    document = read_template(template)
    require_valid(document)
    commitment_hash = CommitmentProtocol.hash_template(document)
    if as_json:
        print_document({"commitment_hash": commitment_hash})
    else:
        click.echo(commitment_hash)


@theatre.command()
@template_argument
@json_option
def commit(template: Path, *, as_json: bool) -> None:
    """Create a theatre from TEMPLATE and commit it; its data must be there and unchanged."""
    committed = _commit(template, Workspace.from_environment())
    if as_json:
        print_document(committed)
    else:
        click.echo(f"theatre     {committed['theatre_id']}")
        click.echo(f"commitment  {committed['commitment_hash']}")


@theatre.command()
@click.argument("target")
@click.option("--new", is_flag=True, help="Start another theatre even if one is unfinished.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option(
    "--batch-episodes",
    type=click.IntRange(1, 100),
    default=100,
    show_default=True,
    help="Make answers durable at least every so many episodes (and every second).",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="At most so many calls at a time, where the template commits to more.",
)
@header_option
@json_option
def run(
    target: str,
    *,
    new: bool,
    quiet: bool,
    batch_episodes: int,
    concurrency: int | None,
    headers_env: dict[str, str],
    as_json: bool,
) -> None:
    """Run TARGET, a theatre id or a template file, to its certificate.

    A template file is committed first, unless a theatre with the same commitment is unfinished:
    then that one goes on where it stopped. Ctrl-C keeps every answer that is in. A run that
    waits for human scores ends with exit code 8; the same command goes on.
    """
    workspace = Workspace.from_environment()
    theatre_id = _theatre_to_run(target, workspace, new=new)
    options = RunOptions(
        batch_size=batch_episodes, concurrency_limit=concurrency, headers_env=headers_env
    )
    run_to_end(theatre_id, workspace, options, quiet=quiet)
    report = run_report(workspace.store.view(theatre_id))
    if as_json:
        print_document(report)
    else:
        print_run(report)
    if report["outcome"] == PENDING:
        raise CommandEndedError(ExitCode.INCOMPLETE)
    if report["outcome"] != "certified":
        raise CommandEndedError(ExitCode.FAILURE)


@theatre.command()
@click.argument("theatre_id")
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw scores and calibration as SVG into this folder.",
)
@json_option
def show(theatre_id: str, *, plot: Path | None, as_json: bool) -> None:
    """Show the state of a theatre and, once it is resolved, its certificate."""
    workspace = Workspace.from_environment()
    view = workspace.store.view(theatre_id)
    report = run_report(view)
    plots = None if plot is None else draw_pictures(view, plot, home=workspace.home)
    if as_json:
        print_document(report | ({} if plots is None else {"plots": [str(p) for p in plots]}))
        return
    print_run(report)
    for path in plots or ():
        echo(f"plot         {path}")


def run_to_end(
    theatre_id: str, workspace: Workspace, options: RunOptions = DEFAULT_OPTIONS, *, quiet: bool
) -> None:
    """Run a theatre with progress on stderr; an interruption says how to go on, exit 8."""
    template = workspace.store.view(theatre_id).template
    with ProgressLine(cast("str", template["theatre_id"]), quiet=quiet) as line:

        def announce(held: HeldTheatre) -> None:
            for name in held.journal.torn:
                click.echo(f"note: removed an unfinished last line of {name}", err=True)

        try:
            asyncio.run(
                run_theatre(
                    theatre_id,
                    workspace,
                    options,
                    on_start=announce,
                    on_progress=line.update,
                )
            )
        except (KeyboardInterrupt, asyncio.CancelledError) as interruption:
            view = workspace.store.view(theatre_id)
            if view.state in UNFINISHED:
                raise InterruptedRunError(theatre_id, view.recorded) from interruption


def _commit(template: Path, workspace: Workspace) -> dict[str, str]:
    committed = asyncio.run(
        commit_template(
            read_template(template), template_folder=template.parent, workspace=workspace
        )
    )
    return {
        "theatre_id": committed.theatre_id,
        "state": committed.state.value,
        "commitment_hash": committed.commitment.commitment_hash,
    }


def _theatre_to_run(target: str, workspace: Workspace, *, new: bool) -> str:
    template = Path(target)
    if not template.is_file():
        return _id_of(target, workspace)
    require_runnable(read_template(template))
    unfinished = None if new else _unfinished(template, workspace)
    if unfinished is None:
        return _commit(template, workspace)["theatre_id"]
    click.echo(
        f"going on with the unfinished theatre {unfinished} (--new starts another)", err=True
    )
    return unfinished


def _id_of(target: str, workspace: Workspace) -> str:
    try:
        return workspace.store.view(target).theatre_id
    except NotFoundError as error:
        raise NotFoundError(f"{error}; no template file of that name either") from error


def _unfinished(template: Path, workspace: Workspace) -> str | None:
    """Return the newest unfinished theatre with this commitment, from the same folder."""
    document = read_template(template)
    require_valid(document)
    wanted = CommitmentProtocol.hash_template(document)
    for theatre_id in reversed(workspace.store.theatre_ids()):
        view = workspace.store.view(theatre_id)
        if (
            view.commitment_hash == wanted
            and view.state in UNFINISHED
            and view.template_folder == template.parent.resolve()
        ):
            return theatre_id
    return None
