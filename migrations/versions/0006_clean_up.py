"""The application's role may remove what has served its time.

Source: docs/design/service.md, "Retention".
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"


def upgrade() -> None:
    """Let the role delete keys for tools and notes of uploads."""
    op.execute(f"GRANT DELETE ON api_keys, datasets TO {APPLICATION}")


def downgrade() -> None:
    """Take it back."""
    op.execute(f"REVOKE DELETE ON api_keys, datasets FROM {APPLICATION}")
