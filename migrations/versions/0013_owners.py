"""Who owns a construct id, as only the operator's own login can write it (docs/adr/0175)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import content_hash

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
CLAIMS, DECISIONS, TEMPLATES = "registered_constructs", "construct_decisions", "theatre_templates"
# The rule is asked of one row after the other, from the newest on, until there are enough.
NEWEST_FIRST = {
    "theatres": ["construct_id", "resolved_at", "id"],
    "theatre_certificates": ["issued_at", "id"],
}
IDENTIFIER = sa.UUID(as_uuid=False)
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table of decisions, which holds the confirmations from now on."""
    op.create_table(
        DECISIONS,
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("construct_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", IDENTIFIER, nullable=False),
        sa.Column("decision", sa.String(length=20), nullable=False),
        sa.Column("decided_at", MOMENT, nullable=False),
        sa.CheckConstraint(
            "decision IN ('confirmed', 'rejected', 'released')",
            name=op.f("ck_construct_decisions_decision"),
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_construct_decisions_user_id")
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_construct_decisions")),
    )
    op.create_index(
        op.f("ix_construct_decisions_construct_id_seq"), DECISIONS, ["construct_id", "seq"]
    )
    op.execute(
        f"INSERT INTO {DECISIONS} (construct_id, user_id, decision, decided_at) "  # noqa: S608
        f"SELECT construct_id, user_id, 'confirmed', confirmed_at FROM {CLAIMS} "
        "WHERE confirmed_at IS NOT NULL ORDER BY confirmed_at"
    )
    op.execute(
        f"CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {DECISIONS} "
        "FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change()"
    )
    op.execute(f"GRANT SELECT ON {DECISIONS} TO {APPLICATION}")
    op.drop_column(CLAIMS, "confirmed_at")
    # A lapsed claim goes to who claims the id next; whose the id is no longer hangs on this table.
    op.execute(f"GRANT UPDATE (user_id, author, created_at) ON {CLAIMS} TO {APPLICATION}")
    _add_content_hashes()
    for table, columns in NEWEST_FIRST.items():
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, columns)


def downgrade() -> None:
    """Drop both; what was confirmed is kept where it was before."""
    for table, columns in NEWEST_FIRST.items():
        op.drop_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table)
    op.drop_column(TEMPLATES, "content_hash")
    op.execute(f"REVOKE UPDATE (user_id, author, created_at) ON {CLAIMS} FROM {APPLICATION}")
    op.add_column(CLAIMS, sa.Column("confirmed_at", MOMENT, nullable=True))
    op.execute(
        f"UPDATE {CLAIMS} SET confirmed_at = decided_at FROM {DECISIONS} "  # noqa: S608
        f"WHERE {DECISIONS}.construct_id = {CLAIMS}.construct_id "
        f"AND {DECISIONS}.user_id = {CLAIMS}.user_id AND decision = 'confirmed' "
        f"AND seq IN (SELECT max(seq) FROM {DECISIONS} GROUP BY construct_id)"
    )
    op.execute(f"GRANT UPDATE (author, confirmed_at) ON {CLAIMS} TO {APPLICATION}")
    op.drop_table(DECISIONS)


def _add_content_hashes() -> None:
    """Have lists ask the database which templates are accepted, which go by this hash."""
    op.add_column(TEMPLATES, sa.Column("content_hash", sa.String(length=64), nullable=True))
    connection = op.get_bind()
    stored = connection.execute(sa.text(f"SELECT sha256, document FROM {TEMPLATES}"))  # noqa: S608
    hashes = [
        {"key": one.sha256, "hash": content_hash(parse_object(bytes(one.document)))}
        for one in stored
    ]
    op.execute(f"ALTER TABLE {TEMPLATES} DISABLE TRIGGER refuse_change")
    if hashes:
        statement = f"UPDATE {TEMPLATES} SET content_hash = :hash WHERE sha256 = :key"  # noqa: S608
        connection.execute(sa.text(statement), hashes)
    op.execute(f"ALTER TABLE {TEMPLATES} ENABLE TRIGGER refuse_change")
    op.alter_column(TEMPLATES, "content_hash", nullable=False)
    op.create_check_constraint(
        op.f("ck_theatre_templates_content_hash"), TEMPLATES, "content_hash ~ '^[0-9a-f]{64}$'"
    )
