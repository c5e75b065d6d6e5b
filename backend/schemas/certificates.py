"""Certificates with their current status, and the answer to routers."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from backend.schemas.base import ResponseDocument
from backend.schemas.transparency import RunCountsDocument, RunPlaceDocument
from theatre.engine.certificate import TheatreCalibrationCertificate
from theatre.engine.constraint_gate import Review
from theatre.engine.tier_assigner import CertificateStatus, VerificationTier

RoutingClass = Literal["baseline", "mid", "premium"]
Reasons = Annotated[
    list[str], Field(description="why the tier is not the issued one, as stable codes")
]
Findings = Annotated[
    list[str],
    Field(description="what its reader must know and no tier rule looks at, as codes; as signed"),
]
RunBy = Annotated[str, Field(description="the name of the user who ran it")]
OwnerConfirmed = Annotated[
    bool, Field(description="its user was the confirmed owner of the construct id at its issue")
]
TemplateAccepted = Annotated[bool, Field(description="the operator accepts the template")]
Run = Annotated[
    RunPlaceDocument | None,
    Field(
        description="which of the logged runs of its construct's version it is, and what came of "
        "the others"
    ),
]
Disclosure = Annotated[
    Literal["public", "hashes", "withheld"],
    Field(description="what others may see of its evidence, as committed"),
]
EpisodesWithheld = Annotated[int, Field(description="so many episodes only its owner can compute")]


class CertificateDocument(TheatreCalibrationCertificate):
    """Every field of a certificate; `verification_tier` is what it is worth at `as_of`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effective_tier: VerificationTier = Field(description="the same as `verification_tier`")
    issued_verification_tier: VerificationTier
    status: CertificateStatus
    reasons: Reasons
    run_by: RunBy
    owner_confirmed: OwnerConfirmed
    template_accepted: TemplateAccepted
    run: Run
    disclosure: Disclosure
    episodes_withheld: EpisodesWithheld
    as_of: datetime
    document_sha256: str = Field(
        description="of the canonical form: `/certificates/{id}/document` without its line feed"
    )


class CertificateSummary(ResponseDocument):
    """A certificate in a list."""

    certificate_id: str
    theatre_id: str
    template_id: str
    construct_id: str
    construct_version: str
    composite_score: float | None
    verification_tier: VerificationTier = Field(description="what it is worth now")
    effective_tier: VerificationTier = Field(description="the same as `verification_tier`")
    issued_verification_tier: VerificationTier
    status: CertificateStatus
    reasons: Reasons
    findings: Findings
    run_by: RunBy
    owner_confirmed: OwnerConfirmed
    template_accepted: TemplateAccepted
    run: Run
    disclosure: Disclosure
    episodes_withheld: EpisodesWithheld
    replay_count: int
    issued_at: datetime
    expires_at: datetime | None


class CertificatePage(ResponseDocument):
    """Some certificates, the newest first."""

    certificates: list[CertificateSummary]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class Routing(ResponseDocument):
    """How far a construct is trusted now."""

    construct_id: str
    construct_version: str | None = Field(description="the version that the answer is about")
    effective_tier: VerificationTier
    routing_class: RoutingClass
    declared_review: str | None
    effective_review: Review
    overridden: bool
    reasons: list[str]
    certificate_id: str | None
    findings: Findings
    run_by: RunBy | None = Field(description="of the run that decides; null without one")
    owner_confirmed: OwnerConfirmed | None = Field(description="of that run; null without one")
    template_accepted: TemplateAccepted | None = Field(description="of that run; null without one")
    record: RunCountsDocument = Field(
        description="what came of the logged runs of that version, else of all, by any user"
    )
    as_of: datetime
    valid_until: datetime = Field(description="ask again before this")
