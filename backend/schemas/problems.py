"""Problem documents (RFC 9457)."""

from __future__ import annotations

from pydantic import Field

from backend.schemas.base import ResponseDocument

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
