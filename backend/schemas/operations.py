"""What operators and their programs ask."""

from __future__ import annotations

from typing import Literal

from backend.schemas.base import ResponseDocument


class Alive(ResponseDocument):
    """The process answers."""

    status: Literal["alive"]


class Ready(ResponseDocument):
    """Everything that requests need answers; degraded where only some of them can be served."""

    status: Literal["ready", "degraded"]
    checks: list[str]
    failing: list[str]
    """What is away, so that runs wait and some requests are refused; the rest is served."""


class VersionDocument(ResponseDocument):
    """Which release this is, and which revision its database has."""

    version: str
    migration: str
