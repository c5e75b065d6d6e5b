"""The lines that a computation over the episodes is given (docs/evidence.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from theatre.engine.bundle_check.commitment.ground_truth import episodes
from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.invocations.record_source import stored_records
from theatre.engine.bundle_check.invocations.recorded import FIRST, JUDGEMENTS, outputs_of
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.reading.json_values import DefectError
from theatre.engine.bundle_check.report import Ledger
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode


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
