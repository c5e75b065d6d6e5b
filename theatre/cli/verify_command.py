"""`echelon verify`: an oracle's summaries against a repository's own history."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from theatre.api.named_files import read_file
from theatre.api.workspace import Workspace
from theatre.cli.exits import json_option
from theatre.cli.judge_options import JudgeChoice, choose_scoring, judge_options
from theatre.cli.options import header_option
from theatre.cli.verification_ground_truth import (
    GroundTruth,
    Source,
    print_ground_truth,
    read_ground_truth,
    source_options,
    store_ground_truth,
)
from theatre.cli.verification_log import VerificationLog, log_option
from theatre.cli.verification_run import (
    TEMPLATE_FILE,
    NamedOracle,
    VerificationFolder,
    oracle_under_test,
)
from theatre.engine.canonical_json import canonical_line, sha256_hex
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.scoring.measure_policy import Qualification, why_unqualified
from theatre.files.durable import replace_durably
from theatre.verification.errors import TooFewReplaysError
from theatre.verification.scoring_providers import LEXICAL, ScoringProvider
from theatre.verification.template import (
    CRITERIA,
    EQUAL_WEIGHTS,
    ReliedOn,
    Terms,
    oracle_template,
    qualification_file,
)

# What shows that the measures of a verification can be relied on: `--qualification`.


CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_Part = TypeVar("_Part")

SINGLE_CLAIMS = (
    "a labelled set holds single claims, so precision is all that can qualify; "
    "--weights precision=1,recall=0,reply_accuracy=0 counts it alone"
)


def qualification_option(command: CommandT) -> CommandT:
    """Add the option whose files `rely_on` takes."""
    option = click.option(
        "--qualification",
        "qualifications",
        type=click.Path(path_type=Path, dir_okay=False),
        multiple=True,
        metavar="FILE",
        help="What `echelon qualify` signed of the measure (….sigstore.json); of several measures, "
        "several times.",
    )
    return option(command)


def rely_on(
    paths: Sequence[Path], scoring: ScoringProvider, folder: Path
) -> Mapping[str, Qualification]:
    """Keep in the folder what qualifies measures of a scoring; return it by criterion.

    Raises NotFoundError and QualificationError for a file that is no qualification, or is about no
    measure of this scoring, and UsageError for a second one of the same.
    """
    found: dict[str, Qualification] = {}
    for path in paths:
        data = read_file(path, what="a qualification")
        qualification = Qualification.read(data.splitlines(), sha256=None)
        fitting = scoring.measured_by(qualification)
        if fitting & found.keys():
            raise click.UsageError(
                f"expected with --qualification one file of each measure, got another at {path}"
            )
        for criterion in fitting:
            replace_durably(folder / qualification_file(criterion), data)
            found[criterion] = qualification
    return found


def committed(folder: Path, relied_on: Mapping[str, Qualification]) -> dict[str, ReliedOn]:
    """Return what the template says of the files that `rely_on` kept."""
    return {
        criterion: ReliedOn(
            file_sha256=sha256_hex((folder / qualification_file(criterion)).read_bytes()),
            sha256=one.sha256,
        )
        for criterion, one in sorted(relied_on.items())
    }


def note_unqualified(
    scoring: ScoringProvider, weights: Mapping[str, float], relied_on: Mapping[str, Qualification]
) -> None:
    """Say on stderr which measures with a weight keep the certificate at UNVERIFIED, and why."""
    kinds = {scorer.name: scorer.kind for scorer in scoring.scorers}
    reasons = []
    for criterion in (one for one, weight in weights.items() if weight):
        scorer, version, params = scoring.measure(criterion)
        why = why_unqualified(
            *(scorer, kinds[scorer], version, params, relied_on.get(criterion)),
            is_named=criterion in relied_on,
        )
        reasons += [] if why is None else [f"{criterion} ({why})"]
    if reasons:
        listed = ", ".join(reasons)
        click.echo(f"note: this will read UNVERIFIED for {listed}: {SINGLE_CLAIMS}", err=True)


# `--weights`: what each criterion of a verification counts for in the composite.


def _weights(_: click.Context, __: click.Parameter, text: str | None) -> Mapping[str, float]:
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


weights_option = click.option(
    "--weights",
    callback=_weights,
    help="What each score counts for, as precision=2,recall=1,reply_accuracy=1.  [default: alike]",
)


@click.command()
@source_options
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder for ground truth and template."
)
@click.option("--construct", help="construct:ID, module:name of a callable, or a URL.")
@click.option(
    "--construct-type",
    type=click.Choice(["http", "python"]),
    help="What it is, where its form does not tell: a URL, or module:name.",
)
@click.option(
    "--construct-id",
    default="community_oracle",
    show_default=True,
    help="The id of a callable or a URL.",
)
@click.option("--construct-version", metavar="HEX", help="Its pin, if not what it has or reports.")
@click.option(
    "--plain",
    is_flag=True,
    help="The URL takes a bare record and answers a bare OracleOutput, without envelopes.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Where the module of a callable lies (working folder).",
)
@weights_option
@click.option(
    "--timeout", type=click.IntRange(1), default=30, show_default=True, help="Seconds for a call."
)
@click.option(
    "--retries",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    help="How often a call that fails is tried again.",
)
@click.option(
    "--min-replays",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="With fewer scored changes the command ends with exit code 8.",
)
@judge_options
@qualification_option
@click.option("--dry-run", is_flag=True, help="Read and keep the ground truth; call no construct.")
@click.option("--new", is_flag=True, help="Start another theatre even if one is unfinished.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Ground truth that `echelon ingest` kept, in the place of --repo.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Go on with the run in this folder (--output), as it was committed.",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--verbose", is_flag=True, help="Show the scores of each change as it is scored.")
@log_option
@header_option
@json_option
def verify(  # noqa: PLR0913  # one argument an option
    *,
    repo: str | None,
    data: Path | None,
    resume: Path | None,
    output: Path | None,
    construct: str | None,
    weights: Mapping[str, float],
    retries: int,
    min_replays: int,
    qualifications: tuple[Path, ...],
    dry_run: bool,
    **options: Any,  # noqa: ANN401 - the rest, by the names of what is made of them
) -> None:
    """Score an oracle that summarises changes against a repository's own history.

    Commits become ground truth with a question each. That is committed, every change is shown to
    the oracle, and what it answers is held against the words of the diff. The same command goes
    on with a run that was stopped.
    """
    options |= {"workspace": Workspace.from_environment()}
    if resume is not None:
        if dry_run or any(one is not None for one in (repo, data, construct)):
            raise click.UsageError(
                "expected --resume without --repo, --data, --construct and --dry-run: what was "
                "committed lies in its folder"
            )
        _from_options(VerificationFolder, options, run_folder=resume).verify()
        return
    if construct is None and not dry_run:
        raise click.UsageError("expected --construct, or --dry-run without one")
    truth = _ground_truth(repo, data, output, options)
    if dry_run:
        print_ground_truth(truth, as_json=options["as_json"])
        return
    if truth.records < min_replays:
        raise TooFewReplaysError(
            f"expected at least {min_replays} changes (--min-replays), got {truth.records}; "
            f"they are kept in {truth.folder}, and no construct was called"
        )
    run = _from_options(VerificationFolder, options, run_folder=truth.folder)
    named = _from_options(NamedOracle, options, place=construct)
    terms = Terms(
        weights=weights,
        timeout_seconds=named.timeout,
        max_retries=retries,
        ground_truth_source=truth.kind,
        repository=truth.repository,
        minimum_replays=min_replays,
    )
    _write_template(run, truth, named, terms, _from_options(JudgeChoice, options), qualifications)
    run.verify()


def _from_options(kind: type[_Part], options: Mapping[str, Any], **more: object) -> _Part:
    """Return what is made of the options that have the names of its fields."""
    given = {**options, **more}
    return kind(**{name: given[name] for name in kind._fields})  # type: ignore[attr-defined]  # a NamedTuple


def _ground_truth(
    repo: str | None, data: Path | None, output: Path | None, options: Mapping[str, Any]
) -> GroundTruth:
    """Return the ground truth, read now or kept from before; errors as those who read it."""
    log: VerificationLog = options["log"]
    if data is not None:
        if repo is not None or output is not None:
            raise click.UsageError("expected --data without --repo and --output")
        return read_ground_truth(data, log=log)
    if repo is None:
        raise click.UsageError("expected --repo, or --data or --resume with a folder")
    source = _from_options(Source, options, repo=repo)
    return store_ground_truth(source, output=output, workspace=options["workspace"], log=log)


def _write_template(
    run: VerificationFolder,
    truth: GroundTruth,
    named: NamedOracle,
    terms: Terms,
    judge: JudgeChoice,
    qualifications: Sequence[Path],
) -> None:
    scoring = choose_scoring(judge, changes=truth.records, workspace=run.workspace, quiet=run.quiet)
    relied_on = rely_on(qualifications, scoring, truth.folder)
    if not run.quiet and (relied_on or scoring is not LEXICAL):
        note_unqualified(scoring, terms.weights, relied_on)
    oracle = oracle_under_test(named, run.workspace, truth.folder)
    template = oracle_template(
        oracle,
        terms,
        sha256_hex(truth.dataset),
        scoring=scoring,
        relied_on=committed(truth.folder, relied_on),
    )
    replace_durably(truth.folder / TEMPLATE_FILE, canonical_line(template))
    run.log.log_event(
        "template",
        construct_id=oracle.construct_id,
        construct_version=oracle.version,
        commitment_hash=CommitmentProtocol.hash_template(template),
    )
