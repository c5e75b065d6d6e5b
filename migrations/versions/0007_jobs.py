"""The job queue, what a run says of its job, and the announcement of every change (docs/adr/0114).

The queue's tables, types and functions come from procrastinate's own SQL. It is fixed by its hash:
another release of procrastinate needs a revision of its own here, or no two databases are alike.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

import sqlalchemy as sa
from alembic import op

from backend.errors import MigrationError

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
SCHEMA_SHA256 = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"

ANNOUNCE = """
CREATE FUNCTION echelon_announce_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('echelon_theatres', NEW.id::text);
    RETURN NULL;
END $$
"""
ANNOUNCE_UPDATES = """
CREATE TRIGGER announce_theatre AFTER UPDATE ON theatres
FOR EACH ROW EXECUTE FUNCTION echelon_announce_theatre()
"""

GRANTS = f"""
GRANT SELECT, INSERT, DELETE, UPDATE ON procrastinate_jobs TO {APPLICATION};
GRANT SELECT, INSERT, DELETE, UPDATE (job_id) ON procrastinate_periodic_defers TO {APPLICATION};
GRANT SELECT, INSERT, DELETE, UPDATE (last_heartbeat) ON procrastinate_workers TO {APPLICATION};
GRANT SELECT, INSERT ON procrastinate_events TO {APPLICATION};
GRANT USAGE ON procrastinate_jobs_id_seq, procrastinate_periodic_defers_id_seq,
    procrastinate_events_id_seq, procrastinate_workers_id_seq TO {APPLICATION};
GRANT UPDATE (run_job_id, lost_workers) ON theatres TO {APPLICATION}
"""

DROP_QUEUE = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT oid::regclass AS name FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
                AND starts_with(relname, 'procrastinate_') LOOP
        EXECUTE format('DROP TABLE %s CASCADE', one.name);
    END LOOP;
    FOR one IN SELECT oid::regprocedure AS name FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace
                AND starts_with(proname, 'procrastinate_') LOOP
        EXECUTE format('DROP FUNCTION %s CASCADE', one.name);
    END LOOP;
    FOR one IN SELECT oid::regtype AS name FROM pg_type
            WHERE typnamespace = 'public'::regnamespace AND typtype IN ('c', 'e')
                AND starts_with(typname, 'procrastinate_') LOOP
        EXECUTE format('DROP TYPE %s CASCADE', one.name);
    END LOOP;
END $$
"""


def upgrade() -> None:
    """Make the queue, and what the service needs of it."""
    # Neither SQLAlchemy nor the driver may look for parameters in it.
    cursor = op.get_bind().connection.cursor()
    cursor.execute(_queue_sql())
    cursor.close()
    op.add_column("theatres", sa.Column("run_job_id", sa.BigInteger(), nullable=True))
    op.add_column(
        "theatres", sa.Column("lost_workers", sa.Integer(), server_default="0", nullable=False)
    )
    op.create_index(
        "ix_theatres_unfinished",
        "theatres",
        ["run_status"],
        postgresql_where=sa.text("run_status IN ('queued', 'running')"),
    )
    op.execute(ANNOUNCE)
    op.execute(ANNOUNCE_UPDATES)
    for grant in GRANTS.split(";"):
        op.execute(grant)


def downgrade() -> None:
    """Drop the queue, with the jobs that are in it."""
    op.execute("DROP FUNCTION echelon_announce_theatre() CASCADE")
    op.drop_index("ix_theatres_unfinished", "theatres")
    op.drop_column("theatres", "lost_workers")
    op.drop_column("theatres", "run_job_id")
    op.execute(DROP_QUEUE)


def _queue_sql() -> str:
    sql = files("procrastinate").joinpath("sql", "schema.sql").read_bytes()
    seen = hashlib.sha256(sql).hexdigest()
    if seen != SCHEMA_SHA256:
        raise MigrationError(
            f"expected the schema of procrastinate 3.10 ({SCHEMA_SHA256}), got {seen}: install "
            "the release that requirements.lock names"
        )
    return sql.decode()
