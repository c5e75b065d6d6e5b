"""From a repository on the command line to ground truth and dataset in a folder."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

import click

from theatre.api.named_files import read_file
from theatre.api.workspace import Workspace
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.verification_log import VerificationLog, log_option
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.errors import ParseError
from theatre.files.durable import replace_durably
from theatre.verification.errors import NoRecordError, OutputTakenError, RepositoryError
from theatre.verification.local_history import History, Selection, clone_folder, read_history
from theatre.verification.records import (
    GroundTruthRecord,
    dataset_lines,
    ground_truth_lines,
    read_record,
)
from theatre.verification.template import DATASET_FILE, LOCAL_CLONE

GROUND_TRUTH_FILE, SOURCE_FILE = "ground_truth.jsonl", "source.json"
_DAY = click.DateTime(["%Y-%m-%d"])
_NAME_DIGITS = 16

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class Source(NamedTuple):
    """Which changes of which repository the user asks for."""

    repo: str
    history: str
    commit_range: str
    since: datetime | None
    until: datetime | None
    limit: int
    labels: tuple[str, ...]

    @property
    def is_remote(self) -> bool:
        """Say whether the repository is on GitHub."""
        return self.repo.startswith(("https://", "http://"))

    @property
    def kind(self) -> str:
        """Return what the template says of the source."""
        return "GITHUB_API" if self.is_remote else "CUSTOM"

    @property
    def repository(self) -> str:
        """Return what template and certificate say of the place: a URL, or that it is a folder."""
        if not self.is_remote:
            return LOCAL_CLONE
        parts = urlsplit(self.repo)
        # Without user and query: these could be secrets.
        place = parts.path.removesuffix("/").removesuffix(".git")
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], place, "", ""))

    @property
    def selection(self) -> Selection:
        """Return what is read of a clone; `until` is a day, and all of it counts."""
        whole_day = timedelta(days=1) - timedelta(microseconds=1)
        return Selection(
            history=History(self.history),
            commit_range=self.commit_range,
            since=None if self.since is None else self.since.replace(tzinfo=UTC),
            until=None if self.until is None else self.until.replace(tzinfo=UTC) + whole_day,
            limit=self.limit,
        )


class GroundTruth(NamedTuple):
    """What was read of a repository, and the folder where it is kept.

    `repository` and `kind` are what the template says of the source.
    """

    folder: Path
    repository: str
    kind: str
    records: int
    sha256: str
    dataset: bytes

    def as_document(self) -> JsonObject:
        """Return what `--dry-run --json` prints."""
        return {"folder": str(self.folder.resolve()), **self.provenance()}

    def provenance(self) -> JsonObject:
        """Return what is stored with the records: their origin and hashes."""
        return {
            "repository": self.repository,
            "ground_truth_source": self.kind,
            "records": self.records,
            "ground_truth_sha256": self.sha256,
            "dataset_sha256": sha256_hex(self.dataset),
        }


def source_options(command: CommandT) -> CommandT:
    """Add the options that `Source` is made of."""
    options = (
        click.option(
            "--repo",
            help="A local clone (a path or file:// URL), or https://github.com/OWNER/NAME.",
        ),
        click.option(
            "--history",
            type=click.Choice([history.value for history in History]),
            default=History.PLAIN.value,
            show_default=True,
            help="Which commits: all but merges, those of the branch itself, or its merges.",
        ),
        click.option(
            "--range",
            "commit_range",
            default="HEAD",
            show_default=True,
            help="Which commits, as git names them: A..B, or all up to one.",
        ),
        click.option(
            "--label", "labels", multiple=True, help="GitHub: only pull requests with it."
        ),
        click.option("--since", type=_DAY, help="From this day on, in UTC."),
        click.option("--until", type=_DAY, help="To the end of this day, in UTC."),
        click.option(
            "--limit",
            type=click.IntRange(1),
            default=100,
            show_default=True,
            help="At most so many, the newest.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def store_ground_truth(
    source: Source, *, output: Path | None, workspace: Workspace, log: VerificationLog
) -> GroundTruth:
    """Read a repository and keep its records and the dataset made of them.

    Without `output` the folder is in `home` and is named by the dataset's hash. Raises
    RepositoryError where there is nothing to read, and OutputTakenError where `output` holds
    another dataset, which a theatre may be committed to.
    """
    records = _records(source, workspace, log)
    if not records:
        raise RepositoryError(
            f"expected changes in {source.repo:.200}, got none: change --range, --since, --until, "
            "--label or --history"
        )
    lines, dataset = ground_truth_lines(records), dataset_lines(records)
    folder = output or workspace.home / "verification" / sha256_hex(dataset)[:_NAME_DIGITS]
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / DATASET_FILE
    if kept.exists() and kept.read_bytes() != dataset:
        raise OutputTakenError(
            f"expected {folder} without ground truth, or with this one, got another: give "
            "another --output"
        )
    replace_durably(folder / GROUND_TRUTH_FILE, lines)
    replace_durably(kept, dataset)
    truth = GroundTruth(
        folder=folder,
        repository=source.repository,
        kind=source.kind,
        records=len(records),
        sha256=sha256_hex(lines),
        dataset=dataset,
    )
    replace_durably(folder / SOURCE_FILE, canonical_line(truth.provenance()))
    log.log_event("ground-truth", **truth.as_document())
    return truth


def read_ground_truth(folder: Path, *, log: VerificationLog) -> GroundTruth:
    """Return what an earlier reading kept in a folder.

    Raises NotFoundError where there is none, and RepositoryError where it is not as it was read, or
    the dataset is not the one that follows from the records.
    """
    what = "the ground truth of `echelon ingest`"
    said = parse_object(read_file(folder / SOURCE_FILE, what=what))
    dataset = read_file(folder / DATASET_FILE, what=what)
    lines = read_file(folder / GROUND_TRUTH_FILE, what=what)
    truth = GroundTruth(
        folder=folder,
        repository=str(said.get("repository")),
        kind=str(said.get("ground_truth_source")),
        records=lines.count(b"\n"),
        sha256=sha256_hex(lines),
        dataset=dataset,
    )
    if truth.provenance() != said or not _follows(dataset, lines):
        raise RepositoryError(
            f"expected {folder} as `echelon ingest` left it, got other bytes: ingest again"
        )
    log.log_event("ground-truth", **truth.as_document())
    return truth


def _follows(dataset: bytes, lines: bytes) -> bool:
    try:
        records = [read_record(parse_object(line)) for line in lines.splitlines()]
    except (ParseError, NoRecordError):
        return False
    return dataset_lines(records) == dataset


def print_ground_truth(truth: GroundTruth, *, as_json: bool) -> None:
    """Print what was read and where it is kept."""
    if as_json:
        print_document(truth.as_document())
        return
    echo(f"records       {truth.records}")
    echo(f"ground truth  {truth.sha256}")
    echo(f"kept in       {truth.folder}")


def _records(source: Source, workspace: Workspace, log: VerificationLog) -> list[GroundTruthRecord]:
    selection = source.selection
    if not source.is_remote:
        if source.labels:
            raise click.UsageError("expected --label for a repository on GitHub only")
        return list(read_history(clone_folder(source.repo), selection))
    if selection.history is not History.PLAIN:
        raise click.UsageError("expected --history for a local clone only")
    # Imported here: the client costs start-up time that a local clone need not pay.
    from theatre.cli.verification_github import read_github  # noqa: PLC0415  # see above

    return read_github(source.repo, selection, source.labels, workspace, log)


# `echelon ingest`: a repository's changes as ground truth in a folder, for replays without it.


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
