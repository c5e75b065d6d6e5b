"""Several episodes at a time, and the failure_outcome stop in dataset order whatever the arrival.

Source: docs/contract/construct.md §5; docs/contract/scoring.md on the stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import SteadyClock
from theatre.engine.coin import Draws
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import JournalError, RunStoppedError
from theatre.engine.models import GroundTruthEpisode, Judge, read_episodes
from theatre.engine.replay.context import (
    EpisodePair,
    OpenDatasets,
    Progress,
    RunContext,
    RunJournal,
    RunSettings,
    failure_stop,
    pair_in_order,
)
from theatre.engine.replay.episode import (
    CalledEpisode,
    EpisodeCaller,
    JudgedCaller,
    RoundOrder,
    wrap_in_shape_check,
)
from theatre.engine.replay.recording import BatchWriter, Recorder, failure_of, last_latency
from theatre.engine.replay.usage import usage_of
from theatre.engine.scoring import FailureStop, TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate


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
        self._limit = limit
        self._stop = stop
        self._call = call
        self._record = record
        self._is_stopping = is_stopping
        self.cut_short = False
        self._reading = asyncio.Lock()
        self._calling: set[asyncio.Task[None] | None] = set()
        self._reached = 0
        self._next = 1
        self._early: dict[int, int] = {}

    async def run(self, pairs: AsyncIterator[EpisodePair]) -> None:
        """Call for every episode without a result, until the stop.

        Raises what `call` or `record` raised first; the other calls are given up then. Raises
        JournalError where a call ended as cancelled without being cancelled here.
        """
        try:
            async with asyncio.TaskGroup() as group:
                # Each reads its next episode itself: no more are in memory, whatever the dataset.
                for _ in range(self._limit):
                    group.create_task(self._work(pairs))
        except BaseExceptionGroup as errors:
            # The first is the one that ended the others.
            first: BaseException = errors
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from errors
        # A round that was never begun is given up with its episode, and made by the next start.
        self.cut_short = self.cut_short or self._is_stopping()
        if self._next <= self._reached and not self._is_over:
            raise JournalError(
                f"expected an answer or an error for episode {self._next}, got neither: run the "
                "theatre again"
            )

    @property
    def _is_over(self) -> bool:
        return self._stop.stopped or self.cut_short

    async def _work(self, pairs: AsyncIterator[EpisodePair]) -> None:
        """Call for one episode after another, until there is none or the run is over."""
        worker = asyncio.current_task()
        while episode := await self._take(pairs):
            self._calling.add(worker)
            try:
                called = await self._call(episode)
            finally:
                self._calling.discard(worker)
            # Counted in dataset order: a resumed run stops at the same episode.
            self._count(episode.seq, called.failures)
            await self._record(called)

    async def _take(self, pairs: AsyncIterator[EpisodePair]) -> GroundTruthEpisode | None:
        """Return the next episode without a result."""
        async with self._reading:
            while not self._is_over and (pair := await anext(pairs, None)):
                episode, recorded = pair
                self._reached = episode.seq
                if recorded is not None:
                    self._count(episode.seq, recorded.failures)
                # An answer that came meanwhile may have been the one that ends the run.
                elif not self._stop.stopped:
                    self.cut_short = self._is_stopping()
                    if not self.cut_short:
                        return episode
        return None

    def _count(self, seq: int, failures: int) -> None:
        """Count every failure_outcome in order for the stop rule; one that came early waits."""
        self._early[seq] = failures
        while not self._stop.stopped and self._next in self._early:
            self._stop.count(self._early.pop(self._next))
            self._next += 1
        if self._stop.stopped:
            for worker in filter(None, self._calling):
                worker.cancel()


_FEWEST_IN_A_BLOCK = 16
"""Episodes whose repeats are mixed; as many as may be asked at a time, where that is more."""


async def _announced(
    pairs: AsyncIterator[EpisodePair], order: RoundOrder, size: int
) -> AsyncIterator[EpisodePair]:
    """Yield the pairs again, each block of `size` episodes once its order is known."""
    block: list[EpisodePair] = []
    async for pair in pairs:
        block.append(pair)
        if len(block) == size:
            order.announce(episode for episode, recorded in block if recorded is None)
            for one in block:
                yield one
            block = []
    order.announce(episode for episode, recorded in block if recorded is None)
    for one in block:
        yield one


class CallingPass:
    """Calls the committed constructs for every episode that is not recorded, in dataset order."""

    def __init__(
        self,
        *,
        receipt: CommitmentReceipt,
        template: ProductTheatreTemplate,
        provider: TheatreScoringProvider,
        journal: RunJournal,
        context: RunContext,
        clock: SteadyClock,
        settings: RunSettings,
        judge: Judge | None,
    ) -> None:
        self._receipt = receipt
        self._template = template
        self._provider = provider
        self._journal = journal
        self._context = context
        self._clock = clock
        self._settings = settings
        self._judge = judge

    async def run(self, datasets: OpenDatasets, draws: Draws) -> None:
        """Make the calls and record them.

        RunStoppedError where the context says that the run is to stop; what was called is
        recorded.
        """
        template, context = self._template, self._context
        committed = template.execution_policy.max_concurrency
        at_a_time = limit = min(committed, self._settings.concurrency_limit or committed)
        block = max(_FEWEST_IN_A_BLOCK, committed)
        order = None
        if template.execution_policy.repeats > 1:
            repeats = template.execution_policy.repeats
            order = RoundOrder(
                draws=draws, repeats=repeats, limit=limit, is_stopping=context.is_stopping
            )
            # Open episodes: a whole block, and those of the block before that are still asked.
            limit += block
        gold = datasets.gold_labels(template.product_theatre_config.gold_label_dataset_id)
        caller = self._caller(datasets, draws, gold, order, at_a_time)
        recorder = Recorder(self._journal, provider=self._provider, gold=gold, clock=self._clock)
        done, total = len(await self._journal.recorded()), datasets.replay.lines_total
        context.on_progress(Progress(done=done, total=total))
        async with BatchWriter(
            recorder.record,
            # With all callers waiting, no more than a batch is held back.
            size=max(1, self._settings.batch_size - limit + 1),
            max_age=self._settings.batch_seconds,
            sleep=context.sleep,
        ) as writer:

            async def record(called: CalledEpisode) -> None:
                nonlocal done
                done += 1
                context.on_progress(
                    Progress(
                        done=done,
                        total=total,
                        status=called.answer.status,
                        latency_ms=last_latency(called.record),
                        used=usage_of(cast("list[JsonObject]", called.record["calls"])),
                        failure=failure_of(called),
                    )
                )
                await writer.put(called)

            dispatcher = Dispatcher(
                limit=limit,
                stop=failure_stop(template, total),
                call=caller.call,
                record=record,
                is_stopping=context.is_stopping,
            )
            episodes = read_episodes(datasets.replay.lines())
            pairs = pair_in_order(episodes, self._journal.results())
            await dispatcher.run(pairs if order is None else _announced(pairs, order, block))
        if dispatcher.cut_short or context.is_stopping():
            raise RunStoppedError("expected to settle what was called, got asked to stop before")

    def _caller(
        self,
        datasets: OpenDatasets,
        draws: Draws,
        gold: Mapping[str, JsonObject],
        order: RoundOrder | None,
        at_a_time: int,
    ) -> EpisodeCaller | JudgedCaller:
        template, context = self._template, self._context
        size = template.execution_policy.deterministic_sample
        ids = (episode.episode_id for episode in read_episodes(datasets.replay.lines()))
        caller = EpisodeCaller(
            theatre_id=self._receipt.theatre_id,
            template=template,
            adapters=wrap_in_shape_check(template.hops, context.adapters, context.registry),
            invoke=context.invoke,
            clock=self._clock,
            sanitiser=context.sanitiser_for(template),
            draws=draws,
            repeated=order or draws.repeated(ids, size),
            runner=context.runner_for(template),
        )
        if self._judge is None:
            return caller
        return JudgedCaller(
            caller,
            provider=self._provider,
            judge=self._judge,
            draws=draws,
            gold=gold,
            limit=at_a_time,
        )
