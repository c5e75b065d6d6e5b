"""Audits of a sample of a certificate's episodes: asked for, and answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from backend.schemas.base import RequestDocument, ResponseDocument

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
