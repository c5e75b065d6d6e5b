"""The coin of each commitment: written once, read by whoever runs the theatre (docs/adr/0174)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
TABLE = "theatre_coins"


def upgrade() -> None:
    """Make the table, which is only ever added to: no two theatres have one coin."""
    op.create_table(
        TABLE,
        sa.Column("theatre_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("coin", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("octet_length(coin) = 32", name=op.f("ck_theatre_coins_whole")),
        sa.ForeignKeyConstraint(
            ["theatre_id"], ["theatres.id"], name=op.f("fk_theatre_coins_theatre_id")
        ),
        sa.PrimaryKeyConstraint("theatre_id", name=op.f("pk_theatre_coins")),
        sa.UniqueConstraint("coin", name=op.f("uq_theatre_coins_coin")),
    )
    op.execute(
        f"CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {TABLE} "
        "FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change()"
    )
    op.execute(f"GRANT SELECT, INSERT ON {TABLE} TO {APPLICATION}")


def downgrade() -> None:
    """Drop it: what is committed and has not ended cannot be run any more."""
    op.drop_table(TABLE)
