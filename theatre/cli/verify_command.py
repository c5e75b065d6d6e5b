"""`echelon verify`: an oracle's summaries against a repository's own history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import click

from theatre.cli.checking import check_folder
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.header_option import header_option
from theatre.cli.judging import chosen_scoring, judge_options
from theatre.cli.output import echo, json_option, print_document
from theatre.cli.reports import print_run, run_report
from theatre.cli.run_command import run_to_end, theatre_to_run
from theatre.cli.running import RunOptions
from theatre.cli.verification_ground_truth import (
    GroundTruth,
    Source,
    keep_ground_truth,
    source_options,
)
from theatre.cli.verification_oracle import NamedOracle, oracle_under_test
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.files.durable import replace_durably
from theatre.verification.errors import TooFewReplaysError
from theatre.verification.template import CRITERIA, EQUAL_WEIGHTS, Terms, oracle_template

TEMPLATE_FILE = "template.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What the user says to `verify`, one field an option."""

    repo: str
    history: str
    commit_range: str
    since: datetime | None
    until: datetime | None
    limit: int
    labels: tuple[str, ...]
    output: Path | None
    construct: str | None
    construct_type: str | None
    construct_id: str
    construct_version: str | None
    folder: Path
    weights: Mapping[str, float]
    timeout: int
    min_replays: int
    judge: str
    scoring_model: str
    judge_repeats: int
    dry_run: bool
    new: bool
    quiet: bool
    headers_env: Mapping[str, str]
    as_json: bool

    @property
    def source(self) -> Source:
        """Return what is to be read."""
        return Source(
            repo=self.repo,
            history=self.history,
            commit_range=self.commit_range,
            since=self.since,
            until=self.until,
            limit=self.limit,
            labels=self.labels,
        )

    def named_oracle(self) -> NamedOracle:
        """Return the construct; a usage error where none is named."""
        if self.construct is None:
            raise click.UsageError("expected --construct, or --dry-run without one")
        return NamedOracle(
            place=self.construct,
            construct_type=self.construct_type,
            construct_id=self.construct_id,
            version=self.construct_version,
            folder=self.folder,
            headers_env=self.headers_env,
        )


def _weights(_: click.Context, __: click.Parameter, text: str | None) -> Mapping[str, float]:
    """Return criterion → weight."""
    if text is None:
        return EQUAL_WEIGHTS
    parts = [part.partition("=") for part in text.split(",")]
    try:
        weights = {name: float(number) for name, _, number in parts}
    except ValueError:
        weights = {}
    if (
        weights.keys() != set(CRITERIA)
        or not all(math.isfinite(weight) and weight >= 0 for weight in weights.values())
        or sum(weights.values()) == 0
    ):
        expected = ",".join(f"{criterion}=NUMBER" for criterion in CRITERIA)
        raise click.BadParameter(f"expected {expected}, not all of them 0; got {text:.100}")
    total = sum(weights.values())
    return {criterion: weight / total for criterion, weight in weights.items()}


@click.command()
@source_options
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder for ground truth and template."
)
@click.option("--construct", help="construct:ID, module:name of a callable, or a URL.")
@click.option("--construct-type", type=click.Choice(["http", "python"]), help="If looks deceive.")
@click.option(
    "--construct-id",
    default="community_oracle",
    show_default=True,
    help="The id of a callable or a URL.",
)
@click.option("--construct-version", metavar="HEX", help="Its pin, if not what it has or reports.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Where the module of a callable lies (working folder).",
)
@click.option("--weights", callback=_weights, help="precision=2,recall=1,reply_accuracy=1")
@click.option("--timeout", type=click.IntRange(1), default=30, show_default=True, help="Seconds.")
@click.option(
    "--min-replays",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="With fewer scored changes the command ends with exit code 8.",
)
@judge_options
@click.option("--dry-run", is_flag=True, help="Read and keep the ground truth; call nobody.")
@click.option("--new", is_flag=True, help="Start another theatre even if one is unfinished.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@header_option
@json_option
def verify(**options: object) -> None:
    """Score an oracle that summarises changes against a repository's own history.

    Commits become ground truth with a question each. That is committed, every change is shown to
    the oracle, and what it answers is held against the words of the diff. The same command goes
    on with a run that was stopped.
    """
    given = VerifyOptions(**cast("dict[str, Any]", options))
    workspace = Workspace.from_environment()
    named = None if given.dry_run else given.named_oracle()
    truth = keep_ground_truth(given.source, output=given.output, workspace=workspace)
    if named is None:
        _print_ground_truth(truth, as_json=given.as_json)
        return
    if truth.records < given.min_replays:
        raise TooFewReplaysError(
            f"expected at least {given.min_replays} changes (--min-replays), got {truth.records}; "
            f"they are kept in {truth.folder}, and nobody was called"
        )
    template = _written_template(given, named, truth, workspace)
    theatre_id = theatre_to_run(str(template), workspace, new=given.new)
    run_options = RunOptions(headers_env=given.headers_env)
    run_to_end(theatre_id, workspace, run_options, quiet=given.quiet)
    _conclude(run_report(workspace.store.view(theatre_id)), given)


def _written_template(
    given: VerifyOptions, named: NamedOracle, truth: GroundTruth, workspace: Workspace
) -> Path:
    scoring = chosen_scoring(
        given.judge,
        model=given.scoring_model,
        repeats=given.judge_repeats,
        workspace=workspace,
        quiet=given.quiet,
    )
    oracle = oracle_under_test(named, workspace, truth.folder)
    terms = Terms(
        weights=given.weights, timeout_seconds=given.timeout, ground_truth_source=given.source.kind
    )
    path = truth.folder / TEMPLATE_FILE
    replace_durably(
        path, canonical_line(oracle_template(oracle, terms, truth.dataset, scoring=scoring))
    )
    return path


def _conclude(report: JsonObject, given: VerifyOptions) -> None:
    """Check the bundle, print what came out, and end with the code that it earns."""
    bundle = report["bundle_path"]
    check = None if bundle is None else check_folder(Path(str(bundle)))
    counts = cast("dict[str, int]", report["episode_counts"] or {})
    scored = counts.get("scored", 0)
    if given.as_json:
        checked = None if check is None else {"valid": check.valid, "checks": len(check.checks)}
        print_document({**report, "replay_count": scored, "check": checked})
    else:
        print_run(report)
        if check is not None:
            verdict = "valid" if check.valid else "NOT VALID"
            echo(f"check        {verdict}: {len(check.checks)} checks, {len(check.failed)} failed")
    if check is not None and check.failed:
        raise CommandEndedError(ExitCode.CHECK_FAILED)
    if report["outcome"] != "certified":
        raise CommandEndedError(ExitCode.FAILURE)
    if scored < given.min_replays:
        click.echo(
            f"note: {scored} changes were scored, {given.min_replays} are asked for "
            "(--min-replays): this is no verification",
            err=True,
        )
        raise CommandEndedError(ExitCode.INCOMPLETE)


def _print_ground_truth(truth: GroundTruth, *, as_json: bool) -> None:
    if as_json:
        print_document(truth.as_document())
        return
    echo(f"records       {truth.records}")
    echo(f"ground truth  {truth.sha256}")
    echo(f"kept in       {truth.folder}")
