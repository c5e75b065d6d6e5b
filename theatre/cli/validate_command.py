"""`echelon theatre validate`: everything that is wrong with a template, at once."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.committing import missing_data_warnings
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import json_option, print_document
from theatre.cli.reports import print_violations
from theatre.cli.template_argument import template_argument
from theatre.cli.template_files import read_template, validate_template
from theatre.cli.workspace import Workspace


@click.command()
@template_argument
@json_option
def validate(template: Path, *, as_json: bool) -> None:
    """Check TEMPLATE against the schema and every rule; all violations are listed."""
    document = read_template(template)
    report = validate_template(document)
    warnings = [warning.as_document() for warning in report.warnings]
    if report.valid:
        roots = Workspace.from_environment().datasets_for(template.parent)
        warnings += missing_data_warnings(document, roots)
    errors = [error.as_document() for error in report.errors]
    if as_json:
        print_document({"valid": report.valid, "errors": errors, "warnings": warnings})
    else:
        print_violations("error", errors)
        print_violations("warning", warnings)
        click.echo("valid" if report.valid else f"invalid: {len(errors)} error(s)")
    if not report.valid:
        raise CommandEndedError(ExitCode.INVALID)
