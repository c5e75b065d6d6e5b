"""`echelon score`: recorded answers scored again; a certificate only where they were committed."""

import asyncio
import shlex
from pathlib import Path
from typing import NamedTuple, cast

import click

from theatre.api.runs import committed_theatres
from theatre.api.template_files import read_template
from theatre.api.workspace import Workspace
from theatre.cli.check_report import require_consistent
from theatre.cli.exits import CommandEndedError, ExitCode, echo, json_option, print_document
from theatre.cli.inspect_command import print_inspection, read_inspection
from theatre.cli.tables import format_number
from theatre.cli.verification_run import TEMPLATE_FILE
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import InvocationStatus, read_episodes
from theatre.engine.rlmf_export import SealedBundle
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import product_template
from theatre.files.durable import replace_durably
from theatre.files.theatre_store import FileTheatreStore, TheatreView
from theatre.scorers import load_scorers
from theatre.verification.certificate import verification_certificate
from theatre.verification.errors import TooFewReplaysError
from theatre.verification.rescoring import RecordedAnswer, read_answers, rescore
from theatre.verification.template import (
    DATASET_FILE,
    EQUAL_WEIGHTS,
    OracleUnderTest,
    Terms,
    oracle_template,
)

# Recorded answers in a folder: a sealed run, an unfinished one, or files without a commitment.


_ANSWERS = "answers.jsonl"
_NOBODY = OracleUnderTest(
    construct_id="unknown", version="0000000", adapter_type="local", endpoint="construct:unknown"
)
_STATUS = {"scored": InvocationStatus.SUCCESS, "excluded": InvocationStatus.REFUSED}
_NO_TERMS = Terms(weights=EQUAL_WEIGHTS, timeout_seconds=30, ground_truth_source="CUSTOM")


class SealedRunFolder(NamedTuple):
    """A run with its evidence bundle."""

    bundle: Path

    def report(self, why: str) -> JsonObject:
        """Return the scores of a run that earned no verification certificate."""
        sealed = SealedBundle(self.bundle)
        episodes = list(sealed.episodes())
        answers = {
            one.truth.episode_id: RecordedAnswer.of(
                one.record, _STATUS.get(str(one.line["outcome"]), InvocationStatus.ERROR)
            )
            for one in episodes
        }
        truths = (one.truth for one in episodes)
        return _answers_report(why, rescore(sealed.template, load_scorers(), truths, answers))


class UnfinishedRun(NamedTuple):
    """A committed run whose answers are not all in."""

    store: FileTheatreStore
    view: TheatreView
    workspace: Workspace

    async def report(self) -> JsonObject:
        """Return the scores so far; errors as the store and the dataset's finder."""
        answers = {}
        with self.store.hold(self.view.theatre_id) as held:
            async for result in held.journal.results():
                answers[result.episode_id] = RecordedAnswer.of(
                    result.record.document, result.status
                )
        template = product_template(self.view.template)
        config = template.product_theatre_config
        path = config.data_paths()[config.replay_dataset_id]
        roots = self.workspace.datasets_for(self.view.template_folder)
        dataset = roots.open(path, sha256=template.replay_dataset_hash)
        try:
            episodes = read_episodes(dataset.lines())
            found = rescore(self.view.template, load_scorers(), episodes, answers)
        finally:
            dataset.close()
        folder = shlex.quote(str(self.view.template_folder))
        why = f"the run is unfinished; go on with: echelon verify --resume {folder}"
        return _answers_report(why, found)


class UncommittedAnswers(NamedTuple):
    """Ground truth, and answers without a commitment: they may have been written at any time."""

    folder: Path

    def report(self) -> JsonObject:
        """Return the scores; raises DatasetError for lines that are none."""
        dataset = (self.folder / DATASET_FILE).read_bytes()
        with (self.folder / _ANSWERS).open("rb") as lines:
            answers = read_answers((x.removesuffix(b"\n") for x in lines), SchemaRegistry())
        template = oracle_template(_NOBODY, _NO_TERMS, sha256_hex(dataset))
        episodes = read_episodes(dataset.splitlines())
        why = "no commitment was made before these answers"
        return _answers_report(why, rescore(template, load_scorers(), episodes, answers))


RecordedRun = SealedRunFolder | UnfinishedRun | UncommittedAnswers


def find_recorded_run(folder: Path, workspace: Workspace) -> RecordedRun:
    """Return what a folder holds: a bundle, a theatre, a verification, or data with answers.

    Of several runs of a verification the newest counts. Raises NotFoundError where there is
    nothing that could be scored.
    """
    if (folder / "certificate.json").is_file():
        return SealedRunFolder(bundle=folder)
    if (folder / "origin.json").is_file():
        return _theatre(FileTheatreStore(folder.resolve().parents[1]), folder.name, workspace)
    if (folder / TEMPLATE_FILE).is_file():
        template = read_template(folder / TEMPLATE_FILE)
        for found in committed_theatres(template, workspace):
            if found.template_folder == folder.resolve():
                return _theatre(workspace.store, found.theatre_id, workspace)
    if (folder / DATASET_FILE).is_file() and (folder / _ANSWERS).is_file():
        return UncommittedAnswers(folder=folder)
    raise NotFoundError(
        f"expected a bundle, a theatre, the folder of a verification, or {DATASET_FILE} with "
        f"{_ANSWERS} in {folder}, got none of them"
    )


def _theatre(store: FileTheatreStore, theatre_id: str, workspace: Workspace) -> RecordedRun:
    view = store.view(theatre_id)
    bundle = view.folder / bundle_name(theatre_id)
    if bundle.is_dir():
        return SealedRunFolder(bundle=bundle)
    return UnfinishedRun(store=store, view=view, workspace=workspace)


def _answers_report(why: str, found: JsonObject) -> JsonObject:
    return {"is_certificate": False, "why": why, **found}


@click.command()
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help=f"The folder of a run, a bundle, or one with {_ANSWERS} next to its ground truth.",
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
        echo(f"{criterion:15} {format_number(mean)}")
    echo(f"replays         {report['replay_count']} of {report['changes']} changes")
    echo(f"written         {output}")
