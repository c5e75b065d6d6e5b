"""The names of the roles and of the database (docs/adr/0077)."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.errors import DatabaseRoleError

OWNER = "echelon_owner"
"""Owns the tables; only migrations work as this role."""

APPLICATION = "echelon_app"
"""What every session of the service works as: no table is its own."""

DATABASE = "echelon"
"""The database of the embedded server."""


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
