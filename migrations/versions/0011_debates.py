"""Debates as event logs that only grow, and what evaluators said of them.

Source: docs/design/service.md, "Debates in the service".
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
UUID = sa.UUID(as_uuid=False)
SHA256 = sa.String(length=64)
MOMENT = sa.DateTime(timezone=True)

GUARD_DEBATE_RUN = """
CREATE FUNCTION echelon_guard_debate_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.user_id, NEW.debate_id, NEW.run_id, NEW.evaluation_mode, NEW.created_at)
            IS DISTINCT FROM
            (OLD.id, OLD.user_id, OLD.debate_id, OLD.run_id, OLD.evaluation_mode, OLD.created_at)
            OR NEW.document IS DISTINCT FROM OLD.document THEN
        RAISE EXCEPTION 'expected run % of a debate to stay whose and of what it is, got a change',
            OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.is_closed OR NEW.events <= OLD.events THEN
        RAISE EXCEPTION 'expected run % of a debate to be open and only to grow, got a change',
            OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$
"""


def upgrade() -> None:
    """Make the tables, with what keeps their history."""
    _make_runs()
    _make_events()
    _make_evaluations()
    op.execute(GUARD_DEBATE_RUN)
    op.execute(
        "CREATE TRIGGER guard_debate_run BEFORE UPDATE ON debate_runs "
        "FOR EACH ROW EXECUTE FUNCTION echelon_guard_debate_run()"
    )
    _refuse("debate_runs", "DELETE OR TRUNCATE")
    for table in ("debate_events", "debate_evaluations"):
        _refuse(table, "UPDATE OR DELETE OR TRUNCATE")
    op.execute(
        f"GRANT SELECT, INSERT ON debate_runs, debate_events, debate_evaluations TO {APPLICATION}"
    )
    op.execute(
        "GRANT UPDATE (artefact_sha256, head_hash, events, turns, is_closed, updated_at) "
        f"ON debate_runs TO {APPLICATION}"
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("debate_evaluations", "debate_events", "debate_runs"):
        op.drop_table(table)
    op.execute("DROP FUNCTION echelon_guard_debate_run()")


def _make_runs() -> None:
    op.create_table(
        "debate_runs",
        sa.Column("id", UUID, nullable=False),
        sa.Column("user_id", UUID, nullable=False),
        sa.Column("debate_id", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=200), nullable=False),
        sa.Column("evaluation_mode", sa.String(length=20), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=True),
        sa.Column("artefact_sha256", SHA256, nullable=False),
        sa.Column("head_hash", SHA256, nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("is_closed", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        _is_sha256("debate_runs", "artefact_sha256"),
        _is_sha256("debate_runs", "head_hash"),
        sa.CheckConstraint("events > 0 AND turns > 0", name=op.f("ck_debate_runs_counts")),
        sa.CheckConstraint(
            "document IS NULL OR (is_closed AND artefact_sha256 = encode(sha256(document), 'hex'))",
            name=op.f("ck_debate_runs_document"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_debate_runs_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_debate_runs")),
        sa.UniqueConstraint(
            "user_id", "debate_id", "run_id", name=op.f("uq_debate_runs_user_id_debate_id_run_id")
        ),
    )
    op.create_index(
        op.f("ix_debate_runs_user_id_created_at_id"),
        "debate_runs",
        ["user_id", "created_at", "id"],
    )


def _make_events() -> None:
    op.create_table(
        "debate_events",
        sa.Column("debate_run_id", UUID, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_type", sa.String(length=50), nullable=False),
        sa.Column("entry_hash", SHA256, nullable=False),
        sa.Column("entry", sa.LargeBinary(), nullable=False),
        _is_sha256("debate_events", "entry_hash"),
        sa.CheckConstraint("seq >= 0", name=op.f("ck_debate_events_seq")),
        _of_a_run("debate_events"),
        sa.PrimaryKeyConstraint("debate_run_id", "seq", name=op.f("pk_debate_events")),
    )


def _make_evaluations() -> None:
    table = "debate_evaluations"
    op.create_table(
        table,
        sa.Column("debate_run_id", UUID, nullable=False),
        sa.Column("artefact_sha256", SHA256, nullable=False),
        sa.Column("evaluator", sa.String(length=20), nullable=False),
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        _is_sha256(table, "artefact_sha256"),
        sa.CheckConstraint(
            "sha256 = encode(sha256(document), 'hex')", name=op.f(f"ck_{table}_sha256")
        ),
        _of_a_run(table),
        sa.PrimaryKeyConstraint(
            "debate_run_id", "artefact_sha256", "evaluator", name=op.f(f"pk_{table}")
        ),
    )


def _is_sha256(table: str, column: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} ~ '^[0-9a-f]{{64}}$'", name=op.f(f"ck_{table}_{column}"))


def _of_a_run(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["debate_run_id"], ["debate_runs.id"], name=op.f(f"fk_{table}_debate_run_id")
    )


def _refuse(table: str, events: str) -> None:
    op.execute(
        f"CREATE TRIGGER refuse_change BEFORE {events} ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change()"
    )
