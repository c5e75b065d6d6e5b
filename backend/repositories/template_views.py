"""Templates: committed ones are public, but for those that disclose hashes alone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, bindparam, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre, TheatreTemplate
from backend.repositories.pages import Page, Window, count_rows, newest_first

DISCLOSURE: ColumnElement[str] = func.coalesce(
    TheatreTemplate.template_json["product_theatre_config"]["disclosure"].astext, "public"
)
"""What others may see of a run: `public`, `hashes` or `withheld`; a market has nothing to hide."""


class TemplateView(NamedTuple):
    """What a list shows of a template."""

    id: str
    sha256: str
    template_family: str
    execution_path: str | None
    display_name: str
    description: str | None
    schema_version: str
    created_at: datetime
    content_hash: str


_SHOWN = (TheatreTemplate.template_id, *TheatreTemplate.columns(TemplateView._fields[1:]))


class WholeTemplate(NamedTuple):
    """A template and its bytes."""

    view: TemplateView
    document: bytes


async def find_templates(connection: AsyncConnection, window: Window) -> Page[TemplateView]:
    """Return a page of the committed templates that are open, the newest first."""
    committed = select(*_SHOWN).where(_is_public())
    query = newest_first(committed, window, TheatreTemplate.created_at, TheatreTemplate.sha256)
    found = await connection.execute(query)
    total = await count_rows(connection, TheatreTemplate, _is_public())
    return Page([TemplateView._make(row) for row in found], total)


async def template_of(
    connection: AsyncConnection, template_id: str, *, sha256: str | None, accepted: Sequence[str]
) -> WholeTemplate | None:
    """Return an open template of an id that was committed, or the one with these bytes.

    The newest of those whose content hash is `accepted`, else the newest: an id is of any author.
    """
    conditions: list[Any] = [TheatreTemplate.template_id == template_id, _is_public()]
    if sha256 is not None:
        conditions.append(TheatreTemplate.sha256 == sha256)
    query = select(*_SHOWN, TheatreTemplate.document).where(and_(*conditions))
    is_other = TheatreTemplate.content_hash.not_in(accepted)
    order = (is_other, TheatreTemplate.created_at.desc(), TheatreTemplate.sha256)
    newest = query.order_by(*order).limit(1)
    row = (await connection.execute(newest)).first()
    return None if row is None else WholeTemplate(TemplateView._make(row[:-1]), row[-1])


async def find_template_bytes(connection: AsyncConnection, sha256: str) -> bytes:
    """Return the bytes of a stored template."""
    found = await connection.execute(_DOCUMENT, {"sha256": sha256})
    return bytes(found.scalar_one())


_DOCUMENT = select(TheatreTemplate.document).where(TheatreTemplate.sha256 == bindparam("sha256"))


def _is_public() -> ColumnElement[bool]:
    # `disclosure` is a member of the document: its bytes are open in no theatre, or in all.
    committed = exists().where(
        Theatre.template_sha256 == TheatreTemplate.sha256, Theatre.commitment_hash.is_not(None)
    )
    return and_(committed, DISCLOSURE != "hashes")
