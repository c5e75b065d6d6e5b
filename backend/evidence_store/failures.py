"""What stores and disks refuse, told as one kind of error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from obstore.exceptions import BaseError

from backend.errors import EvidenceStoreError


@contextlib.contextmanager
def wrap_store_errors(action: str) -> Iterator[None]:
    """Raise EvidenceStoreError for whatever the store refuses meanwhile."""
    try:
        yield
    except (BaseError, OSError) as error:
        raise EvidenceStoreError(
            f"expected the evidence store to {action}, got {type(error).__name__}: see that it is "
            "reachable and has room"
        ) from error


@contextlib.contextmanager
def wrap_disk_errors(action: str) -> Iterator[None]:
    """Raise EvidenceStoreError for what the disk refuses; FileNotFoundError stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EvidenceStoreError(
            f"expected the disk to {action}, got {error.strerror}: make room or mend it"
        ) from error
