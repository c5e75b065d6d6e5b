"""`echelon theatre run`: a theatre to its certificate, or on from where it stopped."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click

from theatre.api.draft_files import find_draft, pin_file, pinned_path, write_pinned
from theatre.api.rehearsal import rehearse_document, with_answers
from theatre.api.runs import PENDING, find_or_commit_theatre, logged_report, run_to_end
from theatre.api.template_files import read_template, read_written, require_runnable
from theatre.api.theatre_run import RunOptions
from theatre.api.workspace import Workspace
from theatre.cli.certificate_report import FIRST, unread
from theatre.cli.exits import (
    CommandEndedError,
    ExitCode,
    NamedPath,
    echo,
    json_option,
    print_document,
)
from theatre.cli.options import header_option
from theatre.cli.progress import ProgressLine
from theatre.cli.reports import print_rehearsal, print_run
from theatre.engine.replay.usage import tally_of


@click.command()
@click.argument("target", required=False)
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
    help="Run a draft or a template without a certificate, and keep nothing.",
)
@click.option(
    "--answers",
    type=NamedPath(dir_okay=False),
    help="With --rehearsal: JSONL with the answers, in place of every construct.",
)
@header_option
@json_option
def run(
    target: str | None,
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
    """Run TARGET to its certificate: a draft, a template file or a theatre id.

    Without TARGET it is the draft of this folder, echelon.yaml. A draft is pinned first, into the
    template next to it. A template file is committed first, unless a theatre with the same
    commitment is unfinished: then that one goes on where it stopped. Ctrl-C keeps every answer
    that is in. A run that waits for human scores ends with exit code 8; the same command goes on.
    """
    workspace = Workspace.from_environment()
    options = RunOptions(
        batch_size=batch_episodes, concurrency_limit=concurrency, headers_env=headers_env
    )
    if rehearsal:
        _rehearse(Path(_named(target)), answers, workspace, options, quiet=quiet, as_json=as_json)
        return
    if answers is not None:
        raise click.UsageError("expected --answers with --rehearsal only: certificates need calls")
    theatre_id = find_or_commit_theatre(_pinned(_named(target), workspace), workspace, new=new)
    run_with_progress(theatre_id, workspace, options, quiet=quiet)
    report = logged_report(workspace.store.view(theatre_id))
    if as_json:
        print_document(report)
    else:
        print_run(report)
    if report["outcome"] == PENDING:
        raise CommandEndedError(ExitCode.INCOMPLETE)
    if report["outcome"] != "certified":
        raise CommandEndedError(ExitCode.FAILURE)


def _named(target: str | None) -> str:
    """Return what to run: the draft of this folder unless it is named."""
    return target or str(find_draft(Path()))


def _pinned(target: str, workspace: Workspace) -> str:
    """Pin `target` if it is a draft; return its template in its place, else `target`."""
    path = Path(target)
    written = read_written(path) if path.is_file() else None
    if written is None or not written.is_draft:
        return target
    template = pinned_path(path)
    changed = write_pinned(pin_file(path, workspace, written.document), template)
    echo(f"pinned       {path} to {template}{'' if changed else ', as before'}", err=True)
    return str(template)


def _rehearse(
    path: Path,
    answers: Path | None,
    workspace: Workspace,
    options: RunOptions,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    template = read_template(path)
    if answers is not None:
        template, options = with_answers(template, answers, options)
    require_runnable(template, certificate_run=False)
    with ProgressLine(
        cast("str", template["theatre_id"]), quiet=quiet, used=tally_of(template)
    ) as line:
        run = rehearse_document(template, path.parent, workspace, options, line.update, kept=FIRST)
    if as_json:
        print_document(run.report)
    else:
        firsts = [([*one.answers.values()], one.expected) for one in run.episodes()]
        scores = cast("dict[str, Any]", run.report["scores"])
        print_rehearsal(run.report, unread(template, scores, firsts))


def run_with_progress(
    theatre_id: str, workspace: Workspace, options: RunOptions, *, quiet: bool
) -> None:
    """Run a theatre to its end as `run_to_end`, with progress on stderr."""
    template = workspace.store.view(theatre_id).template
    with ProgressLine(
        cast("str", template["theatre_id"]), quiet=quiet, used=tally_of(template)
    ) as line:
        options = replace(options, on_logged=lambda logged: line.say(f"logged       {logged}"))
        run_to_end(theatre_id, workspace, options, line.update)
