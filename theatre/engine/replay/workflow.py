"""The steps of a programme that run once, in SETTLING: executed, recorded and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from theatre.engine.canonical_json import JsonObject, canonical_json, canonical_line
from theatre.engine.evidence_bundle import EvidenceBundleBuilder
from theatre.engine.replay.computations import EpisodeLines, PlannedComputation, outcome_of
from theatre.engine.replay.context import OpenDatasets, run_in_thread
from theatre.engine.replay.human_review import select_complete_scores
from theatre.engine.replay.programme_trail import HITL_OPENED, OpenedRubric, ProgrammeTrail
from theatre.engine.replay.tier_evidence import CallFacts
from theatre.engine.resolution import (
    AGGREGATION,
    COMPUTATION,
    EPISODE_STEPS,
    INVOCATION,
    Completed,
    Failed,
    ProgrammeStatus,
    ProgrammeStep,
    ResolutionStateMachine,
    StepOutcome,
    StepStatus,
    resolution_document,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import Aggregator, CommittedRating, PanelScores
from theatre.engine.templates import ProductTheatreTemplate

HITL_TIMEOUT = "hitl-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSources:
    """What the steps of one run work on: the calls, the scores, the data."""

    facts: CallFacts
    aggregator: Aggregator
    datasets: OpenDatasets
    episodes: EpisodeLines


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedProgramme:
    """The programme of one template, with what each of its steps needs."""

    template: ProductTheatreTemplate
    computations: Sequence[PlannedComputation]
    ratings: Sequence[CommittedRating]
    registry: SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionResult:
    """How far a programme came: to its end with both documents, to a failure, or to people.

    `rating_files` has the lines of each opened rubric step by path in the bundle.
    """

    machine: ResolutionStateMachine
    aggregate: JsonObject = field(default_factory=dict)
    rating_files: Mapping[str, Sequence[bytes]] = field(default_factory=dict)

    @property
    def status(self) -> ProgrammeStatus:
        """Return where the programme stands."""
        return self.machine.status

    @property
    def resolution(self) -> JsonObject:
        """Return `resolution.json`."""
        return resolution_document(self.machine.results)

    def write(self, builder: EvidenceBundleBuilder) -> None:
        """Write what a programme that came to its end leaves in the bundle."""
        builder.write_document("scores/aggregate.json", self.aggregate)
        builder.write_document("resolution.json", self.resolution)
        for path, lines in self.rating_files.items():
            builder.write_lines(path, lines)

    def failure_outcome(self) -> JsonObject:
        """Return the detail of the `resolved` event of a programme that failed."""
        failed, last = cast("Failed", self.machine.failure), self.machine.results[-1]
        by_step = f"step-failed:{last.step_id}"
        return {
            "outcome": "failed",
            "outcome_reason": HITL_TIMEOUT if failed.reason == HITL_TIMEOUT else by_step,
            "error_detail": f"step {last.step_id}: {failed.reason}: {failed.error_detail}",
        }


class ProgrammeRun:
    """Executes one programme, from the start in every run; nothing is recorded twice."""

    def __init__(
        self,
        programme: CommittedProgramme,
        trail: ProgrammeTrail,
        sources: StepSources,
        now: datetime,
    ) -> None:
        self._programme = programme
        self._planned = {planned.step_id: planned for planned in programme.computations}
        self._ratings = {rating.step_id: rating for rating in programme.ratings}
        self._trail = trail
        self._sources = sources
        self._now = now
        self._panels: dict[str, PanelScores] = {}
        self._computed: JsonObject = {
            planned.step_id: None for planned in programme.computations if planned.in_aggregate
        }
        self._aggregate: JsonObject | None = None

    async def execute(self) -> ResolutionResult:
        """Continue as far as possible.

        Raises JournalError where a step comes to something else than the chain says.
        """
        machine = ResolutionStateMachine(self._programme.template.programme)
        while (step := machine.current) is not None:
            outcome = await self._run_step(step)
            if outcome is None:
                return ResolutionResult(machine=machine)
            settled = len(machine.results)
            machine = machine.advance(step.step_id, outcome)
            for result in machine.results[settled:]:
                if result.type not in EPISODE_STEPS:
                    await self._trail.note_result(result, self._now)
        if machine.failure is not None:
            return ResolutionResult(machine=machine)
        return ResolutionResult(
            machine=machine,
            aggregate=await self._aggregate_once(),
            rating_files={
                f"hitl/{step_id}.jsonl": [canonical_line(line) for line in rubric.scores]
                for step_id, rubric in self._trail.rubrics.items()
            },
        )

    async def _run_step(self, step: ProgrammeStep) -> StepOutcome | None:
        """Return the result of a step; None where people must answer first."""
        if step.type == INVOCATION:
            facts = self._sources.facts
            return Completed(
                {"episodes_recorded": facts.recorded, "episodes_discarded": facts.discarded}
            )
        if step.type == AGGREGATION:
            return Completed({"results_hash": (await self._aggregate_once())["results_hash"]})
        recorded_outcome = self._recorded_outcome(step.step_id)
        if step.type == COMPUTATION:
            outcome = recorded_outcome or await self._run_computation(step.step_id)
            if step.step_id in self._computed and isinstance(outcome, Completed):
                self._computed[step.step_id] = outcome.result["output"]
            return outcome
        return await self._rate(self._ratings[step.step_id], recorded_outcome)

    async def _aggregate_once(self) -> JsonObject:
        """Return the aggregate: made at the first aggregation, or at the end without one."""
        if self._aggregate is None:
            finish = self._sources.aggregator.finish
            self._aggregate = await run_in_thread(finish, self._panels, self._computed)
        return self._aggregate

    def _recorded_outcome(self, step_id: str) -> StepOutcome | None:
        """Return what an earlier run recorded of a step: it is computed once, and expires once."""
        entry = self._trail.settled(step_id)
        if entry is None:
            return None
        result = cast("JsonObject", entry["result"])
        if entry["status"] == StepStatus.COMPLETED.value:
            return Completed(result)
        return Failed(cast("str", result["reason"]), cast("str", result["error_detail"]))

    async def _run_computation(self, step_id: str) -> StepOutcome:
        return await outcome_of(
            self._planned[step_id],
            self._programme.template,
            self._sources.datasets,
            self._sources.episodes,
            self._programme.registry,
        )

    async def _rate(
        self, rating: CommittedRating, recorded_outcome: StepOutcome | None
    ) -> StepOutcome | None:
        rubric = await self._open_rubric(rating)
        panel = select_complete_scores(rubric, rating)
        if isinstance(recorded_outcome, Failed):
            return recorded_outcome
        if len(panel) >= rating.minimum_scorers:
            self._panels[rating.step_id] = panel
            mean = self._sources.aggregator.human_mean(rating, panel)
            return Completed(
                {"items": len(rubric.items), "scorers": len(panel), "human_mean": mean}
            )
        if not rubric.is_expired(self._now):
            return None
        return Failed(
            HITL_TIMEOUT,
            f"expected {rating.minimum_scorers} people with a score for each of "
            f"{len(rubric.items)} items within {canonical_json(rubric.timeout_seconds)} s, "
            f"got {len(panel)}",
        )

    async def _open_rubric(self, rating: CommittedRating) -> OpenedRubric:
        """Return the rubric step with what people answered; open it where it is not."""
        (step,) = (s for s in self._programme.template.programme if s.step_id == rating.step_id)
        detail: JsonObject = {
            "step_id": rating.step_id,
            "items": list(self._sources.aggregator.items(rating)),
            "minimum_scorers": rating.minimum_scorers,
            "scorer_must_not_be_author": rating.scorer_must_not_be_author,
            "timeout_seconds": step.timeout_seconds,
        }
        await self._trail.note(HITL_OPENED, detail, self._now)
        return self._trail.rubrics[rating.step_id]
