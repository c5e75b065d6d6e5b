"""Template files: read strictly, checked against every rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from theatre.api.named_files import read_file
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import InvalidTemplateError, ParseError
from theatre.engine.schema_registry import SchemaViolation
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.engine.templates import TemplateView, product_template
from theatre.scorers import load_scorers

DRAFT_NAMES = ("echelon.yaml", "echelon.yml", "echelon.json")
_ONLY_IN_DRAFTS = ("construct", "chain", "data", "answer", "measure", "measures", "template")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A document as its author wrote it: a draft, or a template."""

    document: JsonObject
    is_draft: bool


def is_draft(document: JsonObject) -> bool:
    """Tell a draft from a template: it has no `schema_version`, and a member of its own."""
    return "schema_version" not in document and any(one in document for one in _ONLY_IN_DRAFTS)


def read_written(path: Path) -> Written:
    """Read a draft or a template, YAML by its ending, else JSON.

    Raises NotFoundError where there is no file, and ParseError for what is no object.
    """
    data = read_file(path, what="a template file")
    if path.suffix not in {".yaml", ".yml"}:
        document = parse_object(data, max_depth=MAX_INPUT_DEPTH)
        return Written(document=document, is_draft=is_draft(document))
    from theatre.files.yaml_files import parse_yaml  # noqa: PLC0415 - JSON needs no YAML

    value = parse_yaml(data, as_json=True)
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ParseError(f"expected `name: value` lines in {path}, got {type(value).__name__}")
    # As bytes and back: what has no JSON form must not go further.
    document = parse_object(canonical_bytes(value), max_depth=MAX_INPUT_DEPTH)
    return Written(document=document, is_draft="schema_version" not in document)


def as_written(template: str | Path | Mapping[str, object]) -> tuple[Written, Path]:
    """Return a file as `read_written`, or a document through the strict parser; and its path.

    A document has that of a draft in the current folder, where its paths begin. Raises
    CanonicalisationError for one that has no JSON form.
    """
    if not isinstance(template, Mapping):
        return read_written(Path(template)), Path(template)
    document = parse_object(canonical_bytes({**template}), max_depth=MAX_INPUT_DEPTH)
    return Written(document=document, is_draft=is_draft(document)), Path.cwd() / DRAFT_NAMES[0]


def read_template(path: Path) -> JsonObject:
    """Parse a template file strictly, or pin a draft; errors as `read_written` and `pin_file`."""
    return template_of(read_written(path), path)


def template_of(written: Written, path: Path) -> JsonObject:
    """Return what was written if it is a template, else its draft pinned, as `pin_file`."""
    if not written.is_draft:
        return written.document
    # What reads a template must not wait for what compiles drafts and knows constructs.
    from theatre.api.draft_files import pin_file  # noqa: PLC0415
    from theatre.api.workspace import Workspace  # noqa: PLC0415

    return pin_file(path, Workspace.from_environment(), written.document)


def open_template(template: str | Path | Mapping[str, object]) -> tuple[JsonObject, Path]:
    """Return a template and the folder in which its data paths begin: its own, or this one.

    A draft is pinned. A document is taken through the strict parser, too. Errors as
    `read_template`, and CanonicalisationError for a document that is no JSON.
    """
    written, path = as_written(template)
    return template_of(written, path), path.parent


def validate_template(document: JsonObject, *, certificate_run: bool = True) -> ValidationReport:
    """Return every error and warning of a template; data files are not opened."""
    return TemplateValidator(load_scorers()).validate(document, certificate_run=certificate_run)


class ValidTemplate(NamedTuple):
    """A document that breaks no rule, and the value that it was read as."""

    document: JsonObject
    view: TemplateView


def require_valid(document: JsonObject, *, certificate_run: bool = True) -> ValidTemplate:
    """Return a template that breaks no rule; InvalidTemplateError lists every violation."""
    report = validate_template(document, certificate_run=certificate_run)
    refuse_broken(report.errors)
    if report.view is None:
        raise InvalidTemplateError("expected a template, got a document of another form")
    return ValidTemplate(document, report.view)


def refuse_broken(errors: Sequence[SchemaViolation]) -> None:
    """Raise InvalidTemplateError, with every violation, where there is any."""
    if errors:
        listed = "\n".join(f"  {e.pointer or '/'} [{e.rule}] {e.detail}" for e in errors)
        raise InvalidTemplateError(
            f"the template breaks {len(errors)} rule(s):\n{listed}", violations=tuple(errors)
        )


def require_runnable(document: JsonObject, *, certificate_run: bool = True) -> ValidTemplate:
    """Return as `require_valid`; ExecutionPathUnavailableError for what nothing here runs."""
    template = require_valid(document, certificate_run=certificate_run)
    product_template(document)
    return template
