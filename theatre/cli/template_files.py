"""Template files: read strictly, checked against every rule."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from theatre.cli.draft_files import pin_file, read_written
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import InvalidTemplateError
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.engine.templates import TemplateView, product_template
from theatre.scorers import load_scorers

# The argument of commands that take a template file.


template_argument = click.argument("template", type=click.Path(path_type=Path))


def read_template(path: Path) -> JsonObject:
    """Parse a template file strictly, or pin a draft; errors as `read_written` and `pin_file`."""
    written = read_written(path)
    if not written.is_draft:
        return written.document
    return pin_file(path, Workspace.from_environment(), written.document)


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
