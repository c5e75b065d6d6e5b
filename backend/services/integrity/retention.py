"""Retention: removes old idempotency keys, expired API keys and uploads that no template names.

The same hourly task ends theatres that did not begin in time.
"""

import asyncio
import logging
import shutil
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import EvidenceStoreError
from backend.evidence_store import EvidenceStore
from backend.repositories.idempotency import (
    delete_keys,
    delete_uploads,
    find_referenced_datasets,
    forget,
)
from backend.repositories.judge_ledger import forget_answers
from backend.repositories.theatre_runs import find_ended_runs
from backend.services.ground_truth import GroundTruth
from backend.services.resources import TheatreResources
from backend.services.theatres import end_overdue

# Local retention: copies of stored objects, folders of ended runs, refused drafts.


COPY_RETENTION = timedelta(days=1)
"""How long a local copy of an object in the evidence store is kept."""
DRAFT_RETENTION = timedelta(days=30)
"""How long the operator can look into a bundle that the independent check refused."""


async def remove_local_copies(
    engine: AsyncEngine, resources: TheatreResources, *, at: datetime
) -> int:
    """Remove local files that can be fetched again or are past their retention; return how many."""
    before = at - COPY_RETENTION
    copies = await asyncio.to_thread(resources.store.remove_local, before=before)
    # A reading of ground truth ends long before that.
    readings = resources.repositories.desk
    left = await asyncio.to_thread(_find_old_desks, readings, before)
    await asyncio.to_thread(_remove_copy, readings, left)
    drafts = await asyncio.to_thread(_find_old_desks, resources.drafts, at - DRAFT_RETENTION)
    await asyncio.to_thread(_remove_copy, resources.drafts, drafts)
    copies += len(left) + len(drafts)
    desks = await asyncio.to_thread(_find_old_desks, resources.desk, before)
    if not desks:
        return copies
    async with engine.connect() as connection:
        ended = await find_ended_runs(connection, desks)
    await asyncio.to_thread(_remove_copy, resources.desk, ended)
    return copies + len(ended)


def _find_old_desks(folder: Path, moment: datetime) -> frozenset[str]:
    found = folder.glob("*")
    return frozenset(one.name for one in found if one.stat().st_mtime <= moment.timestamp())


def _remove_copy(folder: Path, names: Collection[str]) -> None:
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)


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
    answers: int = 0
    """Of judges, in runs that are over: their evidence has them."""


async def clean_up(
    engine: AsyncEngine, data: GroundTruth, store: EvidenceStore, *, at: datetime
) -> CleanUpReport:
    """Remove what is past its retention at `at`; safe to do twice, or in two processes."""
    async with engine.begin() as connection:
        requests = await forget(connection, at=at)
        keys = await delete_keys(connection, before=at - KEY_RETENTION)
        uploads = await delete_uploads(connection, before=at - UPLOAD_RETENTION)
        answers = await forget_answers(connection)
    copies = await _remove_copies(engine, data, before=at - UPLOAD_RETENTION)
    broken = await asyncio.to_thread(
        store.remove_broken_uploads, before=at - BROKEN_UPLOAD_RETENTION
    )
    return CleanUpReport(requests, keys, uploads, copies, broken, answers)


async def clean_up_periodically(engine: AsyncEngine, resources: TheatreResources) -> None:
    """Clean up now and every hour, without an end."""
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
    unnamed = old - kept
    return await asyncio.to_thread(
        lambda: sum(data.remove(name, before=before) for name in unnamed)
    )


# Whether the evidence store can be written to: probed every few seconds, answered at once.
#
# A run that waits for the store says so itself. This is for health checks of the process.


EVERY_SECONDS = 5.0


class StoreMonitor:
    """Monitors one store, in a process that uses it."""

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store
        self.trouble: EvidenceStoreError | None = None
        """The last refusal of store or local disk; None after a success."""

    async def monitor(self) -> None:
        """Probe without an end."""
        while True:
            await self._probe()
            await asyncio.sleep(EVERY_SECONDS)

    async def _probe(self) -> None:
        before = self.trouble
        try:
            await asyncio.to_thread(self._store.probe)
        except EvidenceStoreError as error:
            self.trouble = error
        else:
            self.trouble = None
        if self.trouble is not None and before is None:
            _log.warning("evidence store refuses", exc_info=self.trouble)
        elif self.trouble is None and before is not None:
            _log.info("evidence store is back")
