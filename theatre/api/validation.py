"""Everything that is wrong with a template, and what its data are worth, at once."""

from __future__ import annotations

from pathlib import Path

from theatre.api.results import Validation
from theatre.api.template_files import validate_template
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import (
    DatasetError,
    PinMismatchError,
    ProgrammeError,
    TheatreError,
    UnknownScorerError,
)
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation
from theatre.engine.templates import ProductTheatreTemplate, TemplateView
from theatre.files.datasets import DatasetRoots, verify_datasets
from theatre.files.evidence_preview import preview_evidence
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_episode_runners, load_scorers


def validate_with_data(
    document: JsonObject, folder: Path, workspace: Workspace, *, rehearsal: bool
) -> Validation:
    """Return all findings on a template whose data paths begin in `folder`."""
    report = validate_template(document, certificate_run=not rehearsal)
    warnings = [*report.warnings]
    evidence: JsonObject | None = None
    if report.view is not None:
        roots = workspace.datasets_for(folder)
        missing = _missing_data(report.view, roots)
        evidence, untold = (None, []) if missing else _preview(document, report.view, roots)
        warnings += [*missing, *untold]
    return Validation(errors=report.errors, warnings=tuple(warnings), evidence=evidence)


def _missing_data(view: TemplateView, roots: DatasetRoots) -> list[SchemaViolation]:
    """Return a warning for each dataset file of a valid replay template that is not there."""
    if not isinstance(view, ProductTheatreTemplate):
        return []
    warnings = []
    for name, path in view.product_theatre_config.data_paths().items():
        try:
            roots.find(path)
        except DatasetError as error:
            warnings.append(
                SchemaViolation(
                    pointer=f"/dataset_hashes/{name}", rule="dataset-file", detail=str(error)
                )
            )
    return warnings


def _preview(
    document: JsonObject, view: TemplateView, roots: DatasetRoots
) -> tuple[JsonObject | None, list[SchemaViolation]]:
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
        warning = SchemaViolation(
            pointer=pointers.get(type(error), "/dataset_hashes"),
            rule="no-evidence-preview",
            detail=str(error),
        )
        return None, [warning]
    return preview, []
