"""Templates and theatres: the rows of a draft and of its commitment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre, TheatreCoin, TheatreTemplate
from backend.repositories.queryable import queryable, queryable_columns
from theatre.engine.canonical_json import JsonObject, canonical_bytes, sha256_hex
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import Coin
from theatre.engine.commitment import CommitmentReceipt, content_hash
from theatre.engine.errors import StateConflictError
from theatre.engine.state_machine import TheatreState


async def store_template(
    connection: AsyncConnection, template: JsonObject, *, created_at: datetime
) -> str:
    """Store a validated template, unless this very content is stored; return its SHA-256."""
    row = {**template_row(template), "created_at": created_at}
    statement = insert_or_leave(TheatreTemplate).values(row)
    await connection.execute(statement.on_conflict_do_nothing(index_elements=["sha256"]))
    return str(row["sha256"])


def template_row(template: JsonObject) -> dict[str, Any]:
    """Return the row of a template, without its time."""
    document = canonical_bytes(template)
    return queryable_columns(
        {
            "sha256": sha256_hex(document),
            "template_id": template["theatre_id"],
            "template_family": template["template_family"],
            "execution_path": template.get("execution_path"),
            "display_name": template["display_name"],
            "description": template.get("description"),
            "schema_version": template["schema_version"],
            "template_json": template,
            "document": document,
            "content_hash": content_hash(template),
        }
    )


async def insert_draft(
    connection: AsyncConnection,
    *,
    theatre_id: str,
    user_id: str,
    template: JsonObject,
    construct_id: str | None,
    created_at: datetime,
) -> None:
    """Store a new theatre in DRAFT, and its template. Its chain begins with `created`."""
    digest = await store_template(connection, template, created_at=created_at)
    row = {
        "id": theatre_id,
        "user_id": user_id,
        "template_id": template["theatre_id"],
        "template_sha256": digest,
        "construct_id": construct_id,
        "state": TheatreState.DRAFT.value,
        "created_at": created_at,
        "updated_at": created_at,
    }
    await connection.execute(insert(Theatre), queryable_columns(row))


async def store_receipt(
    connection: AsyncConnection, receipt: CommitmentReceipt, coin: Coin
) -> None:
    """Put a receipt into its theatre's row, in the transaction of the event `committed`.

    Its coin goes into a separate row. StateConflictError unless the theatre is a DRAFT.
    """
    draft = update(Theatre).where(
        Theatre.id == receipt.theatre_id, Theatre.state == TheatreState.DRAFT.value
    )
    stored = await connection.execute(
        draft.values(
            commitment_hash=receipt.commitment_hash,
            committed_at=parse_rfc3339(receipt.committed_at),
            version_pins=queryable(receipt.version_pins),
            dataset_hashes=queryable(receipt.dataset_hashes),
            receipt=canonical_bytes(receipt.as_document()),
        )
    )
    if stored.rowcount != 1:
        raise StateConflictError(
            f"expected theatre {receipt.theatre_id} in DRAFT, got it moved on, or none"
        )
    row = {"theatre_id": receipt.theatre_id, "coin": coin.secret}
    await connection.execute(insert(TheatreCoin), row)
