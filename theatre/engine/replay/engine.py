"""The replay loop: from a committed theatre to a resolved one, and on from wherever it stopped.

Source: spec/theatre-context.md, "Replay Theatres"; design §3. Every step is repeatable: a run
that died is run again with the same journal and does only what is not recorded yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import DatasetMismatchError, InvalidTransitionError
from theatre.engine.models import (
    EpisodeResult,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.replay.batching import BatchWriter
from theatre.engine.replay.calls import EpisodeCaller
from theatre.engine.replay.events import batch_events, last_latency
from theatre.engine.replay.journal import OpenDatasets, RunJournal
from theatre.engine.replay.preflight import check_adapters, refuse_rehearsal, refuse_unsupported
from theatre.engine.replay.recovery import events_kept_back, sealed_run
from theatre.engine.replay.scoring_pass import failure_stop, pair_in_order
from theatre.engine.replay.sealed_run import SealedRun
from theatre.engine.replay.settlement import Settlement
from theatre.engine.replay.surroundings import Progress, RunSettings, Surroundings
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import product_template
from theatre.engine.theatre import Theatre


class ReplayEngine:
    """Runs one committed theatre over its journal."""

    def __init__(
        self,
        theatre: Theatre,
        journal: RunJournal,
        surroundings: Surroundings,
        settings: RunSettings,
    ) -> None:
        """Check all that can be checked before a call.

        Raises InvalidTransitionError for a theatre that is not committed or already resolved,
        ProgrammeError, PinMismatchError, UnknownScorerError and RehearsalAdapterError for what
        cannot be run as committed.
        """
        self._theatre = theatre
        self._journal = journal
        self._around = surroundings
        self._settings = settings
        self._receipt = theatre.commitment
        if theatre.state in {TheatreState.RESOLVED, TheatreState.ARCHIVED}:
            raise InvalidTransitionError(
                f"expected a theatre that is still to run, got one in {theatre.state}"
            )
        self._template = product_template(self._receipt.template_snapshot)
        refuse_unsupported(self._template)
        check_adapters(
            self._template, surroundings.adapters, certificate_run=settings.certificate_run
        )
        self._provider = TheatreScoringProvider(
            self._receipt.template_snapshot, surroundings.scorers
        )

    async def run(self) -> Theatre:
        """Run to the end and return the RESOLVED theatre; the outcome is in its last event.

        A bundle that an earlier process sealed is taken as it is, whatever became of the data.
        A dataset that is missing or changed before the first call raises DatasetError and
        leaves the state COMMITTED; one that changed in the middle resolves the theatre as
        failed.
        """
        earlier = await sealed_run(self._settings.output_dir, self._receipt, self._journal)
        if earlier is not None:
            await self._resolve(earlier)
            return self._theatre
        try:
            with self._open_datasets() as datasets:
                if self._theatre.state is TheatreState.COMMITTED:
                    await self._activate(datasets)
                if self._theatre.state is TheatreState.ACTIVE:
                    await self._invoke_all(datasets)
                    await self._move(self._theatre.settle(at=self._now(), detail={}))
                await self._resolve(await self._seal(datasets))
        except DatasetMismatchError as error:
            if self._theatre.state is TheatreState.COMMITTED:
                raise
            await self._fail(error)
        return self._theatre

    @contextlib.contextmanager
    def _open_datasets(self) -> Iterator[OpenDatasets]:
        config, hashes = self._template.product_theatre_config, self._template.dataset_hashes
        with contextlib.ExitStack() as stack:
            readers = {}
            for name, path in config.data_paths().items():
                readers[name] = self._around.datasets.open(path, sha256=hashes[name])
                stack.callback(readers[name].close)
            replay = readers.pop(config.replay_dataset_id)
            yield OpenDatasets(replay=replay, others=readers)

    async def _activate(self, datasets: OpenDatasets) -> None:
        detail: JsonObject = {
            "episodes": datasets.replay.lines_total,
            "adapters": {name: adapter.pin for name, adapter in self._around.adapters.items()},
            "scorers": dict(self._provider.scorer_pins),
        }
        await self._move(self._theatre.activate(at=self._now(), detail=detail))

    async def _invoke_all(self, datasets: OpenDatasets) -> None:
        """Call the construct for every episode that is not recorded, in dataset order."""
        await self._report_kept_back()
        caller = self._caller()
        gold = self._gold_labels(datasets)
        total = datasets.replay.lines_total
        stop = failure_stop(self._template, total)
        episodes = read_episodes(datasets.replay.lines())
        async with self._writer() as writer:
            done = await self._journal.recorded()
            self._around.on_progress(Progress(done=len(done), total=total))
            async for episode, recorded in pair_in_order(episodes, self._journal.results()):
                result = recorded
                if result is None:
                    result = await caller.call(episode, self._provider, gold)
                    await writer.put(result)
                    self._report(result, episode.seq, total)
                stop.count(result.outcome)
                if stop.stopped:
                    break

    def _writer(self) -> BatchWriter:
        return BatchWriter(
            self._flush,
            size=self._settings.batch_size,
            max_age=self._settings.batch_seconds,
            sleep=self._around.sleep,
        )

    async def _flush(self, results: Sequence[EpisodeResult]) -> None:
        await self._journal.append(results, batch_events(results, at=self._timestamp()))

    async def _report_kept_back(self) -> None:
        events = await events_kept_back(self._journal, at=self._timestamp())
        if events:
            await self._journal.append([], events)

    def _caller(self) -> EpisodeCaller:
        step = next(s for s in self._template.programme if s.type == "construct_invocation")
        construct_id = step.construct_id or ""
        return EpisodeCaller(
            theatre_id=self._theatre.theatre_id,
            template=self._template,
            step=step,
            adapter=self._around.adapters[construct_id],
            invoke=self._around.invoke,
            clock=self._around.clock,
        )

    def _gold_labels(self, datasets: OpenDatasets) -> Mapping[str, JsonObject]:
        name = self._template.product_theatre_config.gold_label_dataset_id
        reader = datasets.others.get(name)
        return {} if reader is None else read_gold_labels(reader.lines())

    def _report(self, result: EpisodeResult, done: int, total: int) -> None:
        self._around.on_progress(
            Progress(done=done, total=total, status=result.status, latency_ms=last_latency(result))
        )

    async def _seal(self, datasets: OpenDatasets) -> SealedRun:
        settlement = Settlement(
            template=self._template,
            receipt=self._receipt,
            provider=self._provider,
            registry=self._around.registry,
            history=self._around.history,
            issuer=self._settings.issuer,
            output_dir=self._settings.output_dir,
        )
        if self._settings.certificate_run:
            for adapter in self._around.adapters.values():
                refuse_rehearsal(adapter)
        return await settlement.seal(
            self._journal,
            datasets,
            resolved_at=self._now(),
            certificate_run=self._settings.certificate_run,
        )

    async def _resolve(self, run: SealedRun) -> None:
        if run.sealed_event is not None and not run.already_noted:
            await self._journal.note(run.sealed_event)
        await self._move(self._theatre.resolve(at=self._now(), detail=run.outcome()))

    async def _fail(self, error: DatasetMismatchError) -> None:
        if self._theatre.state is TheatreState.ACTIVE:
            await self._move(self._theatre.settle(at=self._now(), detail={"reason": error.code}))
        detail: JsonObject = {
            "outcome": "failed",
            "outcome_reason": error.code,
            "error_detail": str(error),
        }
        await self._move(self._theatre.resolve(at=self._now(), detail=detail))

    async def _move(self, step: tuple[Theatre, AuditEvent]) -> None:
        """Make a transition durable first, then believe it."""
        theatre, event = step
        await self._journal.note(event)
        self._theatre = theatre

    def _now(self) -> datetime:
        return self._around.clock()

    def _timestamp(self) -> str:
        return format_rfc3339(self._around.clock())
