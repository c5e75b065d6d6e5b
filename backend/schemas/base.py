"""The two kinds of documents: what comes in is taken literally, what goes out is complete.

And those that belong to no resource: problems, health, signing keys.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


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


# Problems (RFC 9457).


MAX_DETAIL = 2000
MAX_VIOLATIONS = 200


class ViolationDocument(ResponseDocument):
    """One thing that is wrong with the request."""

    pointer: str = Field(
        description="JSON pointer into the body, or `query:name`, `path:name`, `header:name`"
    )
    rule: str
    detail: str


class ProblemDocument(ResponseDocument):
    """Every answer that is neither 2xx nor 3xx."""

    type: str = Field(description="`/problems/{slug}`, which explains it")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str = Field(max_length=MAX_DETAIL)
    instance: str = Field(description="`urn:request:` and the id under which the request is logged")
    errors: list[ViolationDocument] = Field(max_length=MAX_VIOLATIONS)


class ProblemExplanation(ResponseDocument):
    """What a kind of problem means and what a caller can do."""

    type: str
    title: str
    status: int
    explanation: str


# Health and keys of the service.


class Alive(ResponseDocument):
    """The process answers."""

    status: Literal["alive"]


class ClosedTo(ResponseDocument):
    """What the operator's programs cannot reach here, as probed when the process began."""

    files: bool
    processes: bool
    network: bool
    by: Literal["namespaces", "landlock", "other-user", "remote", "none"]


class ReadyDetails(ResponseDocument):
    """Facts about this machine that decide what it can be asked."""

    isolation: ClosedTo


class Ready(ResponseDocument):
    """Everything that requests need answers; degraded where only some of them can be served."""

    status: Literal["ready", "degraded"]
    checks: list[str]
    failing: list[str]
    """What is away, so that runs wait and some requests are refused; the rest is served."""
    details: ReadyDetails


class VersionDocument(ResponseDocument):
    """Which release this is, and which revision its database has."""

    version: str
    migration: str
