"""What a rehearsal runs on, where that is not what was committed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
SHA256 = "rehearsal_sha256 ~ '^[0-9a-f]{64}$'"
ONLY_REHEARSED = "rehearsal_sha256 IS NULL OR is_certificate_run IS FALSE"


def upgrade() -> None:
    """Add the column; no run that may certify has it."""
    op.add_column("theatres", sa.Column("rehearsal_sha256", sa.String(length=64), nullable=True))
    op.create_check_constraint(op.f("ck_theatres_rehearsal_sha256"), "theatres", SHA256)
    op.create_check_constraint(op.f("ck_theatres_only_rehearsed"), "theatres", ONLY_REHEARSED)
    op.execute(f"GRANT UPDATE (rehearsal_sha256) ON theatres TO {APPLICATION}")


def downgrade() -> None:
    """Drop it, and with it its conditions and its grant."""
    op.drop_column("theatres", "rehearsal_sha256")
