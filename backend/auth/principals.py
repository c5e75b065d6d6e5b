"""The authenticated user and the scopes of the credential."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a key for tools may do; a token of a user may do all of it."""

    READ = "read"
    """Read what its owner may read."""
    WRITE = "write"
    """Create, commit, run and cancel theatres, and upload datasets."""
    SCORE = "hitl:score"
    """Submit human scores."""
    KEYS = "keys"
    """Make, list and revoke keys."""


EVERY_SCOPE = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user, by a token or a key of theirs."""

    user_id: str
    username: str
    scopes: frozenset[Scope]
