"""Keys for tools: 256 random bits, shown once. The database keeps their SHA-256."""

from __future__ import annotations

import hashlib
import re
import secrets

PREFIX = "echelon_key_"
_KEY = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)


def new_api_key() -> str:
    """Return a new key: the prefix, by which scanners for secrets know it, and 43 characters."""
    return PREFIX + secrets.token_urlsafe(32)


def is_api_key(credential: str) -> bool:
    """Tell whether a bearer credential has the form of a key."""
    return _KEY.fullmatch(credential) is not None


def hash_key(key: str) -> str:
    """Return the hash that the database stores. A fast one is enough for 256 random bits."""
    return hashlib.sha256(key.encode()).hexdigest()
