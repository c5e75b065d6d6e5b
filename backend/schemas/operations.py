"""Health, version and other operations."""

from __future__ import annotations

from typing import Literal

from backend.schemas.base import ResponseDocument


class Alive(ResponseDocument):
    """The process answers."""

    status: Literal["alive"]


class ClosedTo(ResponseDocument):
    """What the operator's programs cannot reach here, as probed when the process began."""

    files: bool
    processes: bool
    network: bool
    by: Literal["namespaces", "landlock", "other-user", "remote", "none"]


class ReadyDetails(ResponseDocument):
    """Facts about this machine that decide what it can be asked."""

    isolation: ClosedTo


class Ready(ResponseDocument):
    """Everything that requests need answers; degraded where only some of them can be served."""

    status: Literal["ready", "degraded"]
    checks: list[str]
    failing: list[str]
    """What is away, so that runs wait and some requests are refused; the rest is served."""
    details: ReadyDetails


class VersionDocument(ResponseDocument):
    """Which release this is, and which revision its database has."""

    version: str
    migration: str
