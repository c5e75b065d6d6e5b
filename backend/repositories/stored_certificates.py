"""Certificates as rows: the exact bytes, and the columns that lists are ordered and filtered by.

A row is an index and is not believed: `backend.services.transparency.signatures` holds it to the
signed document.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import Text, func, insert, literal_column, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import LoggedEntry, QueuedEntry, TheatreCertificate
from backend.repositories.theatres import queryable_bytes, queryable_columns
from theatre.engine.canonical_json import JsonObject, canonical_bytes, sha256_hex
from theatre.engine.clock import parse_rfc3339
from theatre.transparency.entries import EntryType


class StoredCertificate(NamedTuple):
    """A certificate's row as it is stored, and what its signature is verified by.

    All up to `statement_sha256` follows from what is signed. `entry` is its place in the log, None
    where the log has no entry of this statement; `key_state` changes whenever the issuer's keys do.
    """

    id: str
    theatre_id: str
    template_id: str
    construct_id: str
    construct_version: str
    composite_score: float | None
    precision: float | None
    recall: float | None
    reply_accuracy: float | None
    verification_tier: str
    replay_count: int
    issued_at: datetime
    expires_at: datetime | None
    theatre_resolved_at: datetime
    document_sha256: str
    statement_sha256: str
    sigstore_sha256: bytes
    entry: int | None
    key_state: str

    @property
    def indexed(self) -> tuple[object, ...]:
        """Return the columns that follow from what is signed."""
        return self[: len(_INDEXED)]

    def disowned(self) -> "StoredCertificate":
        """Return the row of a certificate that is not signed: without score, tier and expiry."""
        return self._replace(
            composite_score=None,
            precision=None,
            recall=None,
            reply_accuracy=None,
            verification_tier="UNVERIFIED",
            expires_at=None,
        )


_INDEXED = StoredCertificate._fields[: StoredCertificate._fields.index("sigstore_sha256")]
_entry = (
    select(LoggedEntry.log_index)
    .join(QueuedEntry, QueuedEntry.id == LoggedEntry.queue_id)
    .where(
        QueuedEntry.theatre_id == TheatreCertificate.theatre_id,
        QueuedEntry.type == EntryType.CERTIFICATE.value,
        # Of this statement: the entry of what was signed before a revocation vouches for no other.
        literal_column(queryable_bytes("log_entries.entry"), JSONB)["statement_sha256"].astext
        == TheatreCertificate.statement_sha256,
    )
    .correlate(TheatreCertificate)
    .scalar_subquery()
)
_KEY_STATE = """
    (SELECT concat_ws('.', (SELECT max(seq) FROM trust_documents), count(queued.id),
        count(logged.log_index))
    FROM log_queue AS queued LEFT JOIN log_entries AS logged ON logged.queue_id = queued.id
    WHERE queued.theatre_id IS NULL AND queued.type = 'key/v1')
"""
STORED = (
    *TheatreCertificate.columns(_INDEXED),
    func.sha256(TheatreCertificate.sigstore),
    _entry,
    literal_column(_KEY_STATE, Text),
)
"""The columns of a StoredCertificate."""


def indexed_columns(certificate: JsonObject, *, statement_sha256: str) -> tuple[object, ...]:
    """Return what `StoredCertificate.indexed` must be for a document, signed in a statement."""
    row = certificate_row(certificate) | {"statement_sha256": statement_sha256}
    return tuple(row[name] for name in _INDEXED)


async def find_sigstores(
    connection: AsyncConnection, certificate_ids: Sequence[str]
) -> dict[str, bytes]:
    """Return the Sigstore bundles of certificates, by their ids."""
    table = TheatreCertificate
    query = select(table.id, table.sigstore).where(table.id.in_(certificate_ids))
    return {row.id: row.sigstore for row in await connection.execute(query)}


_AS_THEY_ARE = (
    "theatre_id",
    "template_id",
    "construct_id",
    "composite_score",
    "precision",
    "recall",
    "reply_accuracy",
    "brier_score",
    "ece",
    "replay_count",
    "evidence_bundle_hash",
    "ground_truth_hash",
    "results_hash",
    "audit_head",
    "construct_version",
    "construct_chain_versions",
    "scorer_version",
    "methodology_version",
    "dataset_hash",
    "verification_tier",
    "commitment_hash",
    "issuer",
    "ground_truth_source",
    "execution_path",
)
_MOMENTS = ("issued_at", "expires_at", "theatre_committed_at", "theatre_resolved_at")


async def store_certificate(
    connection: AsyncConnection, certificate: JsonObject, *, sigstore: bytes, statement_sha256: str
) -> None:
    """Store a validated certificate, in the transaction of the event `resolved`.

    `sigstore` is the signed statement, `statement_sha256` the hash of its payload. IntegrityError
    where the theatre has a certificate.
    """
    signed = {"sigstore": sigstore, "statement_sha256": statement_sha256}
    await connection.execute(insert(TheatreCertificate), certificate_row(certificate) | signed)


def certificate_row(certificate: JsonObject) -> dict[str, Any]:
    """Return the row of a certificate document."""
    document = canonical_bytes(certificate)
    moments = {name: cast("str | None", certificate[name]) for name in _MOMENTS}
    return queryable_columns(
        {
            "id": certificate["certificate_id"],
            "document": document,
            "document_sha256": sha256_hex(document),
            "criteria_json": certificate["criteria"],
            "scores_json": certificate["scores"],
            **{name: certificate[name] for name in _AS_THEY_ARE},
            **{
                name: None if moment is None else parse_rfc3339(moment)
                for name, moment in moments.items()
            },
        }
    )
