"""The errors of the service: one class for each decision that a caller can take."""

from collections.abc import Sequence
from typing import NamedTuple


class BackendError(Exception):
    """Base of every error that the service raises on purpose; `code` is stable."""

    code: str = "service-error"


class SettingsError(BackendError):
    """The environment configures no service that may start. Names variables, never their values."""

    code = "settings-invalid"


class EmbeddedServerError(BackendError):
    """The private PostgreSQL cannot be started, or is not the one that belongs here."""

    code = "embedded-database"


class DatabaseRoleError(BackendError):
    """The database role of the service could get round what the database enforces."""

    code = "database-role"


class MigrationError(BackendError):
    """The database's schema is not the one that this version works with."""

    code = "migration"


class SigningKeysError(BackendError):
    """The keys that sign tokens are missing, open to others, or not the keys of this format."""

    code = "signing-keys"


class NotReadyError(BackendError):
    """Something that the service needs does not answer now; the same request may succeed soon."""

    code = "not-ready"


class RequestViolation(NamedTuple):
    """One thing that is wrong with a request. Says what was expected; never holds the value."""

    pointer: str
    """Into the body a JSON pointer (RFC 6901); `query:name`, `path:name` or `header:name`."""
    rule: str
    detail: str


class RequestInvalidError(BackendError):
    """A request does not have the shape that its endpoint requires; all violations are listed."""

    code = "validation-error"

    def __init__(self, violations: Sequence[RequestViolation]) -> None:
        super().__init__("\n".join(f"{one.pointer}: {one.detail}" for one in violations))
        self.violations = tuple(violations)


class RequestRefusedError(BackendError):
    """A request is understood and refused; `code` is the slug of its kind of problem."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnauthenticatedError(BackendError):
    """The request has no valid credential. The reason is for the log alone."""

    code = "unauthenticated"


class DecisionError(BackendError):
    """The operator's decision does not fit the state of the construct id."""

    code = "construct-decision"


class RateLimitedError(BackendError):
    """A client sends more requests than are allowed; it may retry after `retry_after` seconds."""

    code = "rate-limited"
    retry_after: int = 1

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EvidenceStoreError(BackendError):
    """The evidence store does not answer, or takes nothing now; the same may succeed soon."""

    code = "evidence-store"


class LogUnavailableError(BackendError):
    """Log or key of certificates sign nothing now; the same may succeed soon."""

    code = "log-unavailable"


class EvidenceDamagedError(BackendError):
    """An object of the evidence store is missing or has other bytes; `found` is their SHA-256."""

    code = "evidence-damaged"

    def __init__(self, message: str, *, found: str | None) -> None:
        """Take the message; `found` is None for a missing object."""
        super().__init__(message)
        self.found = found


class DebateRefusedError(BackendError):
    """A debate, or what is to be appended to one, is not valid; all violations are listed."""

    code = "debate-invalid"

    def __init__(self, violations: Sequence[RequestViolation]) -> None:
        super().__init__(f"expected a valid debate, got {len(violations)} error(s)")
        self.violations = tuple(violations)


class BudgetSpentError(BackendError):
    """What a user's run may spend on judges does not cover its next call: the run waits."""

    code = "budget-spent"


class JudgeKeyRefusedError(BackendError):
    """The operator's key for a judge is refused, or gone: the run waits for another one."""

    code = "judge-key-refused"


class BudgetError(BackendError):
    """A budget is less than what is spent and reserved of it."""

    code = "budget"


class BackupError(BackendError):
    """A backup cannot be taken, or cannot be restored here."""

    code = "backup"
