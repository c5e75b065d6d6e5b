"""Debates: each run as an event log that only grows, and what evaluators said of it."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    Base,
    CanonicalBytes,
    Identifier,
    Moment,
    Sha256,
    is_hash_of,
    is_sha256,
)

MAX_NAME = 200
MAX_EVALUATOR = 20


class DebateRun(Base):
    """One run of one debate, of one user. `version` counts every change.

    `document` holds the bytes of an artefact that was submitted whole, null for a run that goes
    on; `artefact_sha256` is of those bytes, or of the canonical form of what the events come to.
    """

    __tablename__ = "debate_runs"
    __table_args__ = (
        UniqueConstraint("user_id", "debate_id", "run_id"),
        is_sha256("artefact_sha256"),
        is_sha256("head_hash"),
        CheckConstraint("events > 0 AND turns > 0", name="counts"),
        CheckConstraint(
            "document IS NULL OR (is_closed AND artefact_sha256 = encode(sha256(document), 'hex'))",
            name="document",
        ),
        Index(None, "user_id", "created_at", "id"),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"))
    debate_id: Mapped[str] = mapped_column(String(MAX_NAME))
    run_id: Mapped[str] = mapped_column(String(MAX_NAME))
    evaluation_mode: Mapped[str] = mapped_column(String(20))
    document: Mapped[CanonicalBytes | None]
    artefact_sha256: Mapped[Sha256]
    head_hash: Mapped[Sha256]
    events: Mapped[int] = mapped_column(Integer)
    turns: Mapped[int] = mapped_column(Integer)
    is_closed: Mapped[bool] = mapped_column(Boolean)
    version: Mapped[int] = mapped_column(Integer, server_default="1")
    created_at: Mapped[Moment]
    updated_at: Mapped[Moment]


class DebateEvent(Base):
    """One entry of a run's chain: the canonical line that was hashed. Never changed."""

    __tablename__ = "debate_events"
    __table_args__ = (is_sha256("entry_hash"), CheckConstraint("seq >= 0", name="seq"))

    debate_run_id: Mapped[Identifier] = mapped_column(
        ForeignKey("debate_runs.id"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    event_type: Mapped[str] = mapped_column(String(50))
    entry_hash: Mapped[Sha256]
    entry: Mapped[CanonicalBytes]


class DebateEvaluation(Base):
    """What one evaluator said of one artefact, with the labels it was given. Never changed."""

    __tablename__ = "debate_evaluations"
    __table_args__ = (is_sha256("artefact_sha256"), is_hash_of("sha256", "document"))

    debate_run_id: Mapped[Identifier] = mapped_column(
        ForeignKey("debate_runs.id"), primary_key=True
    )
    artefact_sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    evaluator: Mapped[str] = mapped_column(String(MAX_EVALUATOR), primary_key=True)
    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[CanonicalBytes]
    created_at: Mapped[Moment]
