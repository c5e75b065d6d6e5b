"""The evidence of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from backend.schemas.base import ResponseDocument


class AuditPage(ResponseDocument):
    """Some entries of an audit chain, as they were hashed, in order."""

    audit_events: list[dict[str, Any]]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class EpisodeDocument(ResponseDocument):
    """The result of one episode."""

    seq: int
    episode_id: str
    invocation_status: str
    outcome: str
    latency_ms: int | None = Field(description="of the answer that counts")
    scores: dict[str, float | None]
    scored_at: datetime


class EpisodeRecord(EpisodeDocument):
    """One episode with its calls, as docs/contract/evidence.md has an invocation record."""

    record: dict[str, Any]


class EpisodePage(ResponseDocument):
    """Some recorded episodes, in the order of the dataset."""

    episodes: list[EpisodeDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None
