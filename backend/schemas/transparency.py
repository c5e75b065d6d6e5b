"""The log's record of a construct, and the place of a certificate in it."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from backend.schemas.base import ResponseDocument


class RunCountsDocument(ResponseDocument):
    """What came of logged runs."""

    commitments: int = Field(description="how many runs were committed in the log before a call")
    certified: int
    void: dict[str, int] = Field(description="those closed without a certificate, by reason")
    open: int = Field(description="those that nothing has closed yet, the overdue among them")
    overdue: int = Field(description="those open after the day by which they had to be closed")


class RunPlaceDocument(ResponseDocument):
    """Which of the logged runs of its construct's version a certificate is."""

    number: int = Field(description="its place among them, from 1")
    of: int = Field(description="how many there are")
    others: RunCountsDocument
    text: str = Field(description="the same for people: `run 3 of 5, the other 4: 4 failed`")


class VersionRecord(RunCountsDocument):
    """What came of the runs of one version."""

    construct_version: str


class AuditCounts(ResponseDocument):
    """How many samples of certificates' episodes were asked for."""

    requested: int
    answered: int = Field(description="those that the owner has opened, in time or late")
    overdue: int = Field(description="those that are not open after their day")


class ConstructRecord(RunCountsDocument):
    """What came of the runs of a construct, as the log has it."""

    construct_id: str
    construct_version: str | None = Field(description="the version that was asked for")
    audits: AuditCounts
    versions: list[VersionRecord]
    as_of: datetime
