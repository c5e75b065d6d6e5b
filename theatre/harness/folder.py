"""The folder that an import writes: ground truth, recorded answers, and the template of both."""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from theatre.engine.canonical_json import (
    JsonObject,
    canonical_bytes,
    canonical_line,
    canonical_sha256,
)
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import Scorer
from theatre.engine.templates import theatre_id_of
from theatre.harness.samples import SCORES, HarnessLog, HarnessLogError, Measure, rescore

GROUND_TRUTH, ANSWERS, TEMPLATE = "ground_truth.jsonl", "answers.jsonl", "template.json"
DATASET, ANSWERS_DATASET = "ground_truth", "recorded_answers"
REPORTED = "_reported"
"""The end of a criterion's id that is what the harness said."""


@dataclass(slots=True)
class Comparison:
    """One measure over all samples: what the log sums up, its samples say, and ours computes.

    `differing` samples have both scores, and not the same; `examples` are the first of them.
    """

    measure: Measure
    carried: list[float] = field(default_factory=list)
    recomputed: list[float] = field(default_factory=list)
    differing: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, episode_id: str, carried: float | None, recomputed: float | None) -> None:
        """Take the two scores of one sample."""
        if carried is not None:
            self.carried.append(carried)
        if recomputed is not None:
            self.recomputed.append(recomputed)
        if carried is not None and recomputed is not None and carried != recomputed:
            self.differing += 1
            self.examples = [*self.examples, episode_id][:3]

    def as_document(self) -> JsonObject:
        """Return the means, null where nothing was measured."""
        return {
            "measure": self.measure.name,
            "scorer": self.measure.scorer,
            "reported": self.measure.reported,
            "in_samples": _mean(self.carried),
            "recomputed": _mean(self.recomputed),
            "differing": self.differing,
            "examples": [*self.examples],
        }


