"""The steps of a programme that run once, in SETTLING: executed, recorded and written.

Source: docs/contract/template.md §5; docs/contract/evidence.md §8.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, cast

from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_json,
    canonical_line,
    json_type,
)
from theatre.engine.errors import CanonicalisationError, DatasetError, ProgrammeError
from theatre.engine.evidence_bundle import EvidenceBundleBuilder
from theatre.engine.models import (
    JUDGE_SEED,
    JUDGEMENTS,
    REPEATS,
    Computation,
    EpisodeResult,
    GroundTruthEpisode,
)
from theatre.engine.replay.context import OpenDatasets, run_in_thread
from theatre.engine.replay.human_review import select_complete_scores
from theatre.engine.replay.tier_evidence import CallFacts
from theatre.engine.replay.trail import HITL_OPENED, OpenedRubric, ProgrammeTrail
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
from theatre.engine.scoring import Aggregator, CommittedRating, PanelScores, RepeatScores
from theatre.engine.scoring.corrections import LabelledItems
from theatre.engine.scoring.repeats import outcome_of_answer, outputs_of
from theatre.engine.templates import ProductTheatreTemplate, ResolutionStep

# The `deterministic_computation` steps: what each computes, and over what.


EPISODES = "episodes"
"""The value of `over` that stands for the episodes that were run, not for a dataset."""

_INPUT_SPEC = ("computation", "over", "params", "in_aggregate")
_IN_MEMORY_BYTES = 1024 * 1024


class PlannedComputation(NamedTuple):
    """One committed step with the installed computation that it names.

    `in_aggregate`: whether its output is in `scores/aggregate.json`, too.
    """

    step_id: str
    computation: Computation
    over: str
    params: JsonObject
    output_spec: JsonObject
    in_aggregate: bool


def planned_computations(
    template: ProductTheatreTemplate,
    installed: Mapping[str, Computation],
    registry: SchemaRegistry,
) -> tuple[PlannedComputation, ...]:
    """Return the computations of the programme, in order.

    Raises ProgrammeError for one that is not installed, a dataset that the template does not
    name, and params that the computation does not take.
    """
    return tuple(
        _plan(step, template, installed, registry)
        for step in template.programme
        if step.type == COMPUTATION
    )


def _plan(
    step: ResolutionStep,
    template: ProductTheatreTemplate,
    installed: Mapping[str, Computation],
    registry: SchemaRegistry,
) -> PlannedComputation:
    unknown = sorted(step.input_spec.keys() - _INPUT_SPEC)
    if unknown:
        raise ProgrammeError(
            f"step {step.step_id}: expected an input_spec of {', '.join(_INPUT_SPEC)}, "
            f"got {', '.join(unknown):.100}"
        )
    name, over = step.input_spec.get("computation"), step.input_spec.get("over", EPISODES)
    params = step.input_spec.get("params", {})
    computation = installed.get(name) if isinstance(name, str) else None
    if computation is None:
        there = ", ".join(sorted(installed)) or "none"
        raise ProgrammeError(
            f"step {step.step_id}: expected input_spec.computation to name an installed "
            f"computation ({there}), got {name!r:.100}"
        )
    if over not in [EPISODES, *template.product_theatre_config.data_paths()]:
        raise ProgrammeError(
            f"step {step.step_id}: expected input_spec.over to be {EPISODES} or the name of a "
            f"dataset of the template, got {over!r:.100}"
        )
    for violation in registry.validate_inline(computation.params_schema, params):
        raise ProgrammeError(
            f"step {step.step_id}: input_spec.params{violation.pointer}: {violation.detail}"
        )
    return PlannedComputation(
        step_id=step.step_id,
        computation=computation,
        over=over,
        params=params,
        output_spec=step.output_spec,
        in_aggregate=step.input_spec.get("in_aggregate", False),
    )


class EpisodeLines:
    """The lines that a computation over `episodes` reads; large ones wait on the disk."""

    def __init__(self, gold: Mapping[str, JsonObject]) -> None:
        self._gold = gold
        self._spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by close

    def close(self) -> None:
        """Remove what was written."""
        self._spool.close()

    def add(self, episode: GroundTruthEpisode, result: EpisodeResult) -> None:
        """Take the next episode that counts: a line, or one for each of its answers."""
        asked: JsonObject = {
            "episode_id": episode.episode_id,
            "input_data": episode.input_data,
            "expected_output": episode.expected_output,
            "label": self._gold.get(episode.episode_id),
        }
        record = result.record.document
        judged = {name: record[name] for name in (JUDGEMENTS, JUDGE_SEED) if name in record}
        repeats = RepeatScores.of_facts(result.facts.get(REPEATS))
        if repeats is None:
            hops = cast("JsonObject", outputs_of(record))
            answer: JsonObject = {"outcome": result.outcome.value, "hops": hops}
            self._spool.write(canonical_line(asked | answer | judged))
            return
        for repeat, status in enumerate(repeats.statuses):
            answer = {
                "repeat": repeat,
                "outcome": outcome_of_answer(status, result.outcome).value,
                "hops": cast("JsonObject", outputs_of(record, repeat)),
                **{name: cast("list[JsonValue]", of)[repeat] for name, of in judged.items()},
            }
            self._spool.write(canonical_line(asked | answer))

    def lines(self) -> Iterator[bytes]:
        """Yield each line without its line feed, from the first."""
        self._spool.seek(0)
        for line in self._spool:
            yield line.removesuffix(b"\n")


def _misfit(output: JsonValue, spec: JsonObject, registry: SchemaRegistry) -> Failed | None:
    """Return why an output cannot stand in the evidence, or is not what was committed."""
    try:
        canonical_bytes(output)
    except CanonicalisationError as error:
        return Failed("output-not-json", str(error))
    if not isinstance(output, dict):
        return Failed("output-not-json", f"expected an object, got {json_type(output)}")
    for violation in registry.validate_inline(spec, output) if spec else ():
        where = violation.pointer or "/"
        return Failed(
            "output-spec", f"expected output to fit output_spec, got at {where}: {violation.detail}"
        )
    return None


# All steps, in order.


HITL_TIMEOUT = "hitl-timeout"


class StepSources(NamedTuple):
    """What the steps of one run work on: the calls, the scores, the data."""

    facts: CallFacts
    aggregator: Aggregator
    datasets: OpenDatasets
    episodes: EpisodeLines


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionResult:
    """How far a programme came: to its end with both documents, to a failure, or to people.

    `rating_files` has the lines of each opened rubric step by path in the bundle, `labelled` by
    judged criterion what people said of some of its answers.
    """

    machine: ResolutionStateMachine
    aggregate: JsonObject = field(default_factory=dict)
    rating_files: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    labelled: Mapping[str, LabelledItems] = field(default_factory=dict)

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
        template: ProductTheatreTemplate,
        computations: Sequence[PlannedComputation],
        ratings: Sequence[CommittedRating],
        *,
        trail: ProgrammeTrail,
        sources: StepSources,
        registry: SchemaRegistry,
        now: datetime,
    ) -> None:
        self._template = template
        self._planned = {planned.step_id: planned for planned in computations}
        self._ratings = {rating.step_id: rating for rating in ratings}
        self._trail = trail
        self._sources = sources
        self._registry = registry
        self._now = now
        self._panels: dict[str, PanelScores] = {}
        self._computed: JsonObject = {
            planned.step_id: None for planned in computations if planned.in_aggregate
        }
        self._aggregate: JsonObject | None = None

    async def execute(self) -> ResolutionResult:
        """Continue as far as possible.

        Raises JournalError where a step comes to something else than the chain says.
        """
        machine = ResolutionStateMachine(self._template.programme)
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
            labelled=self._sources.aggregator.labelled(),
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
            outcome = recorded_outcome or await self._compute(self._planned[step.step_id])
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

    async def _compute(self, planned: PlannedComputation) -> StepOutcome:
        """Return what `resolution.json` keeps of a computation, which runs in a thread.

        One that raises, or gives what is no JSON object or does not fit the step's `output_spec`,
        fails. DatasetMismatchError where the data changed meanwhile.
        """
        datasets = self._sources.datasets
        if planned.over == EPISODES:
            lines = self._sources.episodes.lines()
        elif planned.over == self._template.product_theatre_config.replay_dataset_id:
            lines = datasets.replay.lines()
        else:
            lines = datasets.others[planned.over].lines()
        try:
            output = await asyncio.to_thread(planned.computation.compute, lines, planned.params)
        except DatasetError:
            raise
        except Exception as error:  # noqa: BLE001  # a plug-in may raise anything: that is a value
            # Its name alone: the text may hold an address, or what this Python words otherwise.
            return Failed("computation-raised", type(error).__name__)
        return _misfit(output, planned.output_spec, self._registry) or Completed(
            {"computation": planned.computation.pin, "over": planned.over, "output": output}
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
        (step,) = (s for s in self._template.programme if s.step_id == rating.step_id)
        detail: JsonObject = {
            "step_id": rating.step_id,
            "items": list(self._sources.aggregator.items(rating)),
            "minimum_scorers": rating.minimum_scorers,
            "scorer_must_not_be_author": rating.scorer_must_not_be_author,
            "timeout_seconds": step.timeout_seconds,
        }
        await self._trail.note(HITL_OPENED, detail, self._now)
        return self._trail.rubrics[rating.step_id]
