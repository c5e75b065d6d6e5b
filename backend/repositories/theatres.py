"""Templates and theatres: the rows of a draft and of its commitment."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_leave
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Dataset, Theatre, TheatreCoin, TheatreTemplate
from backend.repositories.pages import Page, Window, find_own
from backend.repositories.template_views import DISCLOSURE
from theatre.engine.canonical_json import JsonObject, canonical_bytes, sha256_hex
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import Coin
from theatre.engine.commitment import CommitmentReceipt, content_hash
from theatre.engine.errors import NotFoundError, StateConflictError
from theatre.engine.state_machine import TheatreState

# Commitment receipts, public from the moment they are made, and the coins that they name.


class StoredReceipt(NamedTuple):
    """The canonical receipt of a committed theatre, whose it is, and what others may see of it."""

    receipt: bytes
    user_id: str
    disclosure: str


async def find_receipt(connection: AsyncConnection, theatre_id: str) -> StoredReceipt:
    """Return the receipt of a committed theatre; NotFoundError before the commitment."""
    query = select(Theatre.receipt, Theatre.user_id, DISCLOSURE)
    query = query.join(TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256)
    row = (await connection.execute(query.where(Theatre.id == theatre_id))).first()
    if row is None or row[0] is None:
        raise NotFoundError(f"expected the commitment of theatre {theatre_id}, got none")
    return StoredReceipt._make(row)


async def find_coin(connection: AsyncConnection, theatre_id: str) -> Coin | None:
    """Return the coin of a committed theatre, which only its worker may read."""
    query = select(TheatreCoin.coin).where(TheatreCoin.theatre_id == theatre_id)
    coin: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    return None if coin is None else Coin(coin)


async def find_coin_sha256(connection: AsyncConnection, theatre_id: str) -> str | None:
    """Return the SHA-256 of a theatre's coin, which the receipt names; None where it has none."""
    digest = func.encode(func.sha256(TheatreCoin.coin), "hex")
    query = select(digest).where(TheatreCoin.theatre_id == theatre_id)
    return (await connection.execute(query)).scalar_one_or_none()


# Copies, for queries, of documents whose exact bytes are stored as well.
#
# PostgreSQL's texts and JSONB cannot hold the character U+0000, which JSON can. In a copy it
# becomes U+FFFD; the bytes keep it.


_REPLACEMENT = "\ufffd"


def queryable_text(text: str) -> str:
    """Return `text` as a column can hold it."""
    return text.replace("\0", _REPLACEMENT)


def queryable_bytes(column: str) -> str:
    """Return the SQL that reads a column of bytes as JSONB, as `queryable` does a document.

    One entry with U+0000 ends each query that casts it, even one about other rows.
    """
    return rf"replace(convert_from({column}, 'UTF8'), '\u0000', '\ufffd')::jsonb"


def queryable(document: JsonObject) -> JsonObject:
    """Return `document` as a JSONB column can hold it."""
    return {queryable_text(key): _value(value) for key, value in document.items()}


def queryable_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose texts and JSON documents a table can hold; other values as they are."""
    return {column: _value(value) for column, value in row.items()}


def _value(value: Any) -> Any:  # noqa: ANN401 - JSON, or what a column holds
    if isinstance(value, str):
        return queryable_text(value)
    if isinstance(value, dict):
        return queryable(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    return value


# Theatres as their owner reads them. Every statement has the owner in its WHERE clause.


class TheatreView(NamedTuple):
    """What is shown of a theatre; the columns of the same names."""

    id: str
    template_id: str
    template_sha256: str
    construct_id: str | None
    state: str
    version: int
    commitment_hash: str | None
    committed_at: datetime | None
    is_certificate_run: bool | None
    run_status: str | None
    progress: int
    total_episodes: int
    failure_count: int
    refused_count: int
    pending_step: str | None
    error: str | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    outcome: str | None
    outcome_reason: str | None
    resolved_at: datetime | None
    certificate_id: str | None
    created_at: datetime
    updated_at: datetime


async def find_theatre_view(
    connection: AsyncConnection, theatre_id: str, *, user_id: str
) -> TheatreView | None:
    """Return a theatre of a user; None where it is not theirs."""
    own = {"theatre_id": theatre_id, "user_id": user_id}
    row = (await connection.execute(_OWN, own)).first()
    return None if row is None else TheatreView._make(row)


async def find_theatres(
    connection: AsyncConnection, window: Window, *, user_id: str, **wanted: str | None
) -> Page[TheatreView]:
    """Return a page of a user's theatres, the newest first; `wanted` as `find_own`."""
    return await find_own(
        connection, Theatre, TheatreView._make, _SHOWN, window, user_id=user_id, wanted=wanted
    )


async def find_usage_sums(
    connection: AsyncConnection, theatre_id: str
) -> tuple[JsonObject, bytes] | None:
    """Return the sums of what a theatre's calls took, and its template; None without any."""
    query = select(Theatre.usage_sums, TheatreTemplate.document).join(
        TheatreTemplate, TheatreTemplate.sha256 == Theatre.template_sha256
    )
    counted = query.where(Theatre.id == theatre_id, Theatre.usage_sums.is_not(None))
    row = (await connection.execute(counted)).first()
    return None if row is None else (row.usage_sums, row.document)


_SHOWN = select(*Theatre.columns(TheatreView._fields))
_OWN = _SHOWN.where(Theatre.id == bindparam("theatre_id"), Theatre.user_id == bindparam("user_id"))


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


# Uploads of users.


class StoredDataset(NamedTuple):
    """An upload; the bytes lie in the evidence store under their hash."""

    sha256: str
    size_bytes: int
    lines_total: int
    created_at: datetime


async def find_uploads(connection: AsyncConnection, user_id: str) -> frozenset[str]:
    """Return the SHA-256 of everything that a user uploaded."""
    found = await connection.execute(select(Dataset.sha256).where(Dataset.user_id == user_id))
    return frozenset(found.scalars())


async def find_upload(
    connection: AsyncConnection, sha256: str, *, user_id: str
) -> StoredDataset | None:
    """Return an upload of a user; None where it is not theirs."""
    query = select(*Dataset.columns(StoredDataset._fields))
    own = query.where(Dataset.sha256 == sha256, Dataset.user_id == user_id)
    row = (await connection.execute(own)).first()
    return None if row is None else StoredDataset(*row)


async def insert_upload(
    connection: AsyncConnection, dataset: StoredDataset, *, user_id: str
) -> None:
    """Store that a user has a dataset, unless they have it already."""
    row = {**dataset._asdict(), "user_id": user_id}
    await connection.execute(insert_or_leave(Dataset).values(row).on_conflict_do_nothing())
