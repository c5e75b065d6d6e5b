"""What nothing inside a bundle could settle, named in every report."""

from __future__ import annotations

from theatre.engine.bundle_check.certificate.tier_check import history_summary
from theatre.engine.bundle_check.reading.documents import CERTIFICATE, Documents
from theatre.engine.bundle_check.reading.json_values import shown
from theatre.engine.bundle_check.report import CheckId, Ledger


def name_what_nothing_settles(documents: Documents, ledger: Ledger) -> None:
    """Note who made the bundle, when, and what else there was, as the bundle claims it."""
    issuer = shown(documents.at(CERTIFICATE, "issuer"))
    ledger.unanchored(CheckId.ISSUER_IDENTITY, f"{issuer} by its own word")
    issued_at = shown(documents.at(CERTIFICATE, "issued_at"))
    ledger.unanchored(CheckId.TIMES_AND_LATENCIES, f"issued {issued_at} by its issuer's word")
    ledger.unanchored(CheckId.HISTORY, history_summary(documents))
