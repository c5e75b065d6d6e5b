"""Ids of rows: UUIDs of version 7 (RFC 9562 §5.7), which sort by the time they were made."""

import secrets
from datetime import datetime
from uuid import UUID


def new_id(at: datetime) -> str:
    """Return a UUIDv7 of the moment `at`, to the millisecond, with 74 random bits."""
    milliseconds = int(at.timestamp() * 1000)
    value = milliseconds << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    value |= 0b10 << 62 | secrets.randbits(62)
    return str(UUID(int=value))
