"""The calls of one shard, from its row to its last record; nothing is settled here."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.repositories.run_journal import PostgresRunJournal
from backend.repositories.run_shards import ShardClaim
from backend.repositories.theatre_runs import StoredTheatre
from backend.services.held import RunEnd
from backend.services.resources import TheatreResources
from backend.services.run_evidence import RunEvidence
from backend.services.run_watch import RunMonitor
from backend.services.theatre_bridge import datasets_of, open_replay, read_run_coin

CALLED = RunEnd(None)
"""The run's shards carry it, until the last one is given up."""


async def call_shard(
    engine: AsyncEngine,
    stored: StoredTheatre,
    claim: ShardClaim,
    resources: TheatreResources,
    monitor: RunMonitor,
) -> RunEnd:
    """Call for the episodes of a claimed shard that are not recorded; raises as `run_theatre`."""
    if not monitor.is_needed(claim.first_seq):
        return CALLED
    theatre = stored.value()
    await RunEvidence(stored.id, resources).fetch(
        engine, datasets_of(theatre, stored.rehearsal_sha256)
    )
    journal = PostgresRunJournal(engine, stored.id, epoch=stored.run_epoch, shard=claim.fence)
    coin = await read_run_coin(engine, stored.id)
    async with open_replay(
        engine, theatre, coin, journal, stored, resources, monitor, claim=claim
    ) as replay:
        await replay.call(claim.span, is_needed=monitor.is_needed)
    return CALLED
