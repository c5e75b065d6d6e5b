"""`echelon check`: the independent check, one line a check."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.input_files import read_file
from theatre.cli.output import echo, json_option, print_document
from theatre.engine.bundle_check import CheckReport, CheckStatus, check_bundle
from theatre.engine.schema_registry import SchemaRegistry
from theatre.oracles.input_sanitiser import TextSanitiser
from theatre.scorers import load_scorers
from theatre.scorers.computations import load_computations


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    help="A copy of the certificate from its issuer, to hold the bundle against.",
)
@json_option
def check(bundle: Path, *, certificate: Path | None, as_json: bool) -> None:
    """Recompute everything in BUNDLE, an evidence bundle's folder, from the bundle alone."""
    report = check_folder(bundle, certificate=certificate)
    if as_json:
        print_document(report.as_document())
    else:
        print_report(report)
    if report.failed:
        raise CommandEndedError(ExitCode.CHECK_FAILED)
    if report.unavailable:
        raise CommandEndedError(ExitCode.INCOMPLETE)


def check_folder(bundle: Path, *, certificate: Path | None = None) -> CheckReport:
    """Check a bundle with what is installed; NotFoundError for a missing certificate file."""
    copy = None if certificate is None else read_file(certificate, what="a certificate")
    return check_bundle(
        bundle,
        load_scorers(),
        registry=SchemaRegistry(),
        computations=load_computations(),
        sanitiser=TextSanitiser(),
        certificate=copy,
    )


def print_report(report: CheckReport) -> None:
    """Print one line a check, and what was expected and seen where it failed."""
    for line in report.checks:
        echo(f"{line.status.value.upper():11}  {line.id}")
        if line.status is not CheckStatus.PASS:
            echo(f"{'':11}    expected {line.expected}")
            echo(f"{'':11}    got      {line.actual}")
    verdict = "valid" if report.valid else "NOT VALID"
    echo(f"{verdict}: {len(report.checks)} checks, {len(report.failed)} failed")
