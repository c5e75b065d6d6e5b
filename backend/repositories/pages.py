"""Pages of lists: those that are shown the newest first, and those of numbered rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, and_, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import InstrumentedAttribute

from backend.database.models import Base

Row = TypeVar("Row")


class Place(NamedTuple):
    """Where a page ends: the next one begins behind it."""

    created_at: datetime
    id: str


class Window(NamedTuple):
    """Which rows are asked for: at most so many, without the first ones or those up to a place."""

    limit: int
    offset: int = 0
    after: Place | None = None


class NumberedWindow(NamedTuple):
    """Which numbered rows are asked for; as `Window`, in their order."""

    limit: int | None = None
    offset: int = 0
    after: int | None = None


ALL = NumberedWindow()


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Some rows of a list; `total` counts all that its filter lets through."""

    rows: Sequence[Row]
    total: int


def newest_first(
    query: Select[*tuple[Any, ...]],
    window: Window,
    moment: ColumnElement[Any] | InstrumentedAttribute[Any],
    key: ColumnElement[Any] | InstrumentedAttribute[Any],
) -> Select[*tuple[Any, ...]]:
    """Return the query of one page; `key` decides between rows of the same moment."""
    if window.after is not None:
        place = tuple_(window.after.created_at, literal(window.after.id, key.type))
        query = query.where(tuple_(moment, key) < place)
    return query.order_by(moment.desc(), key.desc()).limit(window.limit).offset(window.offset)


def in_order(
    query: Select[*tuple[Any, ...]], window: NumberedWindow, number: InstrumentedAttribute[int]
) -> Select[*tuple[Any, ...]]:
    """Return the query of one page of numbered rows."""
    if window.after is not None:
        query = query.where(number > window.after)
    return query.order_by(number).limit(window.limit).offset(window.offset)


async def count_rows(
    connection: AsyncConnection, table: type[Base], *conditions: ColumnElement[bool]
) -> int:
    """Return how many rows of a table meet all conditions."""
    query = select(func.count()).select_from(table).where(*conditions)
    return int((await connection.execute(query)).scalar_one())


async def find_own(
    connection: AsyncConnection,
    table: Any,  # noqa: ANN401 - one whose rows have an owner, a moment and an id
    made: Callable[[Sequence[Any]], Row],
    query: Select[*tuple[Any, ...]],
    window: Window,
    *,
    user_id: str,
    wanted: Mapping[str, str | None],
) -> Page[Row]:
    """Return a page of a user's rows of `table`, the newest first, each `made` of what is selected.

    `wanted` restricts columns by their names; None does not.
    """
    named = (getattr(table, name) == value for name, value in wanted.items() if value is not None)
    listed = and_(table.user_id == user_id, *named)
    found = await connection.execute(
        newest_first(query.where(listed), window, table.created_at, table.id)
    )
    rows = [made(row) for row in found]
    return Page(rows, await count_rows(connection, table, listed))
