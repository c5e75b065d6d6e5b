"""Verifications that were requested, and the theatres that they become."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    MAX_ERROR,
    Base,
    Identifier,
    JsonCopy,
    Moment,
    is_one_of,
)

PHASES = ("queued", "ingesting", "handed_over", "failed")


class Verification(Base):
    """One verification. Its id is that of the theatre that it becomes once it is handed over.

    `request` is what was asked for, never hashed: what counts is committed in the template.
    `job_id` is the job that the reading of ground truth waits for or is held by; `lost_workers`
    counts those it lost. `error_code` and `error` say why it failed before there was a theatre,
    or what it waits for until `waits_until`.
    """

    __tablename__ = "verifications"
    __table_args__ = (
        is_one_of("phase", PHASES),
        CheckConstraint("records >= 0 AND lost_workers >= 0 AND min_replays > 0", name="counts"),
        CheckConstraint("phase <> 'failed' OR error_code IS NOT NULL", name="failed_for_a_reason"),
        Index(None, "user_id", "created_at", "id"),
        Index(
            "ix_verifications_unfinished",
            "phase",
            postgresql_where=text("phase IN ('queued', 'ingesting')"),
        ),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"))
    request: Mapped[JsonCopy]
    min_replays: Mapped[int] = mapped_column(Integer)
    phase: Mapped[str] = mapped_column(String(20))
    job_id: Mapped[int | None] = mapped_column(BigInteger)
    lost_workers: Mapped[int] = mapped_column(Integer, server_default="0")
    records: Mapped[int] = mapped_column(Integer, server_default="0")
    waits_until: Mapped[Moment | None]
    error_code: Mapped[str | None] = mapped_column(String(100))
    error: Mapped[str | None] = mapped_column(String(MAX_ERROR))
    created_at: Mapped[Moment]
    updated_at: Mapped[Moment]
