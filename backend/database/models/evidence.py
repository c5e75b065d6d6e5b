"""What a run leaves: results, audit events, human scores, the certificate. Only ever added to."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    Base,
    CanonicalBytes,
    Identifier,
    JsonCopy,
    LongText,
    Moment,
    Sha256,
    is_hash_of,
    is_one_of,
    is_sha256,
)
from backend.database.models.theatres import EXECUTION_PATHS
from theatre.engine.models import EpisodeOutcome, InvocationStatus
from theatre.engine.state_machine import TheatreState

TIERS = ("UNVERIFIED", "BACKTESTED", "PROVEN")
HIGHEST_SEQUENCE = 10_000_000


class TheatreCertificate(Base):
    """The one certificate of a theatre: the exact bytes, and what is looked up by.

    `sigstore` is the signed statement, `statement_sha256` the hash of its payload, which the log
    has.
    """

    __tablename__ = "theatre_certificates"
    __table_args__ = (
        UniqueConstraint("theatre_id"),
        UniqueConstraint("id", "theatre_id"),
        UniqueConstraint("statement_sha256"),
        is_hash_of("document_sha256", "document"),
        is_one_of("verification_tier", TIERS),
        is_one_of("execution_path", EXECUTION_PATHS),
        *map(is_sha256, ("evidence_bundle_hash", "ground_truth_hash", "commitment_hash")),
        *map(is_sha256, ("dataset_hash", "results_hash", "audit_head", "statement_sha256")),
        CheckConstraint(
            "(verification_tier = 'UNVERIFIED') = (expires_at IS NULL)", name="expires_at"
        ),
        CheckConstraint("replay_count > 0", name="replay_count"),
        Index(None, "construct_id", "issued_at", "id"),
        Index(None, "issued_at", "id"),
        Index(None, "verification_tier"),
        Index(None, "template_id"),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"))
    template_id: Mapped[LongText]
    construct_id: Mapped[LongText]

    document: Mapped[CanonicalBytes]
    document_sha256: Mapped[Sha256]
    sigstore: Mapped[CanonicalBytes]
    statement_sha256: Mapped[Sha256]
    criteria_json: Mapped[JsonCopy]
    scores_json: Mapped[JsonCopy]
    composite_score: Mapped[float | None] = mapped_column(Double)
    precision: Mapped[float | None] = mapped_column(Double)
    recall: Mapped[float | None] = mapped_column(Double)
    reply_accuracy: Mapped[float | None] = mapped_column(Double)
    brier_score: Mapped[float | None] = mapped_column(Double)
    ece: Mapped[float | None] = mapped_column(Double)

    replay_count: Mapped[int] = mapped_column(Integer)
    evidence_bundle_hash: Mapped[Sha256]
    ground_truth_hash: Mapped[Sha256]
    results_hash: Mapped[Sha256 | None]
    audit_head: Mapped[Sha256]

    construct_version: Mapped[LongText]
    construct_chain_versions: Mapped[JsonCopy | None]
    scorer_version: Mapped[LongText]
    methodology_version: Mapped[LongText]
    dataset_hash: Mapped[Sha256 | None]

    verification_tier: Mapped[str] = mapped_column(String(20))
    commitment_hash: Mapped[Sha256]
    issuer: Mapped[str] = mapped_column(String(200))
    ground_truth_source: Mapped[str] = mapped_column(String(100))
    execution_path: Mapped[str] = mapped_column(String(10))

    issued_at: Mapped[Moment]
    expires_at: Mapped[Moment | None]
    theatre_committed_at: Mapped[Moment]
    theatre_resolved_at: Mapped[Moment]


class TheatreEpisodeScore(Base):
    """One recorded episode. `line` is the journal's canonical line; a gap in a score is null.

    `latency_ms` is that of the last call of the first round, null where the record holds none.
    """

    __tablename__ = "theatre_episode_scores"
    __table_args__ = (
        CheckConstraint(f"seq BETWEEN 1 AND {HIGHEST_SEQUENCE}", name="seq"),
        is_one_of("invocation_status", InvocationStatus),
        is_one_of("outcome", EpisodeOutcome),
        CheckConstraint("latency_ms >= 0", name="latency_ms"),
        Index(
            "ix_theatre_episode_scores_failed",
            "theatre_id",
            "seq",
            postgresql_where=text("outcome = 'missing'"),
        ),
    )

    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    episode_id: Mapped[LongText]
    invocation_status: Mapped[str] = mapped_column(String(20))
    outcome: Mapped[str] = mapped_column(String(20))
    latency_ms: Mapped[int | None] = mapped_column(Integer)
    scores_json: Mapped[JsonCopy]
    line: Mapped[CanonicalBytes]
    scored_at: Mapped[Moment] = mapped_column(server_default=func.now())


class TheatreAuditEvent(Base):
    """One entry of a theatre's audit chain. `entry` is its canonical line."""

    __tablename__ = "theatre_audit_events"
    __table_args__ = (
        CheckConstraint("seq >= 0", name="seq"),
        is_one_of("from_state", TheatreState),
        is_one_of("to_state", TheatreState),
        is_sha256("prev_entry_hash"),
        is_sha256("entry_hash"),
        Index(None, "theatre_id", "created_at"),
    )

    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    event_type: Mapped[str] = mapped_column(String(50))
    from_state: Mapped[str | None] = mapped_column(String(20))
    to_state: Mapped[str | None] = mapped_column(String(20))
    detail_json: Mapped[JsonCopy]
    prev_entry_hash: Mapped[Sha256]
    entry_hash: Mapped[Sha256]
    entry: Mapped[CanonicalBytes]
    created_at: Mapped[Moment]


class SealedBundle(Base):
    """The archive of a theatre's sealed bundle, which lies in the evidence store under its hash."""

    __tablename__ = "sealed_bundles"
    __table_args__ = (is_sha256("sha256"), CheckConstraint("size_bytes > 0", name="not_empty"))

    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"), primary_key=True)
    sha256: Mapped[Sha256]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sealed_at: Mapped[Moment]


class HumanScore(Base):
    """What one person gave one item. The audit chain holds it too, and is what counts."""

    __tablename__ = "human_scores"
    __table_args__ = (
        ForeignKeyConstraint(
            ["theatre_id", "audit_seq"],
            ["theatre_audit_events.theatre_id", "theatre_audit_events.seq"],
        ),
    )

    theatre_id: Mapped[Identifier] = mapped_column(primary_key=True)
    step_id: Mapped[LongText] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(String(400), primary_key=True)
    episode_seq: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"), index=True)
    score: Mapped[float] = mapped_column(Double)
    comment: Mapped[LongText | None]
    audit_seq: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[Moment]
