"""What a run leaves: results, audit events, human scores."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

IDENTIFIER = sa.UUID(as_uuid=False)
MOMENT = sa.DateTime(timezone=True)
SHA256 = sa.String(length=64)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "theatre_episode_scores",
        sa.Column("theatre_id", IDENTIFIER, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("episode_id", sa.Text(), nullable=False),
        sa.Column("invocation_status", sa.String(length=20), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("latency_ms", sa.Integer(), nullable=True),
        sa.Column("scores_json", JSONB(none_as_null=True), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
        sa.Column("scored_at", MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "invocation_status IN ('success', 'timeout', 'error', 'refused')",
            name=op.f("ck_theatre_episode_scores_invocation_status"),
        ),
        sa.CheckConstraint(
            "outcome IN ('scored', 'missing', 'excluded', 'unscored', 'not_run')",
            name=op.f("ck_theatre_episode_scores_outcome"),
        ),
        sa.CheckConstraint("latency_ms >= 0", name=op.f("ck_theatre_episode_scores_latency_ms")),
        sa.CheckConstraint(
            "seq BETWEEN 1 AND 10000000", name=op.f("ck_theatre_episode_scores_seq")
        ),
        sa.ForeignKeyConstraint(
            ["theatre_id"], ["theatres.id"], name="fk_theatre_episode_scores_theatre_id"
        ),
        sa.PrimaryKeyConstraint("theatre_id", "seq", name="pk_theatre_episode_scores"),
    )
    op.create_table(
        "theatre_audit_events",
        sa.Column("theatre_id", IDENTIFIER, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_type", sa.String(length=50), nullable=False),
        sa.Column("from_state", sa.String(length=20), nullable=True),
        sa.Column("to_state", sa.String(length=20), nullable=True),
        sa.Column("detail_json", JSONB(none_as_null=True), nullable=False),
        sa.Column("prev_entry_hash", SHA256, nullable=False),
        sa.Column("entry_hash", SHA256, nullable=False),
        sa.Column("entry", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "entry_hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_theatre_audit_events_entry_hash")
        ),
        sa.CheckConstraint(
            "from_state IN ('DRAFT', 'COMMITTED', 'ACTIVE', 'SETTLING', 'RESOLVED', 'ARCHIVED')",
            name=op.f("ck_theatre_audit_events_from_state"),
        ),
        sa.CheckConstraint(
            "prev_entry_hash ~ '^[0-9a-f]{64}$'",
            name=op.f("ck_theatre_audit_events_prev_entry_hash"),
        ),
        sa.CheckConstraint(
            "to_state IN ('DRAFT', 'COMMITTED', 'ACTIVE', 'SETTLING', 'RESOLVED', 'ARCHIVED')",
            name=op.f("ck_theatre_audit_events_to_state"),
        ),
        sa.CheckConstraint("seq >= 0", name=op.f("ck_theatre_audit_events_seq")),
        sa.ForeignKeyConstraint(
            ["theatre_id"], ["theatres.id"], name="fk_theatre_audit_events_theatre_id"
        ),
        sa.PrimaryKeyConstraint("theatre_id", "seq", name="pk_theatre_audit_events"),
    )
    op.create_index(
        "ix_theatre_audit_events_theatre_id_created_at",
        "theatre_audit_events",
        ["theatre_id", "created_at"],
    )
    op.create_table(
        "human_scores",
        sa.Column("theatre_id", IDENTIFIER, nullable=False),
        sa.Column("step_id", sa.Text(), nullable=False),
        sa.Column("identity", sa.String(length=400), nullable=False),
        sa.Column("episode_seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("audit_seq", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["theatre_id", "audit_seq"],
            ["theatre_audit_events.theatre_id", "theatre_audit_events.seq"],
            name="fk_human_scores_theatre_id_audit_seq",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_human_scores_user_id"),
        sa.PrimaryKeyConstraint(
            "theatre_id", "step_id", "identity", "episode_seq", name="pk_human_scores"
        ),
    )
    op.create_index("ix_human_scores_user_id", "human_scores", ["user_id"])


def downgrade() -> None:
    """Drop them, with what is in them."""
    op.drop_table("human_scores")
    op.drop_table("theatre_audit_events")
    op.drop_table("theatre_episode_scores")
