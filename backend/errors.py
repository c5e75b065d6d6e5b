"""The errors of the service: one class for each decision that a caller can take."""

from __future__ import annotations

from typing import ClassVar


class BackendError(Exception):
    """Base of every error that the service raises on purpose; `code` is stable."""

    code: ClassVar[str] = "service-error"


class SettingsError(BackendError):
    """The environment does not configure a service that may start. Holds no values, only names."""

    code = "settings-invalid"


class EmbeddedServerError(BackendError):
    """The private PostgreSQL cannot be started, or is not the one that belongs here."""

    code = "embedded-database"


class DatabaseRoleError(BackendError):
    """The database role that the service works as could go round what the database enforces."""

    code = "database-role"


class MigrationError(BackendError):
    """The database's schema is not the one that this version works with."""

    code = "migration"
