"""Retention: removes old idempotency keys, expired API keys and uploads that no template names.

The same hourly task ends theatres that did not begin in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import EvidenceStoreError
from backend.evidence_store import EvidenceStore
from backend.repositories.forgetting import delete_keys, delete_uploads, find_referenced_datasets
from backend.repositories.idempotency import forget
from backend.services.ground_truth import GroundTruth
from backend.services.local_copies import remove_local_copies
from backend.services.resources import TheatreResources
from backend.services.uncalled import end_overdue

KEY_RETENTION = timedelta(days=30)
"""How long the owner still sees an expired or revoked key."""
UPLOAD_RETENTION = timedelta(days=30)
"""How long an upload that no template names is stored."""
BROKEN_UPLOAD_RETENTION = timedelta(days=7)
"""How long the parts of a broken upload to the store wait for a retry."""
EVERY = timedelta(hours=1)
_log = logging.getLogger(__name__)


class CleanUpReport(NamedTuple):
    """How much was removed."""

    requests: int
    keys: int
    uploads: int
    copies: int
    broken_uploads: int


async def clean_up(
    engine: AsyncEngine, data: GroundTruth, store: EvidenceStore, *, at: datetime
) -> CleanUpReport:
    """Remove what is past its retention at `at`; safe to do twice, or in two processes."""
    async with engine.begin() as connection:
        requests = await forget(connection, at=at)
        keys = await delete_keys(connection, before=at - KEY_RETENTION)
        uploads = await delete_uploads(connection, before=at - UPLOAD_RETENTION)
    copies = await _remove_copies(engine, data, before=at - UPLOAD_RETENTION)
    broken = await asyncio.to_thread(
        store.remove_broken_uploads, before=at - BROKEN_UPLOAD_RETENTION
    )
    return CleanUpReport(requests, keys, uploads, copies, broken)


@contextlib.asynccontextmanager
async def clean_up_periodically(
    engine: AsyncEngine, resources: TheatreResources
) -> AsyncIterator[None]:
    """Clean up now and every hour, until the context is left."""
    task = asyncio.create_task(_clean_up_loop(engine, resources))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _clean_up_loop(engine: AsyncEngine, resources: TheatreResources) -> None:
    while True:
        try:
            removed = await clean_up(engine, resources.data, resources.store, at=resources.clock())
            await end_overdue(engine, resources, at=resources.clock())
            await remove_local_copies(engine, resources, at=resources.clock())
        except (SQLAlchemyError, OSError, EvidenceStoreError) as error:
            _log.warning("cleaning up failed", exc_info=error)
        else:
            if any(removed):
                _log.info("cleaned up", extra={"fields": removed._asdict()})
        await asyncio.sleep(EVERY.total_seconds())


async def _remove_copies(engine: AsyncEngine, data: GroundTruth, *, before: datetime) -> int:
    old = await asyncio.to_thread(data.copies_from_before, before)
    if not old:
        return 0
    # Read after the files: a dataset that a row has named since is kept.
    async with engine.connect() as connection:
        kept = await find_referenced_datasets(connection)
    return await asyncio.to_thread(_remove, data, old - kept, before)


def _remove(data: GroundTruth, names: Collection[str], before: datetime) -> int:
    return sum(data.remove(name, before=before) for name in names)
