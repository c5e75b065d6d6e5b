"""`echelon theatre validate`: everything that is wrong with a template, at once."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.certificate_report import print_preview
from theatre.cli.draft_files import find_draft, places_of, resolve_file
from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document
from theatre.cli.reports import print_violations
from theatre.cli.template_files import read_written, validate_template
from theatre.cli.workspace import Workspace
from theatre.drafts.errors import DraftError
from theatre.drafts.ground_truth import data_faults
from theatre.drafts.pinning import stale_versions
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import (
    DatasetError,
    PinMismatchError,
    ProgrammeError,
    TheatreError,
    UnknownScorerError,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import ProductTheatreTemplate, TemplateView
from theatre.files.datasets import DatasetRoots, verify_datasets
from theatre.files.evidence_preview import preview_evidence
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_episode_runners, load_scorers

_REFUSED_AT_THE_COMMITMENT = frozenset({"dataset-file", "no-evidence-preview", "construct-version"})


@click.command()
@click.argument("template", required=False, type=click.Path(path_type=Path))
@click.option("--rehearsal", is_flag=True, help="As a template to rehearse, not to certify.")
@json_option
def validate(template: Path | None, *, rehearsal: bool, as_json: bool) -> None:
    """Check TEMPLATE, a draft or a template, against every rule; all violations are listed.

    Without TEMPLATE it is the draft of this folder, echelon.yaml. Data and constructs are looked
    at as they are now. Where the data are at hand: how many of the questions differ, which give an
    answer away, what answers without any work would score, and which codes would cap the tier.
    """
    workspace = Workspace.from_environment()
    template = template or find_draft(Path())
    document, errors, is_pinned = _compiled(template, workspace)
    warnings: list[JsonObject] = []
    evidence: JsonObject | None = None
    if document is not None:
        report = validate_template(document, certificate_run=not rehearsal)
        errors += [error.as_document() for error in report.errors]
        warnings += [warning.as_document() for warning in report.warnings]
        if report.view is not None and not errors:
            found = _look_at_files(document, report.view, template.parent, workspace)
            evidence, about_files = found
            # Of a draft they stand between it and its template; a template may be run elsewhere.
            (warnings if is_pinned else errors).extend(about_files)
    if as_json:
        print_document(
            {"valid": not errors, "errors": errors, "warnings": warnings, "evidence": evidence}
        )
    else:
        print_violations("error", errors)
        print_violations("warning", warnings)
        if evidence is not None:
            print_preview(evidence)
        click.echo(_verdict(errors, warnings))
    if errors:
        raise CommandEndedError(ExitCode.INVALID)


def _compiled(path: Path, workspace: Workspace) -> tuple[JsonObject | None, list[JsonObject], bool]:
    """Return a template, or that of a draft, what is wrong with the draft, and whether it is one.

    Without a template where the draft cannot be compiled at all.
    """
    written = read_written(path)
    if not written.is_draft:
        return written.document, [], True
    try:
        pinned = resolve_file(path, written.document, workspace)
    except DraftError as error:
        listed: list[JsonObject] = [
            {"pointer": one.pointer, "rule": one.rule, "detail": one.detail}
            for one in error.violations
        ]
        return None, listed, False
    return pinned.document, [one.as_document() for one in pinned.problems], False


def _verdict(errors: list[JsonObject], warnings: list[JsonObject]) -> str:
    if errors:
        return f"invalid: {len(errors)} error(s)"
    refused = sorted({str(one["rule"]) for one in warnings} & _REFUSED_AT_THE_COMMITMENT)
    return f"valid, but cannot run here: {', '.join(refused)}" if refused else "valid"


def _look_at_files(
    document: JsonObject, view: TemplateView, folder: Path, workspace: Workspace
) -> tuple[JsonObject | None, list[JsonObject]]:
    """Return what the data are worth, and what is wrong with data and constructs as they are."""
    if not isinstance(view, ProductTheatreTemplate):
        return None, []
    roots = workspace.datasets_for(folder)
    found = _missing_data(view, roots)
    evidence: JsonObject | None = None
    if not found:
        evidence, found = _preview(document, view, roots)
    if evidence is not None:
        found = [one.as_document() for one in data_faults(document, view, roots, load_scorers())]
    stale = stale_versions(view, places_of(folder, workspace))
    return evidence, [*found, *(one.as_document() for one in stale)]


def _missing_data(view: TemplateView, roots: DatasetRoots) -> list[JsonObject]:
    """Return a warning for each dataset file of a valid replay template that is not there."""
    if not isinstance(view, ProductTheatreTemplate):
        return []
    warnings: list[JsonObject] = []
    for name, path in view.product_theatre_config.data_paths().items():
        try:
            roots.find(path)
        except DatasetError as error:
            warnings.append(
                {"pointer": f"/dataset_hashes/{name}", "rule": "dataset-file", "detail": str(error)}
            )
    return warnings


def _preview(
    document: JsonObject, view: TemplateView, roots: DatasetRoots
) -> tuple[JsonObject | None, list[JsonObject]]:
    """Return what the data at hand are worth as evidence, or a warning that says why not."""
    if not isinstance(view, ProductTheatreTemplate):
        return None, []
    scorers = load_scorers()
    try:
        verify_datasets(view, roots)
        preview = preview_evidence(
            document,
            view,
            roots,
            scorers,
            runners=load_episode_runners(),
            sanitiser=TextSanitiser(),
            registry=SchemaRegistry(),
        )
    except (DatasetError, PinMismatchError, ProgrammeError, UnknownScorerError) as error:
        pointers: dict[type[TheatreError], str] = {
            ProgrammeError: "/product_theatre_config/episode_runner",
            PinMismatchError: "/scorer_pins",
            UnknownScorerError: "/scorer_pins",
        }
        warning: JsonObject = {
            "pointer": pointers.get(type(error), "/dataset_hashes"),
            "rule": "no-evidence-preview",
            "detail": str(error),
        }
        return None, [warning]
    return preview, []
