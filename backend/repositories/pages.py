"""Pages of lists: those that are shown the newest first, and those of numbered rows."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, func, literal, select, tuple_
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


def restricting(table: type[Base], wanted: Any) -> Iterator[ColumnElement[bool]]:  # noqa: ANN401 - a dataclass
    """Yield the conditions of a filter, whose members are columns; None does not restrict."""
    for name, value in asdict(wanted).items():
        if value is not None:
            yield getattr(table, name) == value


async def count_rows(
    connection: AsyncConnection, table: type[Base], *conditions: ColumnElement[bool]
) -> int:
    """Return how many rows of a table meet all conditions."""
    query = select(func.count()).select_from(table).where(*conditions)
    return int((await connection.execute(query)).scalar_one())
