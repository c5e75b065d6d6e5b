"""Admission: requests that hold connections for long, or need a second one, are limited.

Otherwise as many of them as there are connections would wait for each other, and all other
requests for them (docs/design/service.md, "An admission semaphore for long requests").
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from backend.api.http.service import get_service
from backend.errors import NotReadyError

_PATIENCE_SECONDS = 20.0


async def acquire_admission(request: Request) -> AsyncIterator[None]:
    """Wait for the semaphore and hold it until the transaction that follows is over.

    NotReadyError after too long a wait. The body is read before: a slow sender must not hold it.
    """
    turns = get_service(request).admission
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await turns.acquire()
    except TimeoutError:
        raise NotReadyError("expected a turn in time, got none") from None
    try:
        yield
    finally:
        turns.release()


# Acquired before the transaction begins, and released after it.
Admission = Annotated[None, Depends(acquire_admission, scope="function")]
