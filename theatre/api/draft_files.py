"""Draft files (`echelon.yaml`): found, read, pinned, and the template written next to them."""

import json
from collections.abc import Iterable
from pathlib import Path

from theatre.api.connections import find_tools
from theatre.api.event_loop import complete
from theatre.api.named_files import read_file
from theatre.api.template_files import DRAFT_NAMES
from theatre.api.workspace import Workspace
from theatre.drafts.errors import DraftError
from theatre.drafts.ground_truth import data_faults
from theatre.drafts.pinning import PinnedDraft, changes, resolve_draft
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import NotFoundError, ParseError
from theatre.engine.schema_registry import SchemaViolation
from theatre.engine.template_validator import TemplateValidator
from theatre.engine.templates import ProductTheatreTemplate
from theatre.files.durable import replace_durably
from theatre.scorers import load_scorers


def find_draft(folder: Path) -> Path:
    """Return the draft of a folder; NotFoundError, with what to do, where there is none."""
    found = next((folder / name for name in DRAFT_NAMES if (folder / name).is_file()), None)
    if found is None:
        raise NotFoundError(
            f"expected {DRAFT_NAMES[0]} in {folder.resolve()}, got none: make one with "
            "`echelon init`, or name a draft or a template"
        )
    return found


def resolve_file(path: Path, draft: JsonObject, workspace: Workspace) -> PinnedDraft:
    """Return the template of the draft at `path` as its files are now, as `resolve_draft`."""
    places = workspace.places(path.parent)
    return resolve_draft(
        draft,
        scorers=load_scorers(),
        places=places,
        datasets=workspace.datasets_for(path.parent),
        find_tools=lambda endpoint: complete(find_tools(endpoint, places, workspace)),
    )


def pin_file(path: Path, workspace: Workspace, draft: JsonObject) -> JsonObject:
    """Return the template of the draft at `path`, which can be committed.

    Raises DraftError with everything that is wrong with draft, template, data and constructs.
    """
    pinned = resolve_file(path, draft, workspace)
    scorers = load_scorers()
    report = TemplateValidator(scorers).validate(pinned.document, certificate_run=True)
    faults = [*pinned.problems, *report.errors]
    if not faults and isinstance(report.view, ProductTheatreTemplate):
        datasets = workspace.datasets_for(path.parent)
        faults = data_faults(pinned.document, report.view, datasets, scorers)
    if faults:
        raise DraftError(faults)
    return pinned.document


def pinned_path(draft: Path) -> Path:
    """Return where the template of a draft is written, unless its author says otherwise."""
    return draft.with_name(f"{draft.stem}.template.json")


def write_pinned(template: JsonObject, path: Path) -> list[str]:
    """Write a pinned template; return what changed against the one that was there, [] if nothing.

    Raises DraftError where something else lies there.
    """
    before = read_pinned(path) if path.exists() else None
    if before == template:
        return []
    text = json.dumps(template, ensure_ascii=False, indent=2)
    replace_durably(path, f"{text}\n".encode())
    return ["new"] if before is None else changes(before, template)


def read_pinned(path: Path) -> JsonObject:
    """Return a template that was pinned; DraftError for a file that is none."""
    try:
        document = parse_object(read_file(path, what="a pinned template"))
    except ParseError as error:
        raise DraftError([_no_template(path, str(error))]) from error
    if "schema_version" not in document:
        raise DraftError([_no_template(path, "no schema_version")])
    return document


def _no_template(path: Path, got: str) -> SchemaViolation:
    detail = f"expected a template at {path}, got {got}: name another file with -o"
    return SchemaViolation("", "pinned-template", detail)


def describe(lines: Iterable[str]) -> str:
    """Return lines as a list below a heading."""
    return "\n".join(f"  {line}" for line in lines)
