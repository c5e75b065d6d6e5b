"""Where the sealed bundle of a theatre lies in the evidence store (docs/adr/0122)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
TABLE = "sealed_bundles"


def upgrade() -> None:
    """Make the table, which is only ever added to."""
    op.create_table(
        TABLE,
        sa.Column("theatre_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name=op.f("ck_sealed_bundles_sha256")),
        sa.CheckConstraint("size_bytes > 0", name=op.f("ck_sealed_bundles_not_empty")),
        sa.ForeignKeyConstraint(
            ["theatre_id"], ["theatres.id"], name=op.f("fk_sealed_bundles_theatre_id")
        ),
        sa.PrimaryKeyConstraint("theatre_id", name=op.f("pk_sealed_bundles")),
    )
    op.execute(
        f"CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {TABLE} "
        "FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change()"
    )
    op.execute(f"GRANT SELECT, INSERT ON {TABLE} TO {APPLICATION}")


def downgrade() -> None:
    """Drop it; the bundles stay in the store."""
    op.drop_table(TABLE)
