"""One training record: state, action, settlement, and what vouches for them.

Source: docs/contract/template.md §6; `docs/schemas/echelon_rlmf_schema.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast
from uuid import UUID, uuid5

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_sha256
from theatre.engine.errors import RlmfExportError
from theatre.engine.models import EPISODE_RESULT, EpisodeOutcome
from theatre.engine.rlmf_export.sealed_bundle import DATASET, SealedBundle, SealedEpisode
from theatre.engine.scoring.provider import (
    ABSENT,
    Absent,
    answered_at,
    calibration_criterion,
    criteria_scorers,
    expected_at,
)
from theatre.engine.scoring.repeats import answering_round, last_attempt, outputs_of
from theatre.engine.templates import FALLS_SHORT, MEETS, Fork, product_template

# Which option of a fork an answer amounts to, and which one the ground truth says is right.
#
# The two come from two sources: the answer, and the committed expectation. Never from a score:
# computed from one value they would always agree, and the export would say nothing.


Hops: TypeAlias = Mapping[str, JsonObject]
Paths: TypeAlias = tuple[str | None, str | None]
"""Where an answer and what it is checked against lie; None is the whole of it."""


class OptionPair(NamedTuple):
    """Two option ids of the fork: `resolved` by the ground truth, `answered` by the construct.

    `judged` says whether there was ground truth to judge by. Without it both are the residual
    option, or None where the fork has none.
    """

    resolved: str | None
    answered: str | None
    judged: bool


class ForkReading(NamedTuple):
    """A fork, and how episodes are read in its options; `hops` is empty where a call failed."""

    fork_id: str
    option_ids: tuple[str, ...]
    read: Callable[[SealedEpisode, Hops], OptionPair]


def fork_reading(document: JsonObject) -> ForkReading:
    """Return how the template's runs are read: by its mapping, by expectation, or not at all.

    Raises RlmfExportError for a template whose forks cannot tell one answer from another and
    leave no option for the rest.
    """
    template = product_template(document)
    forks, mapping, judged = (
        template.fork_definitions,
        template.export_mapping,
        template.judged_fork,
    )
    if mapping:
        fork = _mapped_fork(forks, mapping)
        return _reading(fork, _by_mapping(fork, mapping))
    if judged is not None:
        return _reading(judged, _by_expectation(judged, expectation_paths(document)))
    rest = forks[0].residual_option
    if rest is None:
        raise RlmfExportError(
            "expected rlmf_export_config, a fork with the options meets and falls_short, or a "
            "residual option in the first fork; got none: the answers cannot be told apart"
        )
    return _reading(forks[0], lambda *_: OptionPair(resolved=rest, answered=rest, judged=False))


def expectation_paths(document: JsonObject) -> tuple[Paths, ...]:
    """Return the (field, expected) paths that say whether an answer meets the expectation.

    Those of the criterion that stated probabilities are about, where there is one; else of every
    criterion that names an `expected` path; else the whole answer against the whole expectation.
    """
    chosen = criteria_scorers(document)
    calibrated = calibration_criterion(document)
    judging = [calibrated] if calibrated in chosen else list(chosen)
    params = [cast("JsonObject", chosen[criterion].get("params", {})) for criterion in judging]
    paths = [(_path(each, "field"), _path(each, "expected")) for each in params]
    return tuple(each for each in paths if each[1] is not None) or ((None, None),)


def _path(params: JsonObject, name: str) -> str | None:
    path = params.get(name)
    return path if isinstance(path, str) else None


def _mapped_fork(forks: Iterable[Fork], mapping: JsonObject) -> Fork:
    named = [fork for fork in forks if fork.fork_id == mapping.get("fork_id")]
    complete = all(isinstance(mapping.get(name), str) for name in ("output_path", "truth_path"))
    if not named or not complete:
        raise RlmfExportError(
            "expected rlmf_export_config with fork_id (of a fork), output_path and truth_path, "
            f"got {', '.join(mapping)}"
        )
    return named[0]


def _reading(fork: Fork, read: Callable[[SealedEpisode, Hops], OptionPair]) -> ForkReading:
    return ForkReading(fork_id=fork.fork_id, option_ids=tuple(fork.option_ids), read=read)


def _by_mapping(fork: Fork, mapping: JsonObject) -> Callable[[SealedEpisode, Hops], OptionPair]:
    options, rest = set(fork.option_ids), fork.residual_option
    output_path = cast("str", mapping["output_path"])
    truth_path = cast("str", mapping["truth_path"])

    def option(value: JsonValue | Absent) -> str | None:
        return value if isinstance(value, str) and value in options else rest

    def read(episode: SealedEpisode, hops: Hops) -> OptionPair:
        truth = expected_at(truth_path, episode.truth.expected_output, episode.label)
        return OptionPair(
            resolved=option(truth),
            answered=option(answered_at(output_path, hops)),
            judged=not isinstance(truth, Absent),
        )

    return read


def _by_expectation(
    fork: Fork, paths: tuple[Paths, ...]
) -> Callable[[SealedEpisode, Hops], OptionPair]:
    rest = fork.residual_option

    def read(episode: SealedEpisode, hops: Hops) -> OptionPair:
        applying = [
            (field, expected)
            for field, path in paths
            if not isinstance(expected := _expected(path, episode), Absent) and expected != {}
        ]
        if not applying:
            return OptionPair(resolved=rest, answered=rest, judged=False)
        met = all(agrees(answered_at(field, hops), expected) for field, expected in applying)
        return OptionPair(resolved=MEETS, answered=MEETS if met else FALLS_SHORT, judged=True)

    return read


def _expected(path: str | None, episode: SealedEpisode) -> JsonValue | Absent:
    expected_output = episode.truth.expected_output
    if path is None:
        return ABSENT if expected_output is None else expected_output
    return expected_at(path, expected_output, episode.label)


def agrees(answer: JsonValue | Absent, expected: JsonValue) -> bool:
    """Return whether an answer is the expected JSON value, or holds every member of it."""
    if isinstance(answer, Absent):
        return False
    if isinstance(answer, dict) and isinstance(expected, dict):
        return all(
            name in answer and canonical_bytes(answer[name]) == canonical_bytes(value)
            for name, value in expected.items()
        )
    return canonical_bytes(answer) == canonical_bytes(expected)


EXPORT_VERSION = "theatre-rlmf/1"
SCHEMA_VERSION = "2.0.1"
_WITHHELD = {"hashes", "withheld"}


class ExportFacts(NamedTuple):
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
        return config.get("disclosure") in _WITHHELD


def training_record(facts: ExportFacts, episode: SealedEpisode) -> JsonObject:
    """Return the record of one episode that was run."""
    certificate = facts.certificate
    theatre_id = cast("str", certificate["theatre_id"])
    answer = last_attempt(answering_round(episode.record)[-1])
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
            # Without ground truth nothing was right or wrong.
            "success": succeeded and pair.answered == pair.resolved if pair.judged else None,
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
    calls = answering_round(episode.record)
    tried_again = any(len(cast("list[JsonValue]", call["attempts"])) > 1 for call in calls)
    return "good" if tried_again else "excellent"


def _state(facts: ExportFacts, episode: SealedEpisode, response: JsonObject) -> JsonObject:
    truth = ground_truth_of(episode)
    hashed: JsonObject = {"ground_truth_hash": canonical_sha256(truth)}
    if facts.withheld:
        ref = f"{DATASET}#{episode.truth.seq}"
        return {"input_data": None, "construct_output": None, "ground_truth_ref": ref} | hashed
    request = cast("JsonObject", answering_round(episode.record)[0]["request"])
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
    calls = answering_round(episode.record)
    responses = [cast("JsonObject", last_attempt(call)["response"]) for call in calls]
    return {
        **{name: certificate[name] for name in copied},
        # All hops together, retries left out.
        "invocation_latency_ms": sum(cast("int", one["latency_ms"]) for one in responses),
        "invocation_status": response["status"],
    }
