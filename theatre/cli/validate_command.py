"""`echelon theatre validate`: everything that is wrong with a template, at once."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.certificate_report import print_preview
from theatre.cli.committing import evidence_preview, missing_data_warnings
from theatre.cli.exits import CommandEndedError, ExitCode, json_option, print_document
from theatre.cli.reports import print_violations
from theatre.cli.template_files import read_template, template_argument, validate_template
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject


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
    if report.valid:
        roots = Workspace.from_environment().datasets_for(template.parent)
        missing = missing_data_warnings(document, roots)
        evidence, untold = (None, []) if missing else evidence_preview(document, roots)
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
