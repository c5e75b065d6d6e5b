"""Errors of stores and disks, as EvidenceStoreError."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from obstore.exceptions import BaseError

from backend.errors import EvidenceStoreError


@contextlib.contextmanager
def wrap_store_errors(action: str) -> Iterator[None]:
    """Raise EvidenceStoreError for any error of the store in this block."""
    try:
        yield
    except (BaseError, OSError) as error:
        raise EvidenceStoreError(
            f"expected the evidence store to {action}, got {type(error).__name__}: see that it is "
            "reachable and has room"
        ) from error


@contextlib.contextmanager
def wrap_disk_errors(action: str) -> Iterator[None]:
    """Raise EvidenceStoreError for errors of the disk in this block, except FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EvidenceStoreError(
            f"expected the disk to {action}, got {error.strerror}: make room or mend it"
        ) from error
