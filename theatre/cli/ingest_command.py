"""`echelon ingest`: a repository's changes as ground truth in a folder, for replays without it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from theatre.cli.output import json_option
from theatre.cli.verification_ground_truth import (
    Source,
    print_ground_truth,
    source_options,
    store_ground_truth,
)
from theatre.cli.verification_log import VerificationLog, log_option
from theatre.cli.workspace import Workspace


@click.command()
@source_options
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder for ground truth and dataset.",
)
@log_option
@json_option
def ingest(
    *,
    repo: str | None,
    since: datetime | None,
    until: datetime | None,
    output: Path,
    log: VerificationLog,
    as_json: bool,
    **selection: Any,  # noqa: ANN401 - the rest of the options that `Source` is made of
) -> None:
    """Read a repository's changes and keep them; no construct is called.

    What was read of GitHub before a stop is kept: the same command goes on. `echelon verify
    --data FOLDER` replays what was kept.
    """
    if repo is None:
        raise click.UsageError("expected --repo")
    source = Source(repo=repo, since=since, until=until, **selection)
    workspace = Workspace.from_environment()
    truth = store_ground_truth(source, output=output, workspace=workspace, log=log)
    print_ground_truth(truth, as_json=as_json)
