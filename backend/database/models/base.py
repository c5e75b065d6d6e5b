"""What the tables share: names of constraints, column types, ids, conditions."""

import secrets
import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, ClassVar

from sqlalchemy import CheckConstraint, DateTime, LargeBinary, MetaData, String, Text
from sqlalchemy.dialects.postgresql import JSONB, UUID
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, mapped_column

Identifier = Annotated[str, mapped_column(UUID(as_uuid=False))]
"""A UUID, as text in Python."""

Sha256 = Annotated[str, mapped_column(String(64))]
"""A SHA-256, 64 lower-case hex digits."""

Moment = Annotated[datetime, mapped_column(DateTime(timezone=True))]
"""A time with its zone; naive ones are refused by the driver."""

LongText = Annotated[str, mapped_column(Text)]

CanonicalBytes = Annotated[bytes, mapped_column(LargeBinary)]
"""The exact bytes that were hashed. The JSONB column next to them is for queries only."""

JsonCopy = Annotated[dict[str, Any], mapped_column(JSONB(none_as_null=True))]
"""A copy, for queries, of a document whose exact bytes are in another column."""

MAX_ERROR = 2000


class Base(DeclarativeBase):
    """The base of every table."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {str: String, datetime: DateTime(timezone=True)}

    @classmethod
    def columns(cls, names: Iterable[str]) -> list[InstrumentedAttribute[Any]]:
        """Return the columns of these names, in their order: those of a view's fields."""
        return [getattr(cls, name) for name in names]


def new_id(at: datetime) -> str:
    """Return the id of a new row: a UUID of version 7 (RFC 9562 §5.7), which sorts by its moment.

    It has the moment `at` to the millisecond, and 74 random bits.
    """
    milliseconds = int(at.timestamp() * 1000)
    value = milliseconds << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    value |= 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=value))


def is_one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    """Return the condition that a column, unless it is null, holds one of `values`."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def is_sha256(column: str) -> CheckConstraint:
    """Return the condition that a column holds 64 lower-case hex digits, unless it is null."""
    return CheckConstraint(f"{column} ~ '^[0-9a-f]{{64}}$'", name=column)


def is_hash_of(column: str, document: str) -> CheckConstraint:
    """Return the condition that a column is the SHA-256 of the bytes in `document`."""
    return CheckConstraint(f"{column} = encode(sha256({document}), 'hex')", name=column)
