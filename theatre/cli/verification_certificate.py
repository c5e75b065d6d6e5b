"""Writes the verification certificate, and checks one against its bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from theatre.cli.exits import read_file
from theatre.engine.bundle_check import Check, CheckReport, CheckStatus
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.errors import TheatreError
from theatre.files.durable import replace_durably
from theatre.verification.certificate import CERTIFICATE_FILE, verification_certificate

CHECK_ID = "verification-certificate"
_EXPECTED = "the verification certificate that follows from the bundle"


def write_certificate(bundle: Path, folder: Path) -> str:
    """Write the certificate of a bundle next to it, and into the run's folder; return the latter.

    Raises what `verification_certificate` raises.
    """
    document = verification_certificate(bundle)
    replace_durably(bundle.parent / CERTIFICATE_FILE, document)
    copy = folder / CERTIFICATE_FILE
    replace_durably(copy, document)
    return str(copy)


def add_verification_check(report: CheckReport, bundle: Path, certificate: Path) -> CheckReport:
    """Return the report with one more line: whether a certificate follows from its bundle.

    Raises NotFoundError where there is no such file.
    """
    given = read_file(certificate, what="a verification certificate")
    line = _verification_check(report, bundle, given)
    return replace(report, checks=(*report.checks, line))


def _verification_check(report: CheckReport, bundle: Path, given: bytes) -> Check:
    if report.failed:
        return _line(CheckStatus.FAIL, "not computed because the bundle is not valid")
    try:
        made = verification_certificate(bundle)
    except TheatreError as error:
        return _line(CheckStatus.FAIL, str(error))
    if made != given:
        return _line(CheckStatus.FAIL, f"other bytes: {sha256_hex(given)}, not {sha256_hex(made)}")
    return _line(CheckStatus.PASS, "the same bytes")


def _line(status: CheckStatus, actual: str) -> Check:
    return Check(id=CHECK_ID, status=status, expected=_EXPECTED, actual=actual)
