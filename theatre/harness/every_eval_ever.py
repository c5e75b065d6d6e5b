"""A certified run in the form of Every Eval Ever, 0.3.0: an aggregate, and a line an instance.

The aggregate has a result for each criterion that has a score; an instance is one episode on one
criterion. What the form asks for and no bundle holds is `unknown`.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json, canonical_line
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ProgrammeError
from theatre.engine.models import SINGLE_CALL
from theatre.engine.rlmf_export.sealed_bundle import SealedBundle, SealedEpisode
from theatre.engine.scoring.repeats import answering_round, last_attempt, rounds_of
from theatre.harness.samples import identifier

SCHEMA_VERSION: Final = "0.3.0"
LIBRARY: Final = "echelon-theatre"
_OURS: Final = {"scored": None, "missing": "failed", "excluded": "refused"}


class EveryEvalEverExport:
    """Two files about one bundle; the same bytes each time."""

    def __init__(self, bundle: Path) -> None:
        """Read what was sealed; errors as `SealedBundle`.

        Raises ProgrammeError for interactive episodes: the form wants their turns as messages of a
        conversation, which they are not.
        """
        self._bundle = SealedBundle(bundle)
        config = self._member("product_theatre_config")
        if config.get("episode_runner", SINGLE_CALL) != SINGLE_CALL:
            raise ProgrammeError(
                "expected episodes of single calls to export for Every Eval Ever, got the runner "
                f"{config['episode_runner']}"
            )
        self._certificate: Any = self._bundle.certificate
        self._construct = str(self._certificate["construct_id"])
        moment = parse_rfc3339(str(self._certificate["issued_at"]))
        self._retrieved = str(int(moment.timestamp()))
        self._id = f"{self._certificate['template_id']}/{self.model_id}/{self._retrieved}"

    @property
    def model_id(self) -> str:
        """Return issuer and construct, as the form has `developer/model`."""
        return f"{identifier(self._certificate['issuer'])}/{self._construct}"

    @property
    def path(self) -> str:
        """Return where the datastore has such a file, without its ending."""
        template = self._certificate["template_id"]
        return f"data/{template}/{self.model_id}/{self._certificate['theatre_id']}"

    def write(self, folder: Path) -> JsonObject:
        """Write both files below `folder` and return where they are and how much that is."""
        aggregate, instances = folder / f"{self.path}.json", folder / f"{self.path}_samples.jsonl"
        aggregate.parent.mkdir(parents=True, exist_ok=True)
        digest, rows = hashlib.sha256(), 0
        with instances.open("wb") as handle:
            for instance in self.instances():
                line = canonical_line(instance)
                handle.write(line)
                digest.update(line)
                rows += 1
        document = self.aggregate(checksum=digest.hexdigest(), rows=rows)
        aggregate.write_bytes(canonical_line(document))
        return {"aggregate": str(aggregate), "instances": str(instances), "records": rows}

    def aggregate(self, *, checksum: str, rows: int) -> JsonObject:
        """Return the aggregate about an instance file with this SHA-256 and number of lines."""
        certificate = self._certificate
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self._id,
            "retrieved_timestamp": self._retrieved,
            "source_metadata": {
                "source_type": "evaluation_run",
                "source_organization_name": certificate["issuer"],
                # No bundle says who evaluated, or for whom.
                "evaluator_relationship": "other",
                "additional_details": self._evidence(),
            },
            "eval_library": self._library(),
            "model_info": {
                "name": self._construct,
                "id": self.model_id,
                "additional_details": {
                    "deployment_type": "unknown",
                    "model_availability": "unknown",
                    "construct_version": certificate["construct_version"],
                    "version_source": certificate["version_source"],
                },
            },
            "evaluation_results": [*self._results()],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": f"{self.path}_samples.jsonl",
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": rows,
            },
        }

    def instances(self) -> Iterator[JsonObject]:
        """Yield episode after episode a line for each criterion that has a score there."""
        for episode in self._bundle.episodes():
            scores: Any = episode.line["scores"]
            for criterion in self._certificate["criteria"]["criteria_ids"]:
                if scores.get(criterion) is not None:
                    yield self._instance(episode, criterion, float(scores[criterion]))

    def _instance(self, episode: SealedEpisode, criterion: str, score: float) -> JsonObject:
        asked, answers = _exchange(episode)
        truth = episode.truth
        expected = [] if truth.expected_output is None else [canonical_json(truth.expected_output)]
        hashed = hashlib.sha256((asked + "".join(expected)).encode()).hexdigest()
        outcome = str(episode.line["outcome"])
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self._id,
            "evaluation_result_id": criterion,
            "model_id": self.model_id,
            "evaluation_name": criterion,
            "sample_id": truth.episode_id,
            "sample_hash": hashed,
            "interaction_type": "single_turn",
            "input": {"raw": asked, "reference": [*expected]},
            "output": {"raw": [*answers]},
            "answer_attribution": [
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": answered,
                    "extraction_method": "custom",
                    "is_terminal": True,
                }
                for answered in answers
            ],
            "evaluation": {"score": score, "is_correct": score == 1},
            "error": _OURS.get(outcome, outcome),
        }

    def _results(self) -> Iterator[JsonValue]:
        certificate = self._certificate
        scorers = self._member("scoring").get("criteria_scorers", {})
        for criterion, score in certificate["scores"].items():
            if score is None:
                continue
            interval = certificate["score_intervals"][criterion]
            uncertainty: JsonObject = {}
            counts = certificate["score_counts"][criterion]
            uncertainty["num_samples"] = counts["scored"] + counts["missing"]
            if interval["low"] is not None:
                uncertainty["confidence_interval"] = {
                    "lower": interval["low"],
                    "upper": interval["high"],
                    "confidence_level": 0.95,
                    "method": interval["method"],
                }
            yield {
                "evaluation_result_id": criterion,
                "evaluation_name": criterion,
                "evaluation_timestamp": certificate["theatre_resolved_at"],
                "source_data": {
                    "dataset_name": certificate["template_id"],
                    "source_type": "other",
                    "additional_details": {"sha256": str(certificate["dataset_hash"])},
                },
                "metric_config": {
                    "metric_id": f"{LIBRARY}.{criterion}",
                    "metric_name": criterion,
                    "lower_is_better": False,
                    "score_type": "continuous",
                    "min_score": 0,
                    "max_score": 1,
                    "metric_unit": "proportion",
                    "additional_details": {"scorer": json.dumps(scorers.get(criterion))},
                },
                "score_details": {"score": score, "uncertainty": uncertainty},
            }

    def _library(self) -> JsonObject:
        """Return who asked the questions: the harness of a recorded run, else Echelon."""
        harness = self._member("product_theatre_config").get("harness")
        name, _, version = str(harness or f"{LIBRARY}@unknown").partition("@")
        scored: JsonObject = {"scored_by": LIBRARY}
        return {"name": name, "version": version, "additional_details": scored}

    def _evidence(self) -> JsonObject:
        """Return what leads from the record to the evidence, and what it is worth."""
        certificate = self._certificate
        members = ("certificate_id", "verification_tier", "commitment_hash", "results_hash")
        return {
            **{name: str(certificate[name]) for name in (*members, "evidence_bundle_hash")},
            "caps": " ".join(certificate["caps"]),
            "findings": " ".join(certificate["findings"]),
        }

    def _member(self, name: str) -> dict[str, Any]:
        found = self._bundle.template.get(name)
        return found if isinstance(found, dict) else {}


def _exchange(episode: SealedEpisode) -> tuple[str, list[str]]:
    """Return what was sent first and what came back last, as canonical JSON; "" for no answer.

    All answers of an episode that is asked more than once: its score is their mean.
    """
    record = episode.record
    every: Any = rounds_of(record) if "repeats" in episode.line else [answering_round(record)]
    ended: list[Any] = [last_attempt(made[-1])["response"] for made in every]
    return (
        canonical_json(every[0][0]["request"]["input_data"]),
        ["" if one["output_data"] is None else canonical_json(one["output_data"]) for one in ended],
    )
