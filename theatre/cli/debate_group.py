"""`echelon debate …`: validate, check, evaluate, draw and sweep debates."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from theatre.api.judge import PROVIDERS, committed_by, open_judges
from theatre.api.named_files import read_file
from theatre.api.workspace import Workspace
from theatre.cli.debate_plots import debate_pictures
from theatre.cli.debate_sweep_command import sweep
from theatre.cli.exits import CommandEndedError, ExitCode, echo, json_option, print_document
from theatre.cli.judge_options import JudgeChoice
from theatre.cli.pictures import write_pictures
from theatre.debate.errors import InvalidDebateError, JudgementRecordError
from theatre.debate.evaluators import EVALUATORS, NAMES, RAUDIT
from theatre.debate.evaluators import evaluate as evaluate_artefact
from theatre.debate.event_log import subject_of, view_of
from theatre.debate.history import find_rewrites
from theatre.debate.judge import evaluator as judge
from theatre.debate.judge.questions import MAX_TURNS, RUBRICS
from theatre.debate.models import DIRECTION, Action, Finding
from theatre.debate.validation import DebateArtefact, read_debate, repeated_runs
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import NotFoundError
from theatre.engine.schema_registry import SchemaRegistry
from theatre.judging.panel import SPLITS, panel_of

if TYPE_CHECKING:
    from theatre.providers import ProviderKind

JUDGE = "judge"


@click.group(no_args_is_help=True)
def debate() -> None:
    """Validate, check, evaluate, draw and sweep debates; history is only added to."""


debate.add_command(sweep)


@debate.command(short_help="Check debates against the schema and every rule.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--lenient", is_flag=True, help="Order of turns and retry counts: warn only.")
@json_option
def validate(files: tuple[Path, ...], *, lenient: bool, as_json: bool) -> None:
    """Check FILES against the schema and every rule; all findings are listed."""
    registry = SchemaRegistry()
    findings: list[list[Finding]] = []
    valid: list[tuple[int, DebateArtefact]] = []
    for place, path in enumerate(files):
        data = read_file(path, what="a debate artefact")
        try:
            artefact = read_debate(data, lenient=lenient, registry=registry)
        except InvalidDebateError as error:
            findings.append(list(error.findings))
        else:
            findings.append(list(artefact.warnings))
            valid.append((place, artefact))
    for at, repeated in repeated_runs([artefact.debate for _, artefact in valid]):
        findings[valid[at][0]].append(repeated)
    _report(files, findings, as_json=as_json)


@debate.command(short_help="Print what evaluators find in a debate, as JSON.")
@click.argument("artefact", type=click.Path(path_type=Path))
@click.option(
    "--evaluator",
    "names",
    multiple=True,
    type=click.Choice(sorted([*NAMES, JUDGE])),
    help="Only these; otherwise all that need no labels, and raudit where there are some.",
)
@click.option(
    "--provider",
    "kind",
    type=click.Choice([*PROVIDERS]),
    default="anthropic",
    show_default=True,
    help="Whose interface that model speaks: Messages, or OpenAI's chat completions.",
)
@click.option(
    "--model",
    "--judge-model",
    "models",
    multiple=True,
    metavar="[PROVIDER:]MODEL",
    help="The language model that is asked where the evaluator is judge; several are a panel.  "
    f"[default: {PROVIDERS['anthropic'].model} of anthropic]",
)
@click.option(
    "--judge-split",
    "split",
    type=click.Choice(SPLITS),
    help="What a figure of a turn comes to where the judges of a panel differ.",
)
@click.option(
    "--recorded",
    "record",
    type=click.Path(path_type=Path),
    help="For judge: an earlier output, whose recorded answers are counted again, without a call.",
)
@click.option(
    "--truth",
    "truths",
    multiple=True,
    metavar="[SPEAKER=]ACTION",
    help="The true action, of all speakers or of one; only raudit gets it.",
)
def evaluate(
    artefact: Path,
    *,
    names: tuple[str, ...],
    truths: tuple[str, ...],
    kind: ProviderKind,
    models: tuple[str, ...],
    split: str | None,
    record: Path | None,
) -> None:
    """Print what evaluators find in ARTEFACT, as JSON. They see form and words, never truth.

    Only judge asks a language model, with its provider's key from the environment; it never runs
    unasked.
    """
    labels = dict(map(_label, truths))
    if RAUDIT in names and not labels:
        raise click.UsageError("expected --truth for raudit, got none: it compares with labels")
    if record is not None and JUDGE not in names:
        raise click.UsageError("expected --evaluator judge with --recorded, got another or none")
    read = read_debate(read_file(artefact, what="a debate artefact"), lenient=True)
    chosen = names or sorted([*EVALUATORS, *([RAUDIT] if labels else [])])
    results = evaluate_artefact(read, [name for name in chosen if name != JUDGE], labels)
    if JUDGE in chosen:
        if record is not None:
            results.append(_replay(read, record))
        else:
            chosen_by = JudgeChoice(kind, models, split, 1)
            results.append(asyncio.run(_judge(read, chosen_by)))
    print_document({"artefact_sha256": read.sha256, "results": results})


@debate.command(short_help="Check that a debate was only added to.")
@click.argument("artefact", type=click.Path(path_type=Path))
@click.option("--earlier", type=click.Path(path_type=Path), help="An earlier version of it.")
@click.option(
    "--log", "log_path", type=click.Path(path_type=Path), help="Its event log (JSON lines)."
)
@json_option
def check(artefact: Path, *, earlier: Path | None, log_path: Path | None, as_json: bool) -> None:
    """Check that ARTEFACT only adds to an earlier version, and is what its event log comes to."""
    if earlier is None and log_path is None:
        raise click.UsageError("expected --earlier or --log, got neither: nothing to check against")
    now, findings = _document_of(artefact)
    if earlier is not None:
        before = read_debate(read_file(earlier, what="an earlier version"), lenient=True)
        findings += find_rewrites(before.document, now)
    if log_path is not None:
        findings += _against_log(now, log_path)
    _report((artefact,), [sorted(findings)], as_json=as_json, failure=ExitCode.CHECK_FAILED)


@debate.command(short_help="Draw what the loop of a debate measured.")
@click.argument("artefact", type=click.Path(path_type=Path))
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), required=True, help="Folder for the SVGs."
)
def plot(artefact: Path, *, folder: Path) -> None:
    """Draw what the loop of ARTEFACT measured: quality, controller, quadrants."""
    raw = read_file(artefact, what="a debate artefact")
    debate_run = read_debate(raw, lenient=True).debate
    pictures = debate_pictures(debate_run, hashlib.sha256(raw).hexdigest())
    if not pictures:
        raise NotFoundError("expected attempts with audits to draw, got none")
    for path in write_pictures(pictures, folder):
        echo(str(path))


async def _judge(artefact: DebateArtefact, chosen: JudgeChoice) -> JsonObject:
    """Return what the chosen models find, asked now, one call a turn and one before.

    Raises JudgeUnavailableError where there is no key, or a model does not answer.
    """
    workspace, named = Workspace.from_environment(), chosen.named()
    judges = [
        await committed_by(RUBRICS, judge.probe, kind, model, workspace=workspace)
        for kind, model in named
    ]
    calls = min(MAX_TURNS, len(artefact.debate.turns))
    names = " and ".join(model for _, model in named)
    click.echo(f"note: {names} judges: {calls * len(named)} calls, one a turn", err=True)
    terms = judges[0] if chosen.judge_split is None else panel_of(judges, chosen.judge_split)
    async with open_judges([{"panel": panel_of(judges, "")}], workspace) as asked:
        return await judge.evaluate(artefact, terms, asked)


def _replay(artefact: DebateArtefact, record: Path) -> JsonObject:
    """Return the result of the exchanges in `record`, the output of an earlier evaluation.

    Needs no network and no key. Raises JudgementRecordError where that is not what it says.
    """
    results = parse_object(read_file(record, what="a recorded evaluation")).get("results")
    rows = results if isinstance(results, list) else []
    found = [row for row in rows if isinstance(row, dict) and row.get("evaluator") == judge.NAME]
    if len(found) != 1:
        raise JudgementRecordError(
            f"expected one result of {judge.NAME} in {record}, got {len(found)}; give the output "
            "of echelon debate evaluate --evaluator judge"
        )
    return judge.replay(artefact, found[0])


def _label(text: str) -> tuple[str, Action]:
    speaker, _, action = text.rpartition("=")
    if action not in DIRECTION:
        wanted = ", ".join(DIRECTION)
        raise click.UsageError(f"expected --truth to end in one of {wanted}, got {text!r:.60}")
    return speaker or "*", cast("Action", action)


def _document_of(path: Path) -> tuple[JsonObject, list[Finding]]:
    """Return the document to check, and the rules that it breaks: a rewritten one may break some.

    Raises InvalidDebateError for a document without the shape of a debate.
    """
    data = read_file(path, what="a debate artefact")
    try:
        return read_debate(data, lenient=True).document, []
    except InvalidDebateError as error:
        if any(one.rule == "R18" or one.rule.startswith("schema:") for one in error.findings):
            raise
        return parse_object(data, max_depth=MAX_INPUT_DEPTH), list(error.findings)


def _against_log(document: JsonObject, path: Path) -> list[Finding]:
    lines = read_file(path, what="an event log").splitlines()
    entries = [parse_object(line) for line in lines]
    seen = view_of(entries, subject=subject_of(document)).document()
    if canonical_bytes(seen) == canonical_bytes(document):
        return []
    detail = "expected what the event log comes to, got another artefact"
    differing = list(find_rewrites(seen, document))
    return differing or [
        Finding(pointer="", rule="history", code="LOG_DIFFERS", severity="error", detail=detail)
    ]


def _report(
    files: tuple[Path, ...],
    findings: list[list[Finding]],
    *,
    as_json: bool,
    failure: ExitCode = ExitCode.INVALID,
) -> None:
    valid = [all(one.severity == "warning" for one in found) for found in findings]
    if as_json:
        rows = zip(files, valid, findings, strict=True)
        reports = [
            {"file": str(path), "valid": good, "findings": [one.as_document() for one in found]}
            for path, good, found in rows
        ]
        print_document({"valid": all(valid), "files": reports})
    else:
        for path, good, found in zip(files, valid, findings, strict=True):
            for one in found:
                where = one.pointer or "the root"
                echo(f"{one.severity}  {one.rule} {one.code} at {where}: {one.detail}")
            echo(f"{path}: {'valid' if good else 'invalid'}")
    if not all(valid):
        raise CommandEndedError(failure)
