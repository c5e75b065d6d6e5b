"""Template files: read strictly, checked against every rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from theatre.api.named_files import read_file
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, canonical_bytes, parse_object
from theatre.engine.errors import InvalidTemplateError
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.engine.templates import TemplateView, product_template
from theatre.scorers import load_scorers


def read_template(path: Path) -> JsonObject:
    """Parse a template file strictly; NotFoundError where there is none."""
    return parse_object(read_file(path, what="a template file"), max_depth=MAX_INPUT_DEPTH)


def open_template(template: str | Path | Mapping[str, object]) -> tuple[JsonObject, Path]:
    """Return a template and the folder in which its data paths begin: its own, or this one.

    A document is taken through the strict parser, too. Errors as `read_template`, and
    CanonicalisationError for a document that is no JSON.
    """
    if isinstance(template, Mapping):
        return parse_object(canonical_bytes({**template}), max_depth=MAX_INPUT_DEPTH), Path.cwd()
    path = Path(template)
    return read_template(path), path.parent


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
    if report.errors or report.view is None:
        listed = "\n".join(f"  {e.pointer or '/'} [{e.rule}] {e.detail}" for e in report.errors)
        raise InvalidTemplateError(
            f"the template breaks {len(report.errors)} rule(s):\n{listed}", violations=report.errors
        )
    return ValidTemplate(document, report.view)


def require_runnable(document: JsonObject, *, certificate_run: bool = True) -> ValidTemplate:
    """Return as `require_valid`; ExecutionPathUnavailableError for what nothing here runs."""
    template = require_valid(document, certificate_run=certificate_run)
    product_template(document)
    return template
