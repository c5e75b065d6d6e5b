"""Several episodes at a time, and the failure_outcome stop in dataset order whatever the arrival.

Source: docs/contract/construct.md §5; docs/contract/scoring.md on the stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from theatre.engine.errors import JournalError
from theatre.engine.models import EpisodeOutcome, EpisodeResult, GroundTruthEpisode
from theatre.engine.replay.calls import CalledEpisode
from theatre.engine.scoring import FailureStop

_Pairs = AsyncIterator[tuple[GroundTruthEpisode, EpisodeResult | None]]


class Dispatcher:
    """Makes the calls of one run, at most `limit` at a time, and records them on arrival.

    `call` asks the construct; `record` keeps an answer, and is waited for before the next call
    takes the place of this one. Where the stop comes, calls that are still out are given up,
    and answers that are in have been kept. Once `is_stopping` returns true no call begins; those
    that are out are waited for, and `cut_short` says whether episodes were left out.
    """

    def __init__(
        self,
        *,
        limit: int,
        stop: FailureStop,
        call: Callable[[GroundTruthEpisode], Awaitable[CalledEpisode]],
        record: Callable[[CalledEpisode], Awaitable[None]],
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._stop = stop
        self._call = call
        self._record = record
        self._is_stopping = is_stopping
        self.cut_short = False
        self._calling: set[asyncio.Task[None]] = set()
        self._next = 1
        self._early: dict[int, bool] = {}

    async def run(self, pairs: _Pairs) -> None:
        """Call for every episode without a result, until the stop.

        Raises what `call` or `record` raised first; the other calls are given up then. Raises
        JournalError where a call ended as cancelled without being cancelled here.
        """
        reached = 0
        try:
            async with asyncio.TaskGroup() as group:
                async for episode, recorded in pairs:
                    reached = episode.seq
                    await self._take(group, episode, recorded)
                    if self._is_over:
                        break
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        if self._next <= reached and not self._is_over:
            raise JournalError(
                f"expected an answer or an error for episode {self._next}, got neither: run the "
                "theatre again"
            )

    @property
    def _is_over(self) -> bool:
        return self._stop.stopped or self.cut_short

    async def _take(
        self,
        group: asyncio.TaskGroup,
        episode: GroundTruthEpisode,
        recorded: EpisodeResult | None,
    ) -> None:
        if recorded is not None:
            self._count(episode.seq, failed=recorded.outcome is EpisodeOutcome.MISSING)
            return
        # Before the task is made: so at most `limit` episodes are in memory, whatever the dataset.
        await self._slots.acquire()
        # The answer that freed the place may have been the one that ends the run.
        if self._stop.stopped:
            return
        self.cut_short = self._is_stopping()
        if not self._is_over:
            self._calling.add(group.create_task(self._answer(episode)))

    async def _answer(self, episode: GroundTruthEpisode) -> None:
        task = asyncio.current_task()
        try:
            try:
                called = await self._call(episode)
            finally:
                if task is not None:
                    self._calling.discard(task)
            # Counted in dataset order: a resumed run stops at the same episode.
            self._count(episode.seq, failed=called.failed)
            await self._record(called)
        finally:
            self._slots.release()

    def _count(self, seq: int, *, failed: bool) -> None:
        """Count every failure_outcome in order for the stop rule; one that came early waits."""
        self._early[seq] = failed
        while not self._stop.stopped and self._next in self._early:
            if self._early.pop(self._next):
                self._stop.count(EpisodeOutcome.MISSING)
            self._next += 1
        if self._stop.stopped:
            for task in self._calling:
                task.cancel()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first of the errors of a task group: the one that ended the others."""
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
