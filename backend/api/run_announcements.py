"""Telling the runner of what a transaction has queued, once it is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from backend.api.service import service_of


async def announcing(request: Request) -> AsyncIterator[None]:
    """Have the runner look for queued runs when the transaction that comes after this is over."""
    try:
        yield
    finally:
        service_of(request).runs.announce()


# Left after the transaction, which is asked for later and left before (see `transactions`).
Announced = Annotated[None, Depends(announcing, scope="function")]
