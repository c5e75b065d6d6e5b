"""What all records that the assigner reads have in common: frozen, strict, JSON and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)

from theatre.engine.canonical_json import (
    MAX_SAFE_INTEGER,
    JsonObject,
    JsonValue,
    canonical_bytes,
    json_type,
)
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ClockError, TierRecordError
from theatre.engine.schema_registry import model_message

_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
_MAX_MESSAGE = 1500


def utc_moment(moment: datetime) -> datetime:
    """Return `moment` in UTC.

    Raises ClockError for a naive time, and outside 1970 … 9998: beyond, a tier's lifetime
    could not be added.
    """
    if moment.tzinfo is None:
        raise ClockError(f"expected a timezone-aware time, got the naive {moment.isoformat()}")
    if not _EARLIEST <= moment < _LATEST:
        raise ClockError(f"expected a time in 1970 … 9998, got {moment.isoformat()}")
    return moment.astimezone(UTC)


def _read_moment(value: object) -> object:
    """Take a datetime or its RFC 3339 text; other types are left for pydantic to refuse."""
    try:
        moment = parse_rfc3339(value) if isinstance(value, str) else value
        return utc_moment(moment) if isinstance(moment, datetime) else moment
    except ClockError as error:
        # ValueError is what pydantic collects, with the place in the document.
        raise ValueError(str(error)) from error


Moment = Annotated[
    datetime, BeforeValidator(_read_moment), PlainSerializer(format_rfc3339, return_type=str)
]
Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class Record(BaseModel):
    """A frozen value without defaults for what is measured; unknown members are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def as_document(self) -> JsonObject:
        """Return the JSON form; times are RFC 3339 UTC with microseconds."""
        return self.model_dump(mode="json")

    @classmethod
    def from_document(cls, document: JsonValue) -> Self:
        """Read `as_document`'s form back; the result equals the original.

        Raises TierRecordError, naming every place, for unknown or missing members, wrong
        types, and values that contradict each other.
        """
        try:
            return cls.model_validate_json(canonical_bytes(document))
        except ValidationError as error:
            raise TierRecordError(
                f"expected a {cls.__name__} document, got: {_violations(error)}"
            ) from error


def _violations(error: ValidationError) -> str:
    """List place, rule and JSON type of each violation; never the value itself."""
    listed = "; ".join(
        f"/{'/'.join(str(part) for part in violation['loc'])}: {model_message(violation)} "
        f"(got {json_type(violation['input'])})"
        for violation in error.errors(include_url=False, include_context=False)
    )
    return listed[:_MAX_MESSAGE]
