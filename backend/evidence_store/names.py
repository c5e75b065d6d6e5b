"""Kinds of objects, and their keys."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from backend.errors import EvidenceDamagedError

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ObjectKind(StrEnum):
    """The kinds of objects, which are the first part of their keys."""

    DATASETS = "datasets"
    BUNDLES = "bundles"
    EXPORTS = "exports"


class StoredObject(NamedTuple):
    """An object as the store lists it; the name is the SHA-256 that its bytes should have."""

    name: str
    size_bytes: int
    stored_at: datetime


def require_sha256(sha256: str) -> str:
    """Return a SHA-256; EvidenceDamagedError for other text, which must not become a key."""
    if not _SHA256.fullmatch(sha256):
        raise EvidenceDamagedError(
            "expected a SHA-256 of 64 lower-case hex digits, got another text", found=None
        )
    return sha256


def key_of(kind: ObjectKind, sha256: str) -> str:
    """Return the key of an object; errors as `require_sha256`."""
    return f"{kind}/{require_sha256(sha256)}"


def require_found(kind: ObjectKind, sha256: str, found: str | None) -> None:
    """Raise EvidenceDamagedError unless the bytes that were found have the hash of their key."""
    if found != sha256:
        raise EvidenceDamagedError(
            f"expected {kind}/{sha256} in the evidence store, got {found or 'none'}", found=found
        )
