"""`echelon theatre run`: a theatre to its certificate, or on from where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import click

from theatre.cli.committing import commit_named
from theatre.cli.connections import header_option
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    InterruptedRunError,
    NamedPath,
    json_option,
    print_document,
)
from theatre.cli.progress import ProgressLine
from theatre.cli.rehearsal import print_rehearsal, rehearse_file
from theatre.cli.reports import PENDING, logged_report, print_run
from theatre.cli.run_log import Logged, sweep
from theatre.cli.template_files import read_template, require_runnable
from theatre.cli.theatre_run import RunOptions, run_theatre
from theatre.cli.workspace import Workspace, utc_now
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.errors import NotFoundError
from theatre.engine.state_machine import TheatreState
from theatre.files.theatre_store import TheatreLease, TheatreView

_UNFINISHED = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE, TheatreState.SETTLING})

DEFAULT_OPTIONS = RunOptions()


@click.command()
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
@click.option(
    "--rehearsal",
    is_flag=True,
    help="Run a template file without a certificate, and keep nothing.",
)
@click.option(
    "--answers",
    type=NamedPath(dir_okay=False),
    help="With --rehearsal: JSONL with the answers, in place of every construct.",
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
    rehearsal: bool,
    answers: Path | None,
    headers_env: dict[str, str],
    as_json: bool,
) -> None:
    """Run TARGET, a theatre id or a template file, to its certificate.

    A template file is committed first, unless a theatre with the same commitment is unfinished:
    then that one goes on where it stopped. Ctrl-C keeps every answer that is in. A run that
    waits for human scores ends with exit code 8; the same command goes on.
    """
    workspace = Workspace.from_environment()
    options = RunOptions(
        batch_size=batch_episodes, concurrency_limit=concurrency, headers_env=headers_env
    )
    if rehearsal:
        _rehearse(target, answers, workspace, options, quiet=quiet, as_json=as_json)
        return
    if answers is not None:
        raise click.UsageError("expected --answers with --rehearsal only: certificates need calls")
    theatre_id = find_or_commit_theatre(target, workspace, new=new)
    run_to_end(theatre_id, workspace, options, quiet=quiet)
    report = logged_report(workspace.store.view(theatre_id))
    if as_json:
        print_document(report)
    else:
        print_run(report)
    if report["outcome"] == PENDING:
        raise CommandEndedError(ExitCode.INCOMPLETE)
    if report["outcome"] != "certified":
        raise CommandEndedError(ExitCode.FAILURE)


def _rehearse(
    target: str,
    answers: Path | None,
    workspace: Workspace,
    options: RunOptions,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Rehearse a template file and print what it came to."""
    path = Path(target)
    if not path.is_file():
        raise NotFoundError(f"expected a template file to rehearse, got {target}")
    report = rehearse_file(path, answers, workspace, options, quiet=quiet)
    if as_json:
        print_document(report)
    else:
        print_rehearsal(report)


def run_to_end(
    theatre_id: str, workspace: Workspace, options: RunOptions = DEFAULT_OPTIONS, *, quiet: bool
) -> None:
    """Run a theatre with progress on stderr; an interruption says how to go on, exit 8."""
    template = workspace.store.view(theatre_id).template
    with ProgressLine(cast("str", template["theatre_id"]), quiet=quiet) as line:

        def announce(held: TheatreLease) -> None:
            for name in held.journal.torn:
                click.echo(f"note: removed the unfinished end of {name}", err=True)

        def announce_logged(logged: Logged) -> None:
            line.say(f"logged       {logged}")

        async def sweep_and_run() -> None:
            await sweep(at=utc_now(), running=theatre_id)
            await run_theatre(
                theatre_id,
                workspace,
                replace(options, on_logged=announce_logged),
                on_start=announce,
                on_progress=line.update,
            )

        try:
            asyncio.run(sweep_and_run())
        except (KeyboardInterrupt, asyncio.CancelledError) as interruption:
            view = workspace.store.view(theatre_id)
            if view.state in _UNFINISHED:
                raise InterruptedRunError(theatre_id, view.recorded) from interruption


def find_or_commit_theatre(target: str, workspace: Workspace, *, new: bool) -> str:
    """Return the id of `target`; a template file is committed, unless its theatre is unfinished."""
    path = Path(target)
    if not path.is_file():
        try:
            return workspace.store.view(target).theatre_id
        except NotFoundError as error:
            raise NotFoundError(f"{error}; no template file of that name either") from error
    template = require_runnable(read_template(path))
    for view in () if new else committed_theatres(template.document, path.parent, workspace):
        # A reproduction is never certified: it must not be gone on with in a run's place.
        if view.state in _UNFINISHED and view.reproduces is None:
            click.echo(
                f"going on with the unfinished theatre {view.theatre_id} (--new starts another)",
                err=True,
            )
            return view.theatre_id
    return commit_named(template, path.parent, workspace).theatre_id


def committed_theatres(
    document: JsonObject, folder: Path, workspace: Workspace
) -> Iterator[TheatreView]:
    """Yield the theatres with this commitment and from `folder`, the newest first."""
    wanted = CommitmentProtocol.hash_template(document)
    for theatre_id in reversed(workspace.store.theatre_ids()):
        view = workspace.store.view(theatre_id)
        if view.commitment_hash == wanted and view.template_folder == folder.resolve():
            yield view
