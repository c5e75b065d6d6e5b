"""An evaluator may say several things of one artefact: `raudit`, by its labels.

Source: docs/design/service.md, "Labels for `raudit`".
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

TABLE, KEY = "debate_evaluations", "pk_debate_evaluations"
UP_TO_NOW = ["debate_run_id", "artefact_sha256", "evaluator"]


def upgrade() -> None:
    """Let each result be there once, instead of one of each evaluator."""
    _make_key([*UP_TO_NOW, "sha256"])


def downgrade() -> None:
    """Let an evaluator have one result again; refused by the database where one has several."""
    _make_key(UP_TO_NOW)


def _make_key(columns: list[str]) -> None:
    op.drop_constraint(op.f(KEY), TABLE)
    op.create_primary_key(op.f(KEY), TABLE, columns)
