"""What a log says of constructs and certificates, and audits of certificates."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from backend.schemas.base import RequestDocument, ResponseDocument


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


# Audits of certificates.


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class AuditRequestDocument(RequestDocument):
    """A request as `echelon audit request` writes it."""

    form: Literal["urn:echelon:audit-request:v1"]
    certificate_id: str = Field(max_length=36)
    statement_sha256: Sha256
    episode_root: Sha256
    episodes: int = Field(ge=1, le=10_000_000)
    draw: int = Field(ge=1, le=10_000_000)
    coin_sha256: Sha256
    open_by: str = Field(max_length=40, description="a moment, 7 to 366 days from now")


class AuditAnswer(RequestDocument):
    """A request that was logged, and the coin that the auditor has revealed since."""

    request: AuditRequestDocument
    coin: Sha256 = Field(description="what FILE.coin has, without its line feed")


class AuditDocument(ResponseDocument):
    """An audit that the log has, or will have within seconds."""

    request_sha256: str = Field(description="by which logs name the request")
    certificate_id: str
    statement_sha256: str
    draw: int
    open_by: datetime


class DisclosureDocument(ResponseDocument):
    """The episodes that the coin names, each with its proof, as `echelon audit check` reads it."""

    form: Literal["urn:echelon:disclosure:v1"]
    certificate_id: str
    episode_root: str
    episodes: int
    template: dict[str, Any]
    openings: list[dict[str, Any]]
