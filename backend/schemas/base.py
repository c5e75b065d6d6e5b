"""The two kinds of documents: what comes in is taken literally, what goes out is complete."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


class RequestDocument(BaseModel):
    """The body of a request. Unknown members and other types are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_whole)]
"""An integer as JSON has it: 7.0 is the same number as 7."""


class ResponseDocument(BaseModel):
    """The body of an answer. Its members have no defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)
