"""`echelon report`: the page of a certificate as one file that can be sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from theatre.api.bundle_proofs import read_reader
from theatre.api.checks import format_verdict
from theatre.api.issuer_log import place_in_log
from theatre.api.workspace import Workspace, utc_now
from theatre.cli.check_report import require_consistent
from theatre.cli.exits import NamedPath, echo, json_option, print_document, require_extras
from theatre.cli.inspect_command import read_inspection
from theatre.cli.show_command import certified_bundle
from theatre.engine.bundle_check import CheckReport, Verdict
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import InvalidReportError

if TYPE_CHECKING:
    from theatre.pages.certificate_page import CertificatePage


@click.command()
@click.argument("target", metavar="CERTIFICATE|BUNDLE|THEATRE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="Write to this file.",
)
@click.option(
    "--trust",
    type=NamedPath(dir_okay=False),
    help="The issuer's trust.json, as you got it from him: whose keys and which log you trust.",
)
@json_option
def report(target: str, *, output: Path, trust: Path | None, as_json: bool) -> None:
    """Write the page of a certificate as one file: style, script and pictures are inside.

    A bundle or a theatre is checked first, and what fails gets no page. Of a certificate's file
    alone nothing is checked, and the page says so. Episodes that the template withholds are not
    in it. Above 1,000 episodes it has the worst and an even sample of the others.
    """
    require_extras("pages")
    document = write_report(target, output, trust=trust, as_json=as_json)
    if as_json:
        print_document(document)
    else:
        echo(f"verdict      {document['verdict'] or 'not checked: a certificate alone'}")
        echo(f"report       {output}, {document['bytes']} bytes")


def write_report(
    target: str, output: Path, *, trust: Path | None = None, as_json: bool = False
) -> JsonObject:
    """Write the page of a certificate, and return what `--json` says of it.

    Raises NotFoundError for what is neither file, folder nor theatre, InvalidReportError for a
    certificate of another kind and an output that cannot be written; ends the command, with the
    report of the check, where that fails.
    """
    from theatre.api import certificate_report as pages  # noqa: PLC0415 - only with the extra

    now, place, check = utc_now(), Path(target), None
    if place.is_file():
        page = pages.page_of_certificate(_read_certificate(place), now=now)
    else:
        bundle = _bundle(target)
        reader = None if trust is None else read_reader(trust, None, bundle)
        check = require_consistent(bundle, as_json=as_json, reader=reader)
        page = pages.page_of_bundle(bundle, check, record=_record(bundle, check), now=now)
    return _write(page, check, output)


def write_checked(bundle: Path, check: CheckReport, output: Path) -> JsonObject:
    """Write the page of a bundle whose check was made already; errors as `write_report`."""
    from theatre.api import certificate_report as pages  # noqa: PLC0415 - only with the extra

    return _write(pages.page_of_bundle(bundle, check, record=None, now=utc_now()), check, output)


def _write(page: CertificatePage, check: CheckReport | None, output: Path) -> JsonObject:
    from theatre.pages.certificate_page import render_report  # noqa: PLC0415 - only with the extra

    content = write_page(render_report(page), output)
    return {
        "report": str(output),
        "bytes": content,
        "certificate_id": str(page.certificate["certificate_id"]),
        "tier": page.worth.tier.value,
        "verdict": None if check is None else format_verdict(check),
        "episodes_listed": 0 if page.episodes is None else len(page.episodes.lines),
        "episodes": int(page.certificate["episode_counts"]["total"]),
    }


def write_page(page: str, output: Path) -> int:
    """Write a page to a file; return its bytes. InvalidReportError where no file can be."""
    content = page.encode("utf-8", "replace")
    try:
        output.write_bytes(content)
    except OSError as error:
        raise InvalidReportError(
            f"expected a place for a file, got {output}: {error.strerror}; name another path"
        ) from error
    return len(content)


def _read_certificate(path: Path) -> JsonObject:
    document = parse_object(path.read_bytes())
    if read_inspection(document).is_verification:
        raise InvalidReportError(
            "expected the certificate of a theatre, got a verification certificate: "
            "`echelon inspect` shows it"
        )
    return document


def _bundle(target: str) -> Path:
    if Path(target).is_dir():
        return Path(target)
    store = Workspace.from_environment().store
    return certified_bundle(store.view(store.begun_with(target)))


def _record(bundle: Path, check: CheckReport) -> str | None:
    """Return which run it is where the user's own log has it, in the words of the log."""
    if check.verdict is not Verdict.LOGGED:
        return None
    certificate = parse_object((bundle / "certificate.json").read_bytes())
    found = place_in_log(str(certificate["theatre_id"]), utc_now())
    return None if found is None else str(found["described"])
