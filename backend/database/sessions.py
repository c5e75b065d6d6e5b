"""Connections: one address, an asynchronous engine for the service, a plain one for migrations."""

from __future__ import annotations

import psycopg
from sqlalchemy import Engine, NullPool, create_engine, make_url
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from backend.database.roles import APPLICATION

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
    return create_async_engine(
        _url(address, "asyncpg"),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_ACQUIRE_SECONDS,
        # Submitted values must not be in error messages, and so not in logs.
        hide_parameters=True,
        connect_args={"server_settings": _SESSION},
    )


def operator_engine(address: str) -> AsyncEngine:
    """Return an engine for the operator's own commands, working as the role that logs in.

    The caller disposes of it.
    """
    return create_async_engine(_url(address, "asyncpg"), poolclass=NullPool, hide_parameters=True)


def owner_engine(address: str) -> Engine:
    """Return an engine without a pool for migrations, working as the role that logs in."""
    return create_engine(_url(address, "psycopg"), poolclass=NullPool)


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
