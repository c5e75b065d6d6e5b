"""Verifications, which have a row before their ground truth is read (docs/adr/0150)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
TABLE = "verifications"
UNFINISHED = "phase IN ('queued', 'ingesting')"
GRANTS = f"""
GRANT SELECT, INSERT ON {TABLE} TO {APPLICATION};
GRANT UPDATE (phase, job_id, lost_workers, records, waits_until, error_code, error, updated_at)
    ON {TABLE} TO {APPLICATION}
"""


def upgrade() -> None:
    """Make the table; what was asked for, and whose it is, never changes."""
    op.create_table(
        TABLE,
        sa.Column("id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("user_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("request", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("min_replays", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("lost_workers", sa.Integer(), server_default="0", nullable=False),
        sa.Column("records", sa.Integer(), server_default="0", nullable=False),
        sa.Column("waits_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error_code", sa.String(length=100), nullable=True),
        sa.Column("error", sa.String(length=2000), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "phase IN ('queued', 'ingesting', 'handed_over', 'failed')",
            name=op.f("ck_verifications_phase"),
        ),
        sa.CheckConstraint(
            "records >= 0 AND lost_workers >= 0 AND min_replays > 0",
            name=op.f("ck_verifications_counts"),
        ),
        sa.CheckConstraint(
            "phase <> 'failed' OR error_code IS NOT NULL",
            name=op.f("ck_verifications_failed_for_a_reason"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_verifications_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verifications")),
    )
    op.create_index(
        op.f("ix_verifications_user_id_created_at_id"), TABLE, ["user_id", "created_at", "id"]
    )
    op.create_index(
        "ix_verifications_unfinished", TABLE, ["phase"], postgresql_where=sa.text(UNFINISHED)
    )
    for grant in GRANTS.split(";"):
        op.execute(grant)


def downgrade() -> None:
    """Drop it; the theatres that verifications became stay."""
    op.drop_table(TABLE)
