"""A private, real PostgreSQL for a service that was given no database (docs/adr/0075)."""

from backend.database.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
