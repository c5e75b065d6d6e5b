"""Credentials and whom they stand for: keys for tools, passwords, principals.

Keys are 256 random bits, shown once. The database keeps their SHA-256.
"""

import asyncio
import hashlib
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

PREFIX = "echelon_key_"
INVITE_PREFIX = "echelon_invite_"
_KEY = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)


def new_api_key() -> str:
    """Return a new key: the prefix, by which scanners for secrets know it, and 43 characters."""
    return PREFIX + secrets.token_urlsafe(32)


def is_api_key(credential: str) -> bool:
    """Tell whether a bearer credential has the form of a key."""
    return _KEY.fullmatch(credential) is not None


def new_invite() -> str:
    """Return the code of a new invite: a prefix and 43 characters."""
    return INVITE_PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """Return the hash of a key or an invite: for 256 random bits a fast one is enough."""
    return hashlib.sha256(key.encode()).hexdigest()


# Passwords: argon2id with the parameters of RFC 9106 §4 for little memory, two at a time.


_AT_ONCE = 2
"""A hash takes 64 MiB: many log-ins at once must wait, and other requests must not."""


class Passwords:
    """Hashes and checks passwords in threads, one instance a process."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turn = asyncio.Semaphore(_AT_ONCE)
        # Checked for unknown users: the response time must not show that a name is unknown.
        self._nobodys = _dummy_hash()

    async def hash(self, password: str) -> str:
        """Return the hash of a password, with its salt and parameters."""
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def match(self, password: str, password_hash: str | None) -> bool:
        """Tell whether this is the password; False for None, after the same time."""
        async with self._turn:
            same = await asyncio.to_thread(self._same, password, password_hash or self._nobodys)
        return same and password_hash is not None

    def _same(self, password: str, password_hash: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False


@cache
def _dummy_hash() -> str:
    """Return a hash with the parameters of all others; making one takes as long as a log-in."""
    return PasswordHasher().hash("nobody's")


# Who sends a request, and what they may do.


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
