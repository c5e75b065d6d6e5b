"""Template files: read strictly, checked against every rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from theatre.cli.exits import read_file
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, JsonObject, parse_object
from theatre.engine.errors import InvalidTemplateError
from theatre.engine.schema_registry import SchemaViolation
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.engine.templates import TemplateView, product_template
from theatre.scorers import load_scorers

# The argument of commands that take a template file.


template_argument = click.argument("template", type=click.Path(path_type=Path))


def read_template(path: Path) -> JsonObject:
    """Parse a template file strictly; NotFoundError where there is none."""
    return parse_object(read_file(path, what="a template file"), max_depth=MAX_INPUT_DEPTH)


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
