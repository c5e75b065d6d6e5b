"""fsck of the service's log: its own files, every checkpoint, and each theatre against its entries.

All of it is read as of one moment: the log grows while theatres end.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.logged_theatres import (
    LoggedTheatre,
    find_checkpoints,
    find_trust_documents,
    stream_logged_theatres,
)
from backend.repositories.transparency_log import LogReader
from theatre.engine.canonical_json import canonical_bytes, parse_object
from theatre.engine.coin import Coin
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import TheatreError
from theatre.transparency.entries import EntryType
from theatre.transparency.errors import TransparencyError
from theatre.transparency.fsck import Finding, LogReport, StoredTheatre, check_log, check_theatre
from theatre.transparency.notes import Checkpoint, SignedCheckpoint
from theatre.transparency.run_entries import receipt_commitment
from theatre.transparency.statements import IssuerKey, SignedStatement
from theatre.transparency.trust import Trust


async def check_service_log(connection: AsyncConnection) -> LogReport:
    """Check all of it; the transaction of `connection` is the moment."""
    trusts = await find_trust_documents(connection)
    checkpoints = await find_checkpoints(connection)
    trust, findings = _read_trust(trusts) if trusts else (None, [])
    if checkpoints and not trusts:
        findings.append(Finding("log-trust", "the log", "the trust.json of its keys", "none"))
    if trust is None:
        return LogReport(findings=findings)
    signed, found = _read_checkpoints(checkpoints, trust)
    sizes = {one.size for one in signed}
    last = checkpoints[-1] if checkpoints else None
    report = await check_log(LogReader(connection), last, trust.log, sizes=sizes)
    report.findings = [*findings, *found, *report.findings, *_compare_roots(signed, report)]
    if report.checkpoint is not None and len(report.leaves) == report.checkpoint.size:
        # Of a log that cannot be read each theatre would be missing.
        report.findings += [one async for one in _check_theatres(connection, report, trust)]
    return report


def _read_trust(documents: Sequence[bytes]) -> tuple[Trust | None, list[Finding]]:
    """Return the last one; all are of one log, and no key of an earlier one is missing in it."""
    try:
        trusts = [Trust.parse(one) for one in documents]
    except TransparencyError as error:
        return None, [Finding("log-trust", "trust_documents", "documents of keys", str(error))]
    last, findings = trusts[-1], list[Finding]()
    kids = {trusted.key.kid for trusted in last.keys}
    for number, one in enumerate(trusts):
        dropped = {trusted.key.kid for trusted in one.keys} - kids
        if one.log != last.log or dropped:
            subject = f"trust.json {number}"
            expected = f"the log {last.log.name} and no key that is dropped"
            findings.append(
                Finding("log-trust", subject, expected, f"{one.log.name}, {sorted(dropped)}")
            )
    return last, findings


def _read_checkpoints(
    checkpoints: Sequence[bytes], trust: Trust
) -> tuple[list[Checkpoint], list[Finding]]:
    signed, findings = list[Checkpoint](), list[Finding]()
    for number, data in enumerate(checkpoints):
        try:
            signed.append(SignedCheckpoint.verify(data, [trust.log]).checkpoint)
        except TransparencyError as error:
            expected = f"one signed by {trust.log.name}"
            findings.append(Finding("log-signature", f"checkpoint {number}", expected, str(error)))
    return signed, findings


def _compare_roots(signed: Sequence[Checkpoint], report: LogReport) -> Iterator[Finding]:
    """Yield the earlier checkpoints whose root is not that of the entries which they count."""
    for one in signed[:-1]:
        root = report.roots.get(one.size)
        if root is not None and root != one.root:
            subject = f"the checkpoint of {one.size} entries"
            yield Finding("log-root", subject, f"the root {root.hex()}", one.root.hex())


async def _check_theatres(
    connection: AsyncConnection, report: LogReport, trust: Trust
) -> AsyncIterator[Finding]:
    known = set[str]()
    keys = trust.issuer_keys()
    async for row in stream_logged_theatres(connection):
        known.add(row.id)
        for finding in _check_row(report, row, keys):
            yield finding
    for theatre_id in sorted(report.record.commitments.keys() - known):
        subject = f"theatre {theatre_id}"
        yield Finding("log-theatre-missing", subject, "a theatre with this commitment", "none")


def _check_row(
    report: LogReport, row: LoggedTheatre, keys: Sequence[IssuerKey]
) -> Iterator[Finding]:
    has_called = row.is_certificate_run is True and row.total_episodes > 0
    if row.committed_at is None and row.id not in report.record.commitments and not has_called:
        # It has not begun, is none that could certify, or waits for the writer.
        return
    try:
        receipt = CommitmentReceipt.from_document(parse_object(bytes(row.receipt)))
        commitment = receipt_commitment(receipt, None if row.coin is None else Coin(row.coin))
    except TheatreError as error:
        yield Finding("log-commitment-differs", f"theatre {row.id}", "a receipt", str(error))
        return
    # What is queued and not logged yet is logged by the writer in its turn.
    closing = None if row.closed_at is None else _closing_of(row)
    stored = StoredTheatre(
        theatre_id=row.id, commitment=commitment, closing=closing, statement=row.sigstore
    )
    yield from check_theatre(report, stored, keys)
    yield from _check_signed(row, keys)
    if row.outcome is not None and row.commitment is not None and row.closing is None:
        yield Finding("log-closing-missing", f"theatre {row.id}", "a queued end", "none")


def _check_signed(row: LoggedTheatre, keys: Sequence[IssuerKey]) -> Iterator[Finding]:
    """Hold the columns of a certificate to what was signed; what is invalid is named elsewhere."""
    if row.sigstore is None or row.document is None:
        return
    with contextlib.suppress(TransparencyError):
        signed = SignedStatement.verify(bytes(row.sigstore), keys)
        certificate = canonical_bytes(signed.certificate())
        subject = f"theatre {row.id}"
        if certificate != bytes(row.document):
            yield Finding("statement-certificate", subject, "the signed certificate", "another")
        if signed.sha256 != row.statement_sha256:
            yield Finding("statement-columns", subject, signed.sha256, str(row.statement_sha256))


def _closing_of(row: LoggedTheatre) -> EntryType | None:
    if row.outcome is None:
        return None
    return EntryType.CERTIFICATE if row.outcome == "certified" else EntryType.VOID
