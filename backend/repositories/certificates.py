"""Certificates: the exact bytes, and the columns that are looked up by."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import TheatreCertificate
from backend.repositories.queryable import queryable_columns, queryable_text
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object, sha256_hex
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


async def find_newest_environment(
    connection: AsyncConnection, construct_id: str, construct_version: str
) -> JsonObject | None:
    """Return `environment` of the newest certificate of one version of a construct.

    None where there is no such certificate, or it has none.
    """
    document = await connection.scalar(
        select(TheatreCertificate.document)
        .where(
            TheatreCertificate.construct_id == queryable_text(construct_id),
            TheatreCertificate.construct_version == queryable_text(construct_version),
        )
        .order_by(TheatreCertificate.issued_at.desc(), TheatreCertificate.id.desc())
        .limit(1)
    )
    if document is None:
        return None
    return cast("JsonObject | None", parse_object(document)["environment"])


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
