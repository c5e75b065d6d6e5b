"""The independent check with what is installed."""

import os
from datetime import UTC, datetime
from pathlib import Path

from theatre.api.bundle_proofs import Reader, add_proof_checks
from theatre.api.errors import UsageError
from theatre.api.named_files import read_file
from theatre.api.qualifications import add_qualification_check
from theatre.engine.bundle_check import Check, CheckReport, CheckStatus
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.errors import NotFoundError, TheatreError
from theatre.engine.schema_registry import SchemaRegistry
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_episode_runners, load_scorers
from theatre.verification.certificate import verification_certificate


def check_folder(
    bundle: Path,
    *,
    certificate: Path | None = None,
    reader: Reader | None = None,
    online: bool = False,
) -> CheckReport:
    """Check a bundle and its proofs; NotFoundError for a missing bundle or certificate file.

    `reader` is whom the proofs are held to, None for the author of what is his own; `online` asks
    the log, too. Raises UsageError for a certificate inside the bundle: it must be an
    independent copy.
    """
    if not bundle.exists():
        raise NotFoundError(f"expected the folder of an evidence bundle at {bundle}, got none")
    copy = None
    if certificate is not None:
        if Path(os.path.realpath(certificate)).is_relative_to(os.path.realpath(bundle)):
            raise UsageError(
                f"expected a certificate kept outside the bundle, got {str(certificate)!r:.200}"
            )
        copy = read_file(certificate, what="a certificate")
    now = datetime.now(UTC)
    report = check_bundle(
        bundle,
        load_scorers(),
        registry=SchemaRegistry(),
        computations=load_computations(),
        sanitiser=TextSanitiser(),
        certificate=copy,
        runners=load_episode_runners(),
        now=now,
    )
    report = add_qualification_check(report, bundle, reader, load_scorers())
    return add_proof_checks(report, bundle, reader, online=online, now=now)


def add_verification_check(report: CheckReport, bundle: Path, certificate: Path) -> CheckReport:
    """Return the report with one more line: whether a certificate follows from its bundle.

    Raises NotFoundError where there is no such file.
    """
    given = read_file(certificate, what="a verification certificate")
    status, actual = CheckStatus.FAIL, "not computed because the bundle is not valid"
    # A forger can make a certificate that follows from his forged bundle: it must not pass.
    if not report.failed:
        try:
            made = verification_certificate(bundle)
        except TheatreError as error:
            actual = str(error)
        else:
            actual = f"other bytes: {sha256_hex(given)}, not {sha256_hex(made)}"
            if made == given:
                status, actual = CheckStatus.PASS, "the same bytes"
    line = Check(
        id="verification-certificate",
        status=status,
        expected="the verification certificate that follows from the bundle",
        actual=actual,
    )
    return report._replace(checks=(*report.checks, line))


def format_verdict(report: CheckReport) -> str:
    """Return the verdict, its reason, and the number of checks."""
    return f"{report.verdict} ({report.because}): {len(report.checks)} checks"
