"""The names of the roles and of the database (docs/adr/0077)."""

from __future__ import annotations

OWNER = "echelon_owner"
"""Owns the tables; only migrations work as this role."""

APPLICATION = "echelon_app"
"""What every session of the service works as: no table is its own."""

DATABASE = "echelon"
"""The database of the embedded server."""
