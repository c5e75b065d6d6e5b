"""Certificates: the exact bytes, and the columns that are looked up by."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import TheatreCertificate
from backend.repositories.queryable import queryable_columns
from theatre.engine.canonical_json import JsonObject, canonical_bytes, sha256_hex
from theatre.engine.clock import parse_rfc3339

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


async def store_certificate(connection: AsyncConnection, certificate: JsonObject) -> None:
    """Store a validated certificate, in the transaction of the event `resolved`.

    IntegrityError where the theatre has one.
    """
    await connection.execute(insert(TheatreCertificate), certificate_row(certificate))


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
