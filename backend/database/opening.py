"""From the settings to a database that can be used: the operator's, or the embedded one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backend.database import migrations
from backend.database.embedded import EmbeddedServer
from backend.database.roles import OWNER
from backend.errors import MigrationError
from backend.settings import Settings


@contextmanager
def open_database(settings: Settings) -> Iterator[str]:
    """Yield the address of a database at the newest revision, for `application_engine`. Blocks.

    The embedded one runs until the end of the `with` statement, and is migrated; the operator's is
    migrated where ECHELON_MIGRATION_URL is given. Raises EmbeddedServerError, and MigrationError
    for an operator's database at another revision.
    """
    if settings.database_url is None:
        with EmbeddedServer(settings.home) as server:
            migrations.upgrade(server.address(OWNER))
            yield server.address()
        return
    if settings.migration_url is not None:
        migrations.upgrade(settings.migration_url.get_secret_value())
    address = settings.database_url.get_secret_value()
    _require_head(address)
    yield address


def _require_head(address: str) -> None:
    expected, seen = migrations.head_revision(), migrations.current_revision(address)
    if seen != expected:
        raise MigrationError(
            f"expected a database at revision {expected}, got {seen or 'an empty one'}: give the "
            "owner of its tables in ECHELON_MIGRATION_URL, or use the release that belongs to it"
        )
