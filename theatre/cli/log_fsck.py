"""The user's log against the theatres of the working folder: what `echelon log fsck` checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import TheatreError
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.theatre_store import RECEIPT, FileTheatreStore, read_coin
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import COMMITMENT_PROOF, STATEMENT
from theatre.transparency.entries import EntryType
from theatre.transparency.fsck import (
    LogFinding,
    LogReport,
    StoredTheatre,
    check_log,
    check_theatre,
    logged_closing,
)
from theatre.transparency.run_entries import receipt_commitment
from theatre.transparency.trust import Trust


async def check_user_log(home: TrustHome, trust: Trust, store: FileTheatreStore) -> LogReport:
    """Check the log, and hold each theatre of a store that was logged to its entries."""
    report = await check_log(home.log, await home.log.signed(), trust.log)
    if report.checkpoint is None or len(report.leaves) != report.checkpoint.size:
        # Of a log that cannot be read each theatre would be missing.
        return report
    for theatre_id in store.theatre_ids():
        report.findings += _check_stored(home, trust, store, theatre_id, report)
    return report


def _check_stored(
    home: TrustHome, trust: Trust, store: FileTheatreStore, theatre_id: str, report: LogReport
) -> Iterator[LogFinding]:
    try:
        view = store.view(theatre_id)
        if not (view.folder / COMMITMENT_PROOF).exists():
            # It has not begun, or is none that is logged.
            return
        document = parse_object((view.folder / RECEIPT).read_bytes())
        commitment = receipt_commitment(
            CommitmentReceipt.from_document(document), read_coin(view.folder)
        )
    except (TheatreError, OSError) as error:
        subject = f"theatre {theatre_id}"
        yield LogFinding("theatre-unreadable", subject, "its trail and receipt", str(error))
        return
    closing = None
    if view.resolution is not None:
        is_certified = view.resolution.get("outcome") == "certified"
        closing = EntryType.CERTIFICATE if is_certified else EntryType.VOID
    if home.open_commitments.find(theatre_id) is not None:
        # The next command closes it, or finishes that: either is in order.
        closing = logged_closing(report, theatre_id)
    statement = view.folder / bundle_name(theatre_id) / "proofs" / STATEMENT
    stored = StoredTheatre(
        theatre_id=theatre_id,
        commitment=commitment,
        closing=closing,
        statement=_read(statement),
    )
    yield from check_theatre(report, stored, trust.issuer_keys())


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
