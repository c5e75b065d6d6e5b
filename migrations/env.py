"""Called by alembic: hands it the connection of `backend.database.migrations`, or makes one."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from backend.database.models import Base
from backend.database.sessions import owner_engine
from backend.errors import SettingsError
from backend.settings import Settings

_OTHERS = "procrastinate_"
"""The tables of the job queue: not ours to compare."""


def migrate(connection: Connection) -> None:
    """Run what alembic was asked for, all of it in one transaction."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_name=lambda name, *_: not (name or "").startswith(_OTHERS),
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def address() -> str:
    """Return the database that the environment names, as the role that owns its tables."""
    settings = Settings.from_environment()
    given = settings.migration_url or settings.database_url
    if given is None:
        raise SettingsError("expected ECHELON_MIGRATION_URL or ECHELON_DATABASE_URL, got neither")
    return given.get_secret_value()


given_connection = context.config.attributes.get("connection")
if given_connection is not None:
    migrate(given_connection)
else:
    with owner_engine(address()).connect() as own_connection:
        migrate(own_connection)
