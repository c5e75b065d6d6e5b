"""The whole schema: our tables (`initial.sql`) and the job queue (docs/adr/0114).

The queue's tables, types and functions come from procrastinate's own SQL. It is fixed by its hash:
another release of procrastinate needs a revision of its own here, or no two databases are alike.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

from alembic import op

from backend.errors import MigrationError

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

QUEUE_SHA256 = "c70ec4b400a60ad9592787653aae5ae77ae41bf801d56b5bd2712751a07f2009"
QUEUE_GRANTS = """
GRANT SELECT, INSERT, DELETE, UPDATE ON procrastinate_jobs TO echelon_app;
GRANT SELECT, INSERT, DELETE, UPDATE (job_id) ON procrastinate_periodic_defers TO echelon_app;
GRANT SELECT, INSERT, DELETE, UPDATE (last_heartbeat) ON procrastinate_workers TO echelon_app;
GRANT SELECT, INSERT ON procrastinate_events TO echelon_app;
GRANT USAGE ON procrastinate_jobs_id_seq, procrastinate_periodic_defers_id_seq,
    procrastinate_events_id_seq, procrastinate_workers_id_seq TO echelon_app;
"""


def upgrade() -> None:
    """Make everything that the service needs in an empty database."""
    ours = Path(__file__).parents[1] / "initial.sql"
    # Neither SQLAlchemy nor the driver may look for parameters in SQL that has per cent signs.
    cursor = op.get_bind().connection.cursor()
    for script in (ours.read_text(encoding="utf-8"), _queue_sql(), QUEUE_GRANTS):
        cursor.execute(script)
    cursor.close()


def _queue_sql() -> str:
    sql = files("procrastinate").joinpath("sql", "schema.sql").read_bytes()
    seen = hashlib.sha256(sql).hexdigest()
    if seen != QUEUE_SHA256:
        raise MigrationError(
            f"expected the schema of procrastinate 3.10 ({QUEUE_SHA256}), got {seen}: install "
            "the release that requirements.lock names"
        )
    return sql.decode()
