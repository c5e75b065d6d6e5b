"""The `deterministic_computation` steps of a programme: what each computes, and over what.

Source: docs/contract/template.md §5; docs/contract/evidence.md §8.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    json_type,
)
from theatre.engine.errors import CanonicalisationError, DatasetError, ProgrammeError
from theatre.engine.models import JUDGEMENTS, Computation, EpisodeResult, GroundTruthEpisode
from theatre.engine.replay.context import OpenDatasets
from theatre.engine.replay.records import outputs_of
from theatre.engine.resolution import COMPUTATION, Completed, Failed, StepOutcome
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import ProductTheatreTemplate, ResolutionStep

EPISODES = "episodes"
"""The value of `over` that stands for the episodes that were run, not for a dataset."""

_INPUT_SPEC = ("computation", "over", "params", "in_aggregate")
_IN_MEMORY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComputation:
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
    steps = [step for step in template.programme if step.type == COMPUTATION]
    return tuple(_plan(step, template, installed, registry) for step in steps)


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
        """Take the next episode that counts."""
        line: JsonObject = {
            "episode_id": episode.episode_id,
            "input_data": episode.input_data,
            "expected_output": episode.expected_output,
            "label": self._gold.get(episode.episode_id),
            "outcome": result.outcome.value,
            "hops": cast("JsonObject", outputs_of(result.record.document)),
        }
        if JUDGEMENTS in result.record.document:
            line[JUDGEMENTS] = result.record.document[JUDGEMENTS]
        self._spool.write(canonical_line(line))

    def lines(self) -> Iterator[bytes]:
        """Yield each line without its line feed, from the first."""
        self._spool.seek(0)
        for line in self._spool:
            yield line.removesuffix(b"\n")


async def outcome_of(
    planned: PlannedComputation,
    template: ProductTheatreTemplate,
    datasets: OpenDatasets,
    episodes: EpisodeLines,
    registry: SchemaRegistry,
) -> StepOutcome:
    """Return the result of the step, as `resolution.json` keeps it; runs in a thread.

    A computation that raises, or gives what is no JSON object or does not fit the step's
    `output_spec`, fails. DatasetMismatchError where the data changed meanwhile.
    """
    config = template.product_theatre_config
    if planned.over == EPISODES:
        lines = episodes.lines()
    elif planned.over == config.replay_dataset_id:
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
    misfit = _misfit(output, planned.output_spec, registry)
    if misfit is not None:
        return misfit
    return Completed(
        {"computation": planned.computation.pin, "over": planned.over, "output": output}
    )


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
