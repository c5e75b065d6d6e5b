"""Templates by content, theatres with their state, datasets that were uploaded."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from backend.database.models.base import (
    MAX_ERROR,
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
from theatre.engine.state_machine import TheatreState

EXECUTION_PATHS = ("replay", "market")
OUTCOMES = ("certified", "no_certificate", "failed", "void")
RUN_STATUSES = (
    "queued",
    "running",
    "waiting_hitl",
    "waiting_budget",
    "succeeded",
    "failed",
    "cancelled",
)


class TheatreTemplate(Base):
    """A template by its content: a second template may use the same id. Never changed.

    `execution_path` is null for simulations of schema 1.0.0, which have none. The operator accepts
    templates by `content_hash` (`theatre.engine.commitment`).
    """

    __tablename__ = "theatre_templates"
    __table_args__ = (
        UniqueConstraint("template_id", "sha256"),
        is_hash_of("sha256", "document"),
        is_sha256("content_hash"),
        is_one_of("execution_path", EXECUTION_PATHS),
        Index(None, "template_family"),
        Index(None, "execution_path"),
    )

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    template_id: Mapped[LongText]
    template_family: Mapped[str] = mapped_column(String(50))
    execution_path: Mapped[str | None] = mapped_column(String(10))
    display_name: Mapped[str] = mapped_column(String(100))
    description: Mapped[LongText | None]
    schema_version: Mapped[str] = mapped_column(String(20))
    template_json: Mapped[JsonCopy]
    document: Mapped[CanonicalBytes]
    created_at: Mapped[Moment]
    content_hash: Mapped[Sha256]


class Theatre(Base):
    """One theatre. What was committed never changes again; `version` counts every change.

    `receipt` is the canonical commitment receipt; `run_epoch` is raised by each worker that
    takes the run up; a batch of results of an older epoch is refused. `run_job_id` is the job that
    the run waits for or is held by; `lost_workers` counts those lost since it last recorded
    anything.
    `rehearsal_sha256` is of what a rehearsal runs on instead of the committed ground truth,
    `answers_sha256` of the canned answers that stand in for its constructs. `usage_sums` adds up
    what recorded calls took (`UsageTally.as_sums`): no reader has to go through the episodes.
    """

    __tablename__ = "theatres"
    __table_args__ = (
        ForeignKeyConstraint(
            ["template_id", "template_sha256"],
            ["theatre_templates.template_id", "theatre_templates.sha256"],
        ),
        ForeignKeyConstraint(
            ["certificate_id", "id"],
            ["theatre_certificates.id", "theatre_certificates.theatre_id"],
            use_alter=True,
        ),
        is_one_of("state", TheatreState),
        is_one_of("run_status", RUN_STATUSES),
        is_one_of("outcome", OUTCOMES),
        is_sha256("commitment_hash"),
        is_sha256("rehearsal_sha256"),
        is_sha256("answers_sha256"),
        CheckConstraint(
            "(rehearsal_sha256 IS NULL AND answers_sha256 IS NULL) OR is_certificate_run IS FALSE",
            name="only_rehearsed",
        ),
        CheckConstraint(
            "outcome IS DISTINCT FROM 'certified' OR is_certificate_run IS TRUE",
            name="rehearsal_never_certified",
        ),
        CheckConstraint(
            "num_nonnulls(commitment_hash, committed_at, version_pins, dataset_hashes, receipt)"
            " IN (0, 5)",
            name="whole_commitment",
        ),
        CheckConstraint(
            "state = 'DRAFT' OR commitment_hash IS NOT NULL", name="committed_before_it_moves"
        ),
        CheckConstraint(
            "(state IN ('RESOLVED', 'ARCHIVED')) = (outcome IS NOT NULL)"
            " AND (outcome IS NULL) = (resolved_at IS NULL)",
            name="resolved_with_an_outcome",
        ),
        CheckConstraint(
            "(certificate_id IS NOT NULL) = (outcome IS NOT DISTINCT FROM 'certified')",
            name="certified_with_a_certificate",
        ),
        CheckConstraint(
            "progress >= 0 AND total_episodes >= 0 AND failure_count >= 0 AND refused_count >= 0",
            name="counts",
        ),
        Index(None, "user_id", "created_at", "id"),
        Index(None, "state"),
        Index(None, "construct_id"),
        Index(None, "construct_id", "resolved_at", "id"),
        Index(None, "template_id", "template_sha256"),
        Index(
            "ix_theatres_unfinished",
            "run_status",
            postgresql_where=text("run_status IN ('queued', 'running')"),
        ),
    )

    id: Mapped[Identifier] = mapped_column(primary_key=True)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"))
    template_id: Mapped[LongText]
    template_sha256: Mapped[Sha256]
    construct_id: Mapped[LongText | None]
    state: Mapped[str] = mapped_column(String(20))
    version: Mapped[int] = mapped_column(Integer, server_default="1")

    commitment_hash: Mapped[Sha256 | None]
    committed_at: Mapped[Moment | None]
    version_pins: Mapped[JsonCopy | None]
    dataset_hashes: Mapped[JsonCopy | None]
    receipt: Mapped[CanonicalBytes | None]

    is_certificate_run: Mapped[bool | None]
    run_status: Mapped[str | None] = mapped_column(String(20))
    run_epoch: Mapped[int] = mapped_column(Integer, server_default="0")
    progress: Mapped[int] = mapped_column(Integer, server_default="0")
    total_episodes: Mapped[int] = mapped_column(Integer, server_default="0")
    failure_count: Mapped[int] = mapped_column(Integer, server_default="0")
    refused_count: Mapped[int] = mapped_column(Integer, server_default="0")
    pending_step: Mapped[LongText | None]
    error: Mapped[str | None] = mapped_column(String(MAX_ERROR))
    started_at: Mapped[Moment | None]
    heartbeat_at: Mapped[Moment | None]
    cancel_requested_at: Mapped[Moment | None]

    outcome: Mapped[str | None] = mapped_column(String(20))
    outcome_reason: Mapped[str | None] = mapped_column(String(MAX_ERROR))
    resolved_at: Mapped[Moment | None]
    certificate_id: Mapped[Identifier | None]

    created_at: Mapped[Moment]
    updated_at: Mapped[Moment]
    rehearsal_sha256: Mapped[Sha256 | None]
    answers_sha256: Mapped[Sha256 | None]

    run_job_id: Mapped[int | None] = mapped_column(BigInteger)
    lost_workers: Mapped[int] = mapped_column(Integer, server_default="0")
    usage_sums: Mapped[JsonCopy | None]


class TheatreCoin(Base):
    """The coin of a committed theatre: its bundle reveals it, no row that is shown holds it."""

    __tablename__ = "theatre_coins"
    __table_args__ = (
        UniqueConstraint("coin"),
        CheckConstraint("octet_length(coin) = 32", name="whole"),
    )

    theatre_id: Mapped[Identifier] = mapped_column(ForeignKey("theatres.id"), primary_key=True)
    coin: Mapped[CanonicalBytes]


class Dataset(Base):
    """Ground truth that a user uploaded; the bytes lie in the evidence store under their hash."""

    __tablename__ = "datasets"
    __table_args__ = (
        is_sha256("sha256"),
        CheckConstraint("size_bytes > 0 AND lines_total > 0", name="not_empty"),
    )

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    user_id: Mapped[Identifier] = mapped_column(ForeignKey("users.id"), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    lines_total: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[Moment]


# Verifications: requests that become theatres once their ground truth is read.


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
