"""Local retention: copies of stored objects, folders of ended runs, refused drafts."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.repositories.theatre_runs import find_ended_runs
from backend.services.resources import TheatreResources

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
    await asyncio.to_thread(_remove, readings, left)
    drafts = await asyncio.to_thread(_find_old_desks, resources.drafts, at - DRAFT_RETENTION)
    await asyncio.to_thread(_remove, resources.drafts, drafts)
    copies += len(left) + len(drafts)
    desks = await asyncio.to_thread(_find_old_desks, resources.desk, before)
    if not desks:
        return copies
    async with engine.connect() as connection:
        ended = await find_ended_runs(connection, desks)
    await asyncio.to_thread(_remove, resources.desk, ended)
    return copies + len(ended)


def _find_old_desks(folder: Path, moment: datetime) -> frozenset[str]:
    found = folder.glob("*")
    return frozenset(one.name for one in found if one.stat().st_mtime <= moment.timestamp())


def _remove(folder: Path, names: Collection[str]) -> None:
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
