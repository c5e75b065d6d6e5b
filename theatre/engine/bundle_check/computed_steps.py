"""What a computation of the programme comes to when it is run once more, or how it fails.

Source: docs/evidence.md, `resolution.json`; contract/template.md, "Programme semantics".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from theatre.engine.bundle_check.attempts import survives
from theatre.engine.bundle_check.episodes import EpisodeEvidence
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.ground_truth import GroundTruth, bare_lines, episodes
from theatre.engine.bundle_check.json_values import DefectError
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.recorded import FIRST, JUDGEMENTS, outputs_of, stored_records
from theatre.engine.bundle_check.report import Cause, Ledger
from theatre.engine.bundle_check.steps import EPISODES, CommittedComputation
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import Computation, EpisodeOutcome, GroundTruthEpisode
from theatre.engine.schema_registry import SchemaRegistry


def episode_lines(
    folder: BundleFolder,
    plan: CommittedPlan,
    gold: Mapping[str, JsonObject],
    outcomes: Sequence[EpisodeOutcome],
) -> Iterator[bytes]:
    """Yield a canonical line for each episode that was run, streaming, in dataset order.

    For evidence that was read whole before: what is wrong with it was noted then. Raises
    DefectError where a file is not what it was.
    """
    noted = Ledger()
    records = stored_records(folder, len(outcomes), noted)
    for episode, outcome in zip(episodes(folder, noted), outcomes, strict=False):
        if outcome is EpisodeOutcome.NOT_RUN:
            return
        item = next((item for item in records if item.position == episode.seq), None)
        if item is None or item.record is None:
            raise DefectError(f"the record of episode {episode.seq} as before", "none")
        yield _line(plan, episode, item.record, gold.get(episode.episode_id), outcome)


def _line(
    plan: CommittedPlan,
    episode: GroundTruthEpisode,
    record: JsonObject,
    label: JsonObject | None,
    outcome: EpisodeOutcome,
) -> bytes:
    outputs = zip(plan.hops, outputs_of(record, FIRST), strict=False)
    return canonical_bytes(
        {
            "episode_id": episode.episode_id,
            "input_data": episode.input_data,
            "expected_output": episode.expected_output,
            "label": label,
            "outcome": outcome.value,
            "hops": {hop.construct_id: output for hop, output in outputs},
            **{name: record[name] for name in (JUDGEMENTS,) if name in record},
        }
    )


RAISED, NOT_JSON, MISFIT = "computation-raised", "output-not-json", "output-spec"
FAILURES = frozenset({RAISED, NOT_JSON, MISFIT})
"""Why a computation fails its step."""


@dataclass(frozen=True, slots=True)
class Failed:
    """How a computation failed: its reason, and what has to stand in the `error_detail`.

    A class of exceptions is the whole detail; for the others it is a part of a text that is
    free, if there is anything that it has to hold.
    """

    reason: str
    detail: str

    def accepts(self, told: str) -> bool:
        """Tell whether `told` may be the detail."""
        return told == self.detail if self.reason == RAISED else self.detail in told


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputationSources:
    """What computations are given; `installed` are those at hand by name, `versions` recorded."""

    plan: CommittedPlan
    folder: BundleFolder
    ground_truth: GroundTruth | None
    evidence: EpisodeEvidence
    installed: Mapping[str, Computation]
    versions: Mapping[str, str]
    registry: SchemaRegistry


def computed(
    sources: ComputationSources, named: CommittedComputation
) -> JsonObject | Failed | Cause:
    """Run a committed computation; a Cause where it, or what it is over, is not to be had.

    Raises DefectError where a file is not what it was when it was checked.
    """
    version = sources.versions.get(named.name)
    computation = sources.installed.get(named.name)
    if computation is None or computation.version != version:
        pin = f"{named.name}@{version or '?'}"
        at_hand = "none" if computation is None else computation.pin
        text = f"computation {pin} is recorded and {at_hand} installed"
        return Cause(text, unavailable=True)
    for violation in sources.registry.validate_inline(computation.params_schema, named.params):
        return Cause(f"params of {named.name}{violation.pointer}: {violation.detail}")
    lines = _lines(sources, named)
    return lines if isinstance(lines, Cause) else _run(computation, lines, named, sources.registry)


def _lines(sources: ComputationSources, named: CommittedComputation) -> Iterator[bytes] | Cause:
    evidence = sources.evidence
    if named.over != EPISODES:
        return bare_lines(sources.folder, sources.plan.dataset_paths[named.over])
    if isinstance(evidence.aggregate, Cause):
        return evidence.aggregate
    if sources.ground_truth is None or isinstance(sources.ground_truth.gold, Cause):
        return Cause("the ground truth cannot be read")
    gold = sources.ground_truth.gold
    return episode_lines(sources.folder, sources.plan, gold, evidence.outcomes)


def _run(
    computation: Computation,
    lines: Iterator[bytes],
    named: CommittedComputation,
    registry: SchemaRegistry,
) -> JsonObject | Failed:
    try:
        output: object = computation.compute(lines, named.params)
    except DefectError:
        raise
    except Exception as error:  # noqa: BLE001  # a plug-in may raise anything: that fails its step
        return Failed(RAISED, type(error).__name__)
    if not isinstance(output, dict):
        return Failed(NOT_JSON, "")
    try:
        canonical_bytes(output)
    except CanonicalisationError:
        return Failed(NOT_JSON, "")
    for violation in (
        registry.validate_inline(named.output_spec, output) if named.output_spec else ()
    ):
        return Failed(MISFIT, violation.pointer if survives(violation.pointer) else "")
    return output
