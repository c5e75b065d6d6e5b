"""`echelon score`: recorded answers scored again; a certificate only where they were committed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import click

from theatre.cli.checking import require_consistent
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.recorded_answers import (
    BESIDE_THE_DATA,
    SealedRunFolder,
    UnfinishedRun,
    find_recorded_run,
)
from theatre.cli.verification_inspection import print_inspection, read_inspection
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.files.durable import replace_durably
from theatre.verification.certificate import verification_certificate
from theatre.verification.errors import TooFewReplaysError


@click.command()
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help=f"The folder of a run, a bundle, or one with {BESIDE_THE_DATA} next to its ground truth.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the certificate, or else the report, is written.",
)
@json_option
def score(data: Path, *, output: Path, as_json: bool) -> None:
    """Score recorded answers again, without any call.

    A sealed run gives its verification certificate. Answers without a commitment that was made
    before them, and runs that are unfinished or too short, give a report and no certificate.
    """
    workspace = Workspace.from_environment()
    run = find_recorded_run(data, workspace)
    if isinstance(run, SealedRunFolder):
        require_consistent(run.bundle, as_json=as_json)
        try:
            certificate = verification_certificate(run.bundle)
        except TooFewReplaysError as error:
            _report(run.report(str(error)), output, as_json=as_json)
            raise CommandEndedError(ExitCode.INCOMPLETE) from error
        replace_durably(output, certificate)
        document = parse_object(certificate)
        if as_json:
            print_document(document)
        else:
            print_inspection(read_inspection(document))
            echo(f"written      {output}")
        return
    if isinstance(run, UnfinishedRun):
        _report(asyncio.run(run.report()), output, as_json=as_json)
        raise CommandEndedError(ExitCode.INCOMPLETE)
    _report(run.report(), output, as_json=as_json)


def _report(report: JsonObject, output: Path, *, as_json: bool) -> None:
    replace_durably(output, canonical_line(report))
    if as_json:
        print_document(report)
        return
    echo(f"no certificate: {report['why']}")
    for criterion, mean in cast("dict[str, float | None]", report["scores"]).items():
        echo(f"{criterion:15} {'-' if mean is None else f'{mean:.3f}'}")
    echo(f"replays         {report['replay_count']} of {report['changes']} changes")
    echo(f"written         {output}")
