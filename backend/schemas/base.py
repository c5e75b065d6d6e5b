"""The two kinds of documents: what comes in is taken literally, what goes out is complete."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class RequestDocument(BaseModel):
    """The body of a request. Unknown members and other types are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class ResponseDocument(BaseModel):
    """The body of an answer. Its members have no defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)
