"""The calls of a run: every episode that is not recorded.

Source: docs/contract/construct.md §5.
"""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import SteadyClock
from theatre.engine.coin import Draws
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import RunStoppedError
from theatre.engine.models import Judge, read_episodes
from theatre.engine.replay.batching import BatchWriter
from theatre.engine.replay.calls import CalledEpisode, EpisodeCaller
from theatre.engine.replay.dispatch import Dispatcher
from theatre.engine.replay.journal import OpenDatasets, RunJournal
from theatre.engine.replay.judging import JudgedCaller
from theatre.engine.replay.output_spec import wrap_in_shape_check
from theatre.engine.replay.progress import ProgressCount
from theatre.engine.replay.recording import Recorder
from theatre.engine.replay.scoring_pass import failure_stop, pair_in_order
from theatre.engine.replay.surroundings import RunContext, RunSettings
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate


class CallingPass:
    """Calls the committed constructs in dataset order and records what they answer."""

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
        self._limit = settings.concurrency(template.execution_policy.max_concurrency)

    async def run(
        self,
        datasets: OpenDatasets,
        draws: Draws,
    ) -> None:
        """Call for every episode that is not recorded.

        RunStoppedError where the surroundings said that the run is to stop; what was called is
        recorded.
        """
        config = self._template.product_theatre_config
        gold = datasets.gold_labels(config.gold_label_dataset_id)
        caller = self._caller(datasets, draws, gold)
        writer = self._writer(gold)
        progress = await self._progress(datasets)
        async with writer:

            async def record(called: CalledEpisode) -> None:
                progress.count(called)
                await writer.put(called)

            dispatcher = Dispatcher(
                limit=self._limit,
                stop=failure_stop(self._template, datasets.replay.lines_total),
                call=caller.call,
                record=record,
                is_stopping=self._context.is_stopping,
            )
            episodes = read_episodes(datasets.replay.lines())
            await dispatcher.run(pair_in_order(episodes, self._journal.results()))
        if dispatcher.cut_short or self._context.is_stopping():
            raise RunStoppedError("expected to settle what was called, got asked to stop before")

    def _writer(self, gold: Mapping[str, JsonObject]) -> BatchWriter[CalledEpisode]:
        """Return a writer that, with all callers waiting, never holds more than a batch back."""
        recorder = Recorder(self._journal, provider=self._provider, gold=gold, clock=self._clock)
        return BatchWriter(
            recorder.record,
            size=max(1, self._settings.batch_size - self._limit + 1),
            max_age=self._settings.batch_seconds,
            sleep=self._context.sleep,
        )

    async def _progress(self, datasets: OpenDatasets) -> ProgressCount:
        return ProgressCount(
            self._context.on_progress,
            done=len(await self._journal.recorded()),
            total=datasets.replay.lines_total,
        )

    def _caller(
        self, datasets: OpenDatasets, draws: Draws, gold: Mapping[str, JsonObject]
    ) -> EpisodeCaller | JudgedCaller:
        caller = EpisodeCaller(
            theatre_id=self._receipt.theatre_id,
            template=self._template,
            adapters=wrap_in_shape_check(
                self._template.hops, self._context.adapters, self._context.registry
            ),
            invoke=self._context.invoke,
            clock=self._clock,
            sanitiser=self._context.sanitiser_for(self._template),
            draws=draws,
            repeated=self._draw_repeated(datasets, draws),
            runner=self._context.runner_for(self._template),
        )
        if self._judge is None:
            return caller
        return JudgedCaller(caller, provider=self._provider, judge=self._judge, gold=gold)

    def _draw_repeated(self, datasets: OpenDatasets, draws: Draws) -> frozenset[str]:
        size = self._template.execution_policy.deterministic_sample
        if not size:
            return frozenset()
        ids = (episode.episode_id for episode in read_episodes(datasets.replay.lines()))
        return draws.repeated(ids, size)
