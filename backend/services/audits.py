"""Audits of certificates: logged when they are asked for, and when the owner opens what they name.

Source: docs/disclosure.md; docs/contract/trust.md §4, "Audits".
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.evidence_store import EvidenceStore
from backend.repositories.certificate_views import AuditedCertificate, find_audited
from backend.repositories.evidence_views import BundleArchive, find_bundle
from backend.repositories.transparency_log import is_entry_queued, queue_entries
from backend.services.sealed_bundles import fetch_verified_bundle
from theatre.cli.audits import salted_lines
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.coin import Coin
from theatre.engine.errors import NotFoundError
from theatre.transparency.audits import AuditRequest
from theatre.transparency.disclosure import disclose
from theatre.transparency.entries import EntryType
from theatre.transparency.errors import AuditError

SHORTEST, LONGEST = timedelta(days=7), timedelta(days=366)
"""In which an owner has to open: else anyone could make him late."""


def read_request(document: JsonObject) -> AuditRequest:
    """Return a request as it is spelled in a file; AuditError for another form."""
    return AuditRequest.parse(canonical_line(document))


async def request_audit(
    connection: AsyncConnection, certificate_id: str, asked: AuditRequest, *, now: datetime
) -> None:
    """Have an audit of a certificate logged; the same request is one entry.

    NotFoundError where there is no such certificate, AuditError for a request about another one,
    and for a day that leaves its owner too little time or too much.
    """
    _require_about(await _find(connection, certificate_id), asked)
    if not now + SHORTEST - timedelta(hours=1) <= asked.open_by <= now + LONGEST:
        raise AuditError(
            f"expected a day to open by from {SHORTEST.days} to {LONGEST.days} days ahead, got "
            f"{asked.open_by:%Y-%m-%dT%H:%M:%SZ}: `echelon audit request --days` sets it"
        )
    await queue_entries(connection, EntryType.DISPUTE, [asked.entry()])


async def answer_audit(
    connection: AsyncConnection,
    certificate_id: str,
    asked: AuditRequest,
    coin: Coin,
    *,
    user_id: str,
    store: EvidenceStore,
) -> bytes:
    """Open what an audit's coin names for the certificate's owner, and log that it was answered.

    The same bytes each time. NotFoundError for another's certificate, AuditError for an audit that
    was not asked for here, and for another coin.
    """
    audited = await _find(connection, certificate_id)
    archive = await find_bundle(connection, audited.theatre_id)
    if audited.user_id != user_id or archive is None:
        raise NotFoundError("expected a certificate of yours, got none")
    _require_about(audited, asked)
    if not await is_entry_queued(connection, asked.entry()):
        raise AuditError(
            "expected an audit that was asked for here, got one that this log has not: send the "
            "request first, to POST …/audits"
        )
    seqs = asked.named(coin)
    opened = await asyncio.to_thread(_open, store, audited.theatre_id, archive, seqs)
    await queue_entries(connection, EntryType.ATTESTATION, [asked.answer_entry(opened)])
    return opened


def _open(
    store: EvidenceStore, theatre_id: str, archive: BundleArchive, seqs: Sequence[int]
) -> bytes:
    """Return what opens these episodes of a sealed bundle. Blocks."""
    bundle, lines = salted_lines(fetch_verified_bundle(store, theatre_id, archive))
    return bytes(disclose(bundle.certificate, bundle.template, lines, seqs))


async def _find(connection: AsyncConnection, certificate_id: str) -> AuditedCertificate:
    found = await find_audited(connection, certificate_id)
    if found is None:
        raise NotFoundError("expected a certificate, got none")
    return found


def _require_about(audited: AuditedCertificate, asked: AuditRequest) -> None:
    asked.require_about(parse_object(audited.document))
    if asked.statement_sha256 != audited.statement_sha256:
        raise AuditError(
            f"expected a request about the statement {audited.statement_sha256}, got one about "
            f"{asked.statement_sha256}: take the signed certificate, GET …/sigstore"
        )
