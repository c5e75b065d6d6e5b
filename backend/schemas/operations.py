"""What operators and their programs ask."""

from __future__ import annotations

from typing import Literal

from backend.schemas.base import ResponseDocument


class Alive(ResponseDocument):
    """The process answers."""

    status: Literal["alive"]


class Ready(ResponseDocument):
    """Everything that requests need answers."""

    status: Literal["ready"]
    checks: list[str]


class VersionDocument(ResponseDocument):
    """Which release this is, and which revision its database has."""

    version: str
    migration: str
