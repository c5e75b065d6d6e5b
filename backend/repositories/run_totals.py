"""How many theatres are where, and what their runs came to: of all processes, from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from backend.database.models import Theatre


class RunTotals(NamedTuple):
    """The theatres that agree in state, status of the run, and outcome; and their episodes."""

    state: str
    run_status: str | None
    outcome: str | None
    theatres: int
    episodes: int
    failures: int
    refusals: int


async def run_totals(connection: AsyncConnection) -> Sequence[RunTotals]:
    """Return the totals of every combination that there is."""
    return [RunTotals._make(row) for row in await connection.execute(_TOTALS)]


_ALIKE = (Theatre.state, Theatre.run_status, Theatre.outcome)
_TOTALS = select(
    *_ALIKE,
    func.count(),
    func.sum(Theatre.progress),
    func.sum(Theatre.failure_count),
    func.sum(Theatre.refused_count),
).group_by(*_ALIKE)
