"""The shards of large runs, and the failures of a run by their place in the dataset (ADR 0127)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
TABLE = "run_shards"
FAILED = "ix_theatre_episode_scores_failed"


def upgrade() -> None:
    """Make table and index."""
    op.create_table(
        TABLE,
        sa.Column("theatre_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_seq", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=20), server_default="waiting", nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("share", sa.Integer(), server_default="0", nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("lost_workers", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "state IN ('waiting', 'queued', 'running', 'done')", name=op.f("ck_run_shards_state")
        ),
        sa.CheckConstraint(
            "number > 0 AND first_seq BETWEEN 1 AND last_seq", name=op.f("ck_run_shards_span")
        ),
        sa.CheckConstraint(
            "(state IN ('queued', 'running')) = (share > 0) AND share >= 0",
            name=op.f("ck_run_shards_share"),
        ),
        sa.ForeignKeyConstraint(
            ["theatre_id"], ["theatres.id"], name=op.f("fk_run_shards_theatre_id")
        ),
        sa.PrimaryKeyConstraint("theatre_id", "number", name=op.f("pk_run_shards")),
    )
    op.create_index(
        "ix_run_shards_unfinished",
        TABLE,
        ["job_id"],
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_index(
        FAILED,
        "theatre_episode_scores",
        ["theatre_id", "seq"],
        postgresql_where=sa.text("outcome = 'missing'"),
    )
    op.execute(f"GRANT SELECT, INSERT ON {TABLE} TO {APPLICATION}")
    op.execute(
        f"GRANT UPDATE (state, epoch, share, job_id, lost_workers) ON {TABLE} TO {APPLICATION}"
    )


def downgrade() -> None:
    """Drop them; runs that are under way go on as one job each."""
    op.drop_index(FAILED, "theatre_episode_scores")
    op.drop_table(TABLE)