def write_folder(
    log: HarnessLog, folder: Path, scorers: Mapping[str, Scorer], *, with_answers: bool
) -> JsonObject:
    """Write what a run needs into `folder` (it must be new or empty); return what was found.

    Without answers that is the dataset alone. Raises HarnessLogError for a log without samples, a
    second sample of one id, and values that have no canonical form; there is no folder then.
    """
    if folder.exists() and any(folder.iterdir()):
        raise HarnessLogError(f"expected a new or empty folder, got {folder}: name another one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".import-") as whole:
        new = Path(whole) / "new"
        new.mkdir()
        report = _write(log, new, scorers, with_answers=with_answers)
        if folder.exists():
            folder.rmdir()
        new.rename(folder)
    return report


def _write(
    log: HarnessLog, folder: Path, scorers: Mapping[str, Scorer], *, with_answers: bool
) -> JsonObject:
    comparisons = {one.name: Comparison(one) for one in log.measures}
    count = unanswered = 0
    with (folder / GROUND_TRUTH).open("wb") as truth, (folder / ANSWERS).open("wb") as answers:
        for episode, answer, is_missing in _lines(log, comparisons, scorers):
            truth.write(episode)
            answers.write(answer)
            count += 1
            unanswered += is_missing
    if count == 0:
        raise HarnessLogError("expected a log with samples, got none")
    if with_answers:
        template = imported_template(log, folder, scorers)
        (folder / TEMPLATE).write_bytes(canonical_line(template))
    else:
        (folder / ANSWERS).unlink()
    return {
        "harness": log.harness,
        "samples": count,
        "unanswered": unanswered,
        "dataset_sha256": sha256_file(folder / GROUND_TRUTH),
        "measures": [one.as_document() for one in comparisons.values()],
        "files": [GROUND_TRUTH, *((ANSWERS, TEMPLATE) if with_answers else ())],
    }


def _lines(
    log: HarnessLog, comparisons: Mapping[str, Comparison], scorers: Mapping[str, Scorer]
) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield a sample's episode, its answer, and whether there is none."""
    seen = set()
    reported = [one.name for one in log.measures if not one.is_ours]
    for sample in log.samples():
        if sample.episode_id in seen:
            raise HarnessLogError(f"expected each sample once, got {sample.episode_id!r} again")
        seen.add(sample.episode_id)
        for name, comparison in comparisons.items():
            again = rescore(comparison.measure, sample, scorers)
            comparison.add(sample.episode_id, sample.scores.get(name), again)
        answer: JsonObject = {"episode_id": sample.episode_id, **sample.answer(reported)}
        try:
            is_missing = sample.output_data is None
            yield canonical_line(sample.episode()), canonical_line(answer), is_missing
        except CanonicalisationError as error:
            raise HarnessLogError(
                f"expected sample {sample.episode_id!r} to have a canonical form, got {error}"
            ) from error


def criteria_of(measures: tuple[Measure, ...]) -> tuple[JsonObject, dict[str, float]]:
    """Return criterion → scorer with parameters, and the weights.

    What a scorer of ours computes has all the weight, and what the harness said of it stands next
    to it with none. Where nothing is computed here, the harness's own have the weight.
    """
    chosen: JsonObject = {}
    for one in measures:
        if one.scorer is not None:
            chosen[one.name] = {"scorer": one.scorer, "params": one.params}
        if not one.is_ours:
            reported: JsonObject = {"field": f"{SCORES}.{one.name}"}
            chosen[one.name + REPORTED] = {"scorer": "harness_score", "params": reported}
    ours = [one.name for one in measures if one.scorer is not None]
    weighed = ours or [*chosen]
    return chosen, {name: 1 / len(weighed) if name in weighed else 0 for name in chosen}


def version_of(log_declared: JsonObject, harness: str | None) -> str:
    """Return the version of what is only declared: a hash of the declaration, 64 hex digits."""
    return canonical_sha256({"declared": log_declared, "harness": harness})


def imported_template(log: HarnessLog, folder: Path, scorers: Mapping[str, Scorer]) -> JsonObject:
    """Return the template of a run whose answers are those of the log."""
    hashes: JsonObject = {
        DATASET: sha256_file(folder / GROUND_TRUTH),
        ANSWERS_DATASET: sha256_file(folder / ANSWERS),
    }
    template = recorded_template(
        adapter_type="imported",
        construct=log.construct,
        version=version_of(log.declared, log.harness),
        harness=log.harness,
        criteria=criteria_of(log.measures),
        hashes=hashes,
        scorers=scorers,
    )
    config = template["product_theatre_config"]
    if isinstance(config, dict):
        config["adapter_endpoint"] = ANSWERS_DATASET
        config["dataset_paths"] = {ANSWERS_DATASET: ANSWERS}
    # Only a document of one form may be hashed.
    canonical_bytes(template)
    return template


def recorded_template(
    *,
    adapter_type: str,
    construct: str,
    version: str,
    harness: str | None,
    criteria: tuple[JsonObject, Mapping[str, float]],
    hashes: JsonObject,
    scorers: Mapping[str, Scorer],
) -> JsonObject:
    """Return the full template of a construct that another program asks."""
    chosen, weights = criteria
    used = {str(one["scorer"]) for one in chosen.values() if isinstance(one, dict)}
    config: JsonObject = {
        "ground_truth_source": "CUSTOM",
        "construct_under_test": construct,
        "adapter_type": adapter_type,
        "replay_dataset_id": DATASET,
        "replay_data_path": GROUND_TRUTH,
    }
    if harness is not None:
        config["harness"] = harness
    return {
        "schema_version": "2.2.0",
        "theatre_id": theatre_id_of(construct, adapter_type),
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": f"Answers of {construct}, asked by {harness or 'another program'}"[:100],
        "criteria": {
            "criteria_ids": [*chosen],
            "criteria_human": "Criteria that end with _reported are what the other program said.",
            "weights": {**weights},
        },
        "version_pins": {
            "constructs": {construct: version},
            "scorer_version": "1",
            "adapter_version": f"{adapter_type}@1",
        },
        "scorer_pins": {name: scorers[name].version for name in sorted(used)},
        "dataset_hashes": hashes,
        "resolution_programme": [
            {"step_id": "ask", "type": "construct_invocation", "construct_id": construct},
            {"step_id": "aggregate", "type": "aggregation"},
        ],
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": "right", "label": "The answer is right"},
                    {"option_id": "wrong", "label": "It is not"},
                ],
            }
        ],
        "scoring": {"criteria_scorers": chosen},
        "execution_policy": {
            "on_threshold": "continue",
            "retry_policy": {"max_retries": 0, "backoff_seconds": 1},
            "sanitise_input": False,
        },
        "product_theatre_config": config,
    }


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 9) if values else None
