"""Connections and their roles.

From one address, an asynchronous engine for the service and a plain one for migrations.
"""

from typing import Any

import psycopg
from sqlalchemy import Dialect, Engine, NullPool, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from backend.errors import DatabaseRoleError, MigrationError

OWNER = "echelon_owner"
"""Owns the tables; only migrations work as this role."""

APPLICATION = "echelon_app"
"""What every session of the service works as: no table is its own."""

DATABASE = "echelon"
"""The database of the embedded server."""

POOL_SIZE = 10
_ACQUIRE_SECONDS = 2.0
_CONNECT_SECONDS = 3
_SESSION = {
    "application_name": "echelon",
    "timezone": "UTC",
    # Whichever role logs in, the session works as the one that owns nothing (docs/adr/0077).
    "role": APPLICATION,
    "statement_timeout": "5s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "10s",
}


def application_engine(address: str, *, pool_size: int = POOL_SIZE) -> AsyncEngine:
    """Return the service's engine: every connection works as the application's role.

    Waits two seconds for a free connection. The caller disposes of it.
    """
    engine = create_async_engine(
        _url(address, "asyncpg"),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_ACQUIRE_SECONDS,
        # The one used last has its statements prepared; in turns, each connection prepares all.
        pool_use_lifo=True,
        # Submitted values must not be in error messages, and so not in logs.
        hide_parameters=True,
        connect_args={"server_settings": _SESSION},
    )
    event.listen(engine.sync_engine, "do_connect", _connect)
    return engine


def _connect(dialect: Dialect, _record: object, given: Any, named: Any) -> DBAPIConnection:  # noqa: ANN401 - as SQLAlchemy has them
    """Connect; ConnectionError for whatever keeps from it: no socket, no such host, no answer."""
    try:
        return dialect.connect(*given, **named)
    except OSError as error:
        raise ConnectionError(f"expected the database to answer, got: {error}") from error


def operator_engine(address: str) -> AsyncEngine:
    """Return an engine for the operator's own commands, working as the role that logs in.

    The caller disposes of it.
    """
    return create_async_engine(_url(address, "asyncpg"), poolclass=NullPool, hide_parameters=True)


def owner_engine(address: str) -> Engine:
    """Return an engine without a pool for migrations, working as the role that logs in."""
    engine = create_engine(_url(address, "psycopg"), poolclass=NullPool)
    event.listen(engine, "do_connect", _connect_in_utf8)
    return engine


def _connect_in_utf8(dialect: Dialect, _record: object, given: Any, named: Any) -> DBAPIConnection:  # noqa: ANN401 - as SQLAlchemy has them
    """Connect; MigrationError for a database in another encoding: not every name fits into it."""
    connection: Any = dialect.connect(*given, **named)
    seen = connection.info.parameter_status("server_encoding")
    if seen != "UTF8":
        connection.close()
        raise MigrationError(
            f"expected a database in UTF8, got one in {seen}: create it with ENCODING 'UTF8'"
        )
    return connection  # type: ignore[no-any-return]


async def listening_connection(address: str) -> psycopg.AsyncConnection:
    """Open one connection of the service that no pool knows; the caller closes it.

    Raises psycopg.Error.
    """
    return await psycopg.AsyncConnection.connect(
        address, options=session_options(), autocommit=True, connect_timeout=_CONNECT_SECONDS
    )


def session_options() -> str:
    """Return the same session settings as libpq takes them, in `options`."""
    return " ".join(f"-c {name}={value}" for name, value in _SESSION.items())


def _url(address: str, driver: str) -> URL:
    return make_url(address).set(drivername=f"postgresql+{driver}")


# Finds a login that could take the application's limits off.


_WHO_LOGGED_IN = text("""
    SELECT session_user, r.rolsuper, EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
            AND pg_has_role(r.oid, c.relowner, 'MEMBER')
    )
    FROM pg_roles r WHERE r.rolname = session_user
""")


async def check_application_role(connection: AsyncConnection) -> None:
    """Raise DatabaseRoleError where who logged in could take the application's limits off.

    Superusers and owners of tables can: they may change role, and drop triggers.
    """
    name, is_superuser, owns = (await connection.execute(_WHO_LOGGED_IN)).one()
    if is_superuser or owns:
        raise DatabaseRoleError(
            f"expected ECHELON_DATABASE_URL to log in as a member of {APPLICATION} that owns "
            f"nothing, got {name}, {'a superuser' if is_superuser else 'an owner of the tables'}: "
            "give that address in ECHELON_MIGRATION_URL"
        )
