"""Turns: requests that keep connections for long, or need a second one, are few at a time.

Else so many of them as there are connections would wait for one another, and everybody for them
(docs/adr/0091).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from backend.api.service import get_service
from backend.errors import NotReadyError

_PATIENCE_SECONDS = 20.0


async def acquire_admission(request: Request) -> AsyncIterator[None]:
    """Wait for a turn and keep it until the transaction that comes after this is over.

    NotReadyError where none comes. A route reads its body before: who sends slowly has no turn.
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


# Taken before the transaction, which is asked for later, and given back after it.
Admission = Annotated[None, Depends(acquire_admission, scope="function")]
