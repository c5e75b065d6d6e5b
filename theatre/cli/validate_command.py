"""`echelon theatre validate`: everything that is wrong with a template, at once."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.certificate_report import print_preview
from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document
from theatre.cli.reports import print_violations
from theatre.cli.template_files import read_template, template_argument, validate_template
from theatre.cli.workspace import Workspace
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


@click.command()
@template_argument
@click.option("--rehearsal", is_flag=True, help="As a template to rehearse, not to certify.")
@json_option
def validate(template: Path, *, rehearsal: bool, as_json: bool) -> None:
    """Check TEMPLATE against the schema and every rule; all violations are listed.

    Where its data are at hand: how many of the questions differ, which give an answer away, what
    answers without any work would score, and which codes would cap the tier.
    """
    document = read_template(template)
    report = validate_template(document, certificate_run=not rehearsal)
    warnings = [warning.as_document() for warning in report.warnings]
    evidence: JsonObject | None = None
    if report.view is not None:
        roots = Workspace.from_environment().datasets_for(template.parent)
        missing = _missing_data(report.view, roots)
        evidence, untold = (None, []) if missing else _preview(document, report.view, roots)
        warnings += [*missing, *untold]
    errors = [error.as_document() for error in report.errors]
    if as_json:
        print_document(
            {"valid": report.valid, "errors": errors, "warnings": warnings, "evidence": evidence}
        )
    else:
        print_violations("error", errors)
        print_violations("warning", warnings)
        if evidence is not None:
            print_preview(evidence)
        click.echo("valid" if report.valid else f"invalid: {len(errors)} error(s)")
    if not report.valid:
        raise CommandEndedError(ExitCode.INVALID)


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
