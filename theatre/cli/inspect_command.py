"""`echelon inspect`: a certificate as a table, and its reliability as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.exits import echo, json_option, print_document, read_file
from theatre.cli.pictures import claim_reliability, write_pictures
from theatre.cli.verification_inspection import Inspection, print_inspection, read_inspection
from theatre.engine.canonical_json import parse_object


@click.command()
@click.argument("certificate", type=click.Path(path_type=Path))
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw how far stated confidence goes, as SVG into this folder.",
)
@json_option
def inspect(certificate: Path, *, plot: Path | None, as_json: bool) -> None:
    """Show CERTIFICATE, a verification certificate or that of a theatre.

    It is read, not checked: `echelon check` holds it against its evidence bundle.
    """
    document = parse_object(read_file(certificate, what="a certificate"))
    inspection = read_inspection(document)
    picture = None if plot is None else _draw_reliability(inspection, plot)
    if as_json:
        print_document(document | ({} if picture is None else {"plot": str(picture)}))
        return
    print_inspection(inspection)
    if picture is not None:
        echo(f"plot         {picture}")


def _draw_reliability(inspection: Inspection, folder: Path) -> Path:
    certificate = inspection.certificate
    calibration = certificate.get("claim_calibration")
    if not calibration or not calibration["stated"]:
        raise click.UsageError(
            "expected a verification certificate with claims whose confidence is stated to --plot, "
            "got one without"
        )
    (path,) = write_pictures({"reliability.svg": claim_reliability(certificate)}, folder)
    return path
