"""Everything that is wrong with a template, and what its data are worth, at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from theatre.api.commitments import check_named
from theatre.api.draft_files import resolve_file
from theatre.api.qualifications import qualification_faults
from theatre.api.results import Validation
from theatre.api.template_files import Written, validate_template
from theatre.api.workspace import Workspace
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
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation, json_pointer
from theatre.engine.scoring.measure_policy import named_qualifications
from theatre.engine.scoring.run_controls import FEWEST_CONTROLS
from theatre.engine.templates import ProductTheatreTemplate, TemplateView
from theatre.files.datasets import DatasetRoots, verify_datasets
from theatre.files.evidence_preview import preview_evidence
from theatre.oracles.errors import OutboundPolicyError, OutboundRefusedError, UnknownConstructError
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_episode_runners, load_scorers


def validate_written(
    written: Written, path: Path, workspace: Workspace, *, rehearsal: bool
) -> Validation:
    """Return all findings on a draft or a template, whose data paths begin where `path` lies."""
    document, errors = _compiled(written, path, workspace)
    warnings: list[SchemaViolation] = []
    evidence: JsonObject | None = None
    if document is not None:
        report = validate_template(document, certificate_run=not rehearsal)
        errors += report.errors
        warnings += report.warnings
        if report.view is not None and not errors:
            evidence, found = _look_at_files(document, report.view, path.parent, workspace)
            warnings += _foreseen_caps(document, evidence or {})
            # Of a draft they stand between it and its template; a template may be run elsewhere.
            (errors if written.is_draft else warnings).extend(found)
            if isinstance(report.view, ProductTheatreTemplate) and not found:
                roots = workspace.datasets_for(path.parent)
                errors += qualification_faults(document, report.view, roots)
    return Validation(errors=tuple(errors), warnings=tuple(warnings), evidence=evidence)


def _compiled(
    written: Written, path: Path, workspace: Workspace
) -> tuple[JsonObject | None, list[SchemaViolation]]:
    """Return a template, or that of a draft, and what is wrong with the draft.

    Without a template where the draft cannot be compiled at all.
    """
    if not written.is_draft:
        return written.document, []
    try:
        pinned = resolve_file(path, written.document, workspace)
    except DraftError as error:
        return None, [*error.violations]
    return pinned.document, [*pinned.problems]


def _look_at_files(
    document: JsonObject, view: TemplateView, folder: Path, workspace: Workspace
) -> tuple[JsonObject | None, list[SchemaViolation]]:
    """Return what the data are worth, and what is wrong with data and constructs as they are."""
    if not isinstance(view, ProductTheatreTemplate):
        return None, []
    roots = workspace.datasets_for(folder)
    found = _missing_data(view, roots)
    evidence: JsonObject | None = None
    if not found:
        evidence, found = _preview(document, view, roots)
    if evidence is not None:
        found = [*data_faults(document, view, roots, load_scorers())]
        found = found or [*_unmeasurable(view, evidence)]
    found += stale_versions(view, workspace.places(folder))
    return evidence, [*found, *_refused_addresses(view, workspace, folder)]


def _refused_addresses(
    view: ProductTheatreTemplate, workspace: Workspace, folder: Path
) -> Iterator[SchemaViolation]:
    """Yield the first address that a run would not call; an unknown id is another rule's."""
    try:
        check_named(view, workspace, folder)
    except (OutboundPolicyError, OutboundRefusedError) as error:
        yield SchemaViolation(
            "/product_theatre_config/adapter_endpoint", "endpoint-allowed", str(error)
        )
    except UnknownConstructError:
        return


def _unmeasurable(view: ProductTheatreTemplate, evidence: JsonObject) -> Iterator[SchemaViolation]:
    """Yield each criterion of which no trivial answer is right or wrong: it has no measure."""
    baselines: Any = evidence["baselines"]
    for criterion, chosen in view.scoring.criteria_scorers.items():
        if all(one is None for one in baselines["criteria"][criterion].values()):
            yield SchemaViolation(
                pointer=json_pointer("scoring", "criteria_scorers", criterion),
                rule="expectation-unmeasurable",
                detail=f"expected expectations that {chosen.scorer} can compare, got others (a "
                "text for a list or an object, say): every answer would be unscored; "
                "docs/scorers.md says what each scorer takes",
            )


def _foreseen_caps(document: JsonObject, evidence: JsonObject) -> Iterator[SchemaViolation]:
    """Yield why a judge whose qualification a template names will carry no tier, or may not."""
    unqualified: Any = evidence.get("unqualified", {})
    for criterion in sorted(unqualified.keys() & named_qualifications(document).keys()):
        yield SchemaViolation(
            pointer=json_pointer("scoring", "qualifications", criterion),
            rule="qualification-weak",
            detail="expected a qualification that carries a tier, got one that caps it at "
            f"UNVERIFIED ({unqualified[criterion]}): qualify another measure with "
            "`echelon qualify`, or give the criterion the weight 0",
        )
    controls: Any = evidence.get("controls", {})
    for criterion, answers in sorted(controls.items()):
        if answers is not None and answers < FEWEST_CONTROLS:
            yield SchemaViolation(
                pointer=json_pointer("scoring", "criteria_scorers", criterion, "params"),
                rule="controls-few",
                detail=f"expected control items with {FEWEST_CONTROLS} answers or more, got them "
                f"with {answers:.3g} on average: each brings of either sort half as many as it "
                f"has claims, or up to all; with fewer than {FEWEST_CONTROLS} of a sort in the run "
                "the tier is capped at UNVERIFIED. Take more episodes, or a smaller controls.every",
            )


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
        verify_datasets(view, roots, load_episode_runners())
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
