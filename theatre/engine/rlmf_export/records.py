"""One training record: state, action, settlement, and what vouches for them.

Source: docs/contract/template.md §6; `docs/schemas/echelon_rlmf_schema.json`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast
from uuid import UUID, uuid5

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.models import EpisodeOutcome
from theatre.engine.rlmf_export.options import ForkReading, OptionPair
from theatre.engine.rlmf_export.sealed_bundle import (
    DATASET,
    EPISODE_RESULT,
    SealedBundle,
    SealedEpisode,
    first_round,
    last_attempt,
    outputs_of,
)

EXPORT_VERSION = "theatre-rlmf/1"
SCHEMA_VERSION = "2.0.1"
_WITHHELD = "hashes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFacts:
    """What every record of one export says alike. `exported_at` is RFC 3339."""

    template: JsonObject
    certificate: JsonObject
    calibration: JsonObject | None
    reading: ForkReading
    exported_at: str

    @property
    def withheld(self) -> bool:
        """Return whether ground truth and invocations stay with the owner."""
        config = cast("JsonObject", self.template["product_theatre_config"])
        return config.get("disclosure") == _WITHHELD


def training_record(facts: ExportFacts, episode: SealedEpisode) -> JsonObject:
    """Return the record of one episode that was run."""
    certificate = facts.certificate
    theatre_id = cast("str", certificate["theatre_id"])
    answer = last_attempt(first_round(episode.record)[-1])
    response = cast("JsonObject", answer["response"])
    succeeded = response["status"] == "success"
    pair = facts.reading.read(episode, outputs_of(episode.record) if succeeded else {})
    return {
        "episode_id": str(uuid5(UUID(theatre_id), episode.truth.episode_id)),
        "source_episode_id": episode.truth.episode_id,
        "theatre_id": theatre_id,
        "template_id": certificate["template_id"],
        "execution_path": certificate["execution_path"],
        "config_hash": certificate["commitment_hash"],
        "criteria_ids": cast("JsonObject", certificate["criteria"])["criteria_ids"],
        "timestep": episode.truth.seq,
        "state_features": _state(facts, episode, response),
        "fork": {"fork_id": facts.reading.fork_id, "options": list(facts.reading.option_ids)},
        "action_taken": pair.answered,
        "replay_output_class": pair.answered,
        "settlement": {
            "resolved_option": pair.resolved,
            "success": _success(pair, succeeded=succeeded),
            "criteria_scores": episode.line["scores"],
            "composite": episode.line["composite"],
            "resolution_mode": "replay",
            "resolution_timestamp": certificate["theatre_resolved_at"],
        },
        **({} if facts.calibration is None else {"calibration": facts.calibration}),
        "verification": _verification(certificate, episode, response),
        "metadata": {
            "export_timestamp": facts.exported_at,
            "export_version": EXPORT_VERSION,
            "schema_version": SCHEMA_VERSION,
            "data_quality": data_quality(episode),
            "is_holdout": episode.line["holdout"],
        },
    }


def measured_calibration(sealed: SealedBundle) -> JsonObject | None:
    """Return the run's calibration as far as it was measured; None where nothing was."""
    certificate = sealed.certificate
    measured = cast("JsonObject | None", sealed.aggregate.get("calibration")) or {}
    stated = certificate["brier_score"] is not None
    scores = cast("JsonObject", certificate["scores"])
    found: JsonObject = {
        "brier": certificate["brier_score"],
        "ece": certificate["ece"],
        "agent_accuracy": scores.get(cast("str", measured["criterion"])) if stated else None,
        "sample_size": measured["probabilities"] if stated else None,
        "precision": certificate["precision"],
        "recall": certificate["recall"],
        "reply_accuracy": certificate["reply_accuracy"],
    }
    return {name: value for name, value in found.items() if value is not None} or None


def ground_truth_of(episode: SealedEpisode) -> JsonObject:
    """Return what the dataset holds against the answer, bound to the question by its hash.

    The question is part of it so that the hash of a short truth, alone, cannot be guessed back.
    """
    return {
        "episode_id": episode.truth.episode_id,
        "input_sha256": canonical_sha256(episode.truth.input_data),
        "expected_output": episode.truth.expected_output,
        "label": episode.label,
    }


def data_quality(episode: SealedEpisode) -> str:
    """Return how sound the evidence of an episode is; it says nothing of how good the answer is.

    `excellent`: scored, every call answered at the first attempt; `good`: scored after a retry;
    `marginal`: the construct declined; `poor`: no answer, or none that could be scored.
    """
    outcome = episode.line["outcome"]
    if outcome == EpisodeOutcome.EXCLUDED.value:
        return "marginal"
    if outcome != EpisodeOutcome.SCORED.value:
        return "poor"
    tried_again = any(_attempts(call) > 1 for call in first_round(episode.record))
    return "good" if tried_again else "excellent"


def _attempts(call: JsonObject) -> int:
    return len(cast("list[JsonValue]", call["attempts"]))


def _success(pair: OptionPair, *, succeeded: bool) -> bool | None:
    return succeeded and pair.answered == pair.resolved if pair.judged else None


def _state(facts: ExportFacts, episode: SealedEpisode, response: JsonObject) -> JsonObject:
    truth = ground_truth_of(episode)
    hashed: JsonObject = {"ground_truth_hash": canonical_sha256(truth)}
    if facts.withheld:
        ref = f"{DATASET}#{episode.truth.seq}"
        return {"input_data": None, "construct_output": None, "ground_truth_ref": ref} | hashed
    request = cast("JsonObject", first_round(episode.record)[0]["request"])
    succeeded = response["status"] == "success"
    answered = episode.record.get(EPISODE_RESULT, response["output_data"])
    return {
        "input_data": request["input_data"],
        "construct_output": answered if succeeded else None,
        "ground_truth": truth,
    } | hashed


def _verification(
    certificate: JsonObject, episode: SealedEpisode, response: JsonObject
) -> JsonObject:
    copied = (
        "construct_id",
        "construct_version",
        "construct_chain_versions",
        "evidence_bundle_hash",
        "certificate_id",
        "verification_tier",
        "findings",
    )
    return {
        **{name: certificate[name] for name in copied},
        "invocation_latency_ms": _latency_ms(first_round(episode.record)),
        "invocation_status": response["status"],
    }


def _latency_ms(calls: Iterable[JsonObject]) -> int:
    """Return how long the answers of an episode took, all hops together, retries left out."""
    responses = (cast("JsonObject", last_attempt(call)["response"]) for call in calls)
    return sum(cast("int", response["latency_ms"]) for response in responses)
