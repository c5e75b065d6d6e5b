"""The export of a sealed bundle: whole records, each valid, streamed, and always the same.

Past 400 lines: one record has many members, and each has a case of its own.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid5

import pytest
import rfc8785

from tests.theatre.rlmf_runs import (
    BY_COLOUR,
    EXPORT_TIME,
    EXPORTED_AT,
    episode,
    every_ending,
    export,
    named,
    raw_export,
    run,
)
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    PILOT,
    SANITISED,
    VERSION,
    WRONG,
    Finished,
    ScriptedAdapter,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line, parse_object
from theatre.engine.evidence_bundle import PART_SIZE
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.rlmf_export import RLMF_SCHEMA, RlmfExport
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation


def sha256(value: object) -> str:
    """Return the hash as a stranger computes it."""
    return hashlib.sha256(rfc8785.dumps(cast("Any", value))).hexdigest()


def state(record: JsonObject) -> JsonObject:
    return cast("JsonObject", record["state_features"])


def quality(record: JsonObject) -> JsonValue:
    return cast("JsonObject", record["metadata"])["data_quality"]


def verification(record: JsonObject) -> JsonObject:
    return cast("JsonObject", record["verification"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return every_ending(tmp_path_factory.mktemp("finished"))


def test_a_record_says_what_was_asked_answered_right_and_vouched_for(finished: Finished) -> None:
    certificate = finished.document("certificate.json")
    theatre_id = finished.theatre.theatre_id
    asked: JsonObject = {"seq": 2, "answer": named("blue")}
    truth: JsonObject = {
        "episode_id": "pilot-2",
        "input_sha256": sha256(asked),
        "expected_output": EXPECTED,
        "label": None,
    }
    assert export(finished.bundle)[1] == {
        "episode_id": str(uuid5(UUID(theatre_id), "pilot-2")),
        "source_episode_id": "pilot-2",
        "theatre_id": theatre_id,
        "template_id": "product_pilot_v1",
        "execution_path": "replay",
        "config_hash": finished.theatre.commitment.commitment_hash,
        "criteria_ids": ["colour", "recall"],
        "timestep": 2,
        "state_features": {
            "input_data": asked,
            "construct_output": {"colour": "blue", "recall": 0.5},
            "ground_truth": truth,
            "ground_truth_hash": sha256(truth),
        },
        "fork": {"fork_id": "f_01", "options": ["red", "blue", "other"]},
        "action_taken": "blue",
        "replay_output_class": "blue",
        "settlement": {
            "resolved_option": "red",
            "success": False,
            "criteria_scores": {"colour": 0, "recall": 1},
            "composite": 0.25,
            "resolution_mode": "replay",
            "resolution_timestamp": certificate["theatre_resolved_at"],
        },
        "calibration": {"recall": 0.6},
        "verification": {
            "construct_id": PILOT,
            "construct_version": VERSION,
            "construct_chain_versions": None,
            "invocation_latency_ms": 7,
            "invocation_status": "success",
            "evidence_bundle_hash": certificate["evidence_bundle_hash"],
            "certificate_id": certificate["certificate_id"],
            "verification_tier": "UNVERIFIED",
            "findings": certificate["findings"],
        },
        "metadata": {
            "export_timestamp": EXPORT_TIME,
            "export_version": "theatre-rlmf/1",
            "schema_version": "2.0.1",
            "data_quality": "excellent",
            "is_holdout": finished.lines("scores/per_episode.jsonl")[1]["holdout"],
        },
    }


def test_there_is_a_record_for_each_episode_in_dataset_order_with_its_scores(
    finished: Finished,
) -> None:
    exported = export(finished.bundle)
    lines = finished.lines("scores/per_episode.jsonl")
    assert [record["timestep"] for record in exported] == [1, 2, 3, 4, 5, 6, 7]
    assert len({record["episode_id"] for record in exported}) == 7
    for record, line in zip(exported, lines, strict=True):
        settlement = cast("JsonObject", record["settlement"])
        assert (record["source_episode_id"], settlement["criteria_scores"]) == (
            line["episode_id"],
            line["scores"],
        )
        assert cast("JsonObject", record["metadata"])["is_holdout"] is line["holdout"]


def test_a_call_that_failed_has_no_output_and_says_how_it_ended(finished: Finished) -> None:
    exported = export(finished.bundle)
    assert [
        (verification(record)["invocation_status"], state(record)["construct_output"])
        for record in exported[2:4]
    ] == [("error", None), ("refused", None)]


def test_quality_is_told_by_the_evidence_and_never_by_the_score(finished: Finished) -> None:
    assert [quality(record) for record in export(finished.bundle)] == [
        *("excellent", "excellent", "poor", "marginal", "excellent", "excellent", "poor"),
    ]


def test_an_answer_after_a_retry_is_good_and_its_latency_is_its_own(tmp_path: Path) -> None:
    asked: list[str] = []

    def second_time_lucky(request: OracleInvocationRequest) -> JsonObject:
        asked.append(request.episode_id)
        return ERROR if asked.count(request.episode_id) == 1 else {"output_data": {**EXPECTED}}

    changes = {"/execution_policy/retry_policy/max_retries": 1}
    stage = pilot_stage(tmp_path, episodes(1), changes=changes)
    (record,) = export(stage.run(ScriptedAdapter(second_time_lucky)).bundle)
    assert asked == [stage.draws.alias("pilot-1")] * 2
    assert (quality(record), verification(record)["invocation_latency_ms"]) == ("good", 7)
    assert (verification(record)["invocation_status"], state(record)["construct_output"]) == (
        "success",
        EXPECTED,
    )


def test_a_chain_is_exported_with_its_versions_its_last_output_and_all_its_time(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(1), changes=CHAIN)
    easel = ScriptedAdapter(lambda _: {"output_data": {"paint": "wet"}}, version=EASEL_VERSION)
    (record,) = export(stage.run({EASEL: easel, PILOT: ScriptedAdapter()}).bundle)
    assert state(record)["construct_output"] == EXPECTED
    assert state(record)["input_data"] == {"seq": 1}
    assert verification(record)["invocation_latency_ms"] == 14
    assert verification(record)["construct_chain_versions"] == {
        EASEL: EASEL_VERSION,
        PILOT: VERSION,
    }


def test_a_chain_that_broke_half_way_has_no_output(tmp_path: Path) -> None:
    stage = pilot_stage(
        tmp_path, episodes(2), changes={**CHAIN, "/execution_policy/on_threshold": "continue"}
    )
    easel = ScriptedAdapter(lambda _: {"output_data": {}}, version=EASEL_VERSION)
    broken = stage.draws.alias("pilot-1")
    pilot = ScriptedAdapter(
        lambda request: ERROR if request.episode_id == broken else {"output_data": {**EXPECTED}}
    )
    first, second = export(stage.run({EASEL: easel, PILOT: pilot}).bundle)
    assert (state(first)["construct_output"], first["replay_output_class"]) == (None, "falls_short")
    assert (state(second)["construct_output"], second["replay_output_class"]) == (EXPECTED, "meets")


def test_a_repeat_is_not_the_answer(tmp_path: Path) -> None:
    asked: list[str] = []

    def changes_its_mind(request: OracleInvocationRequest) -> JsonObject:
        asked.append(request.episode_id)
        return {"output_data": {**EXPECTED}} if len(asked) == 1 else WRONG

    stage = pilot_stage(
        tmp_path, episodes(1), changes={"/execution_policy/deterministic_sample": 1}
    )
    (record,) = export(stage.run(ScriptedAdapter(changes_its_mind)).bundle)
    assert len(asked) == 2
    assert (state(record)["construct_output"], record["replay_output_class"]) == (EXPECTED, "meets")
    assert (quality(record), verification(record)["invocation_latency_ms"]) == ("excellent", 7)


def test_the_input_is_what_was_sent_and_the_truth_is_bound_to_what_was_asked(
    tmp_path: Path,
) -> None:
    raw: JsonObject = {"text": "in\u200bvisible"}
    records: list[JsonObject] = [
        {"episode_id": "pilot-1", "input_data": raw, "expected_output": EXPECTED}
    ]
    stage = pilot_stage(tmp_path, records, changes=SANITISED)
    (record,) = export(stage.run(ScriptedAdapter()).bundle)
    assert state(record)["input_data"] == {"text": "invisible"}
    truth = cast("JsonObject", state(record)["ground_truth"])
    assert truth["input_sha256"] == sha256(raw)


def test_episodes_that_were_not_run_have_no_record_and_are_counted(tmp_path: Path) -> None:
    records = episodes(10, {3: ERROR, 5: ERROR, 6: ERROR})
    finished = pilot_stage(tmp_path, records).run(ScriptedAdapter(answer_as_asked))
    lines, summary = raw_export(finished.bundle)
    assert [parse_object(line)["timestep"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert (summary.records, summary.not_run) == (6, 4)


def test_a_gold_label_is_part_of_the_ground_truth(tmp_path: Path) -> None:
    label: JsonObject = {"episode_id": "pilot-1", "label": {"seen": "red"}, "labeller": "a test"}
    finished = run(
        tmp_path,
        episodes(2),
        changes={"/product_theatre_config/gold_label_set": "gold_labels.jsonl"},
        further={"gold_labels.jsonl": canonical_line(label)},
    )
    truths = [cast("JsonObject", state(r)["ground_truth"]) for r in export(finished.bundle)]
    assert [truth["label"] for truth in truths] == [{"seen": "red"}, None]


def test_the_calibration_of_the_run_goes_with_each_record_where_it_was_measured(
    tmp_path: Path,
) -> None:
    changes: dict[str, JsonValue] = {
        "/scoring/criteria_scorers/colour": {
            "scorer": "label_accuracy",
            "params": {"field": "colour", "expected": "colour"},
        },
        "/scorer_pins": {"label_accuracy": "1", "numeric_tolerance": "1"},
    }
    sure: JsonObject = {"output_data": {"colour": "red", "recall": 0.5, "confidence": 0.75}}
    unsure: JsonObject = {"output_data": {"colour": "blue", "recall": 0.5, "confidence": 0.25}}
    few = [episode(1, sure, EXPECTED), episode(2, unsure, EXPECTED)]
    exported = export(run(tmp_path / "few", few, changes=changes).bundle)
    assert [record["calibration"] for record in exported] == [
        {"brier": 0.0625, "agent_accuracy": 0.5, "sample_size": 2, "recall": 1}
    ] * 2
    many = [episode(seq, sure, EXPECTED) for seq in range(1, 101)]
    exported = export(run(tmp_path / "many", many, changes=changes).bundle)
    assert exported[99]["calibration"] == {
        "brier": 0.0625,
        "ece": 0.25,
        "agent_accuracy": 1,
        "sample_size": 100,
        "recall": 1,
    }


def test_where_nothing_of_it_was_measured_there_is_no_calibration(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        "/criteria": {"criteria_ids": ["colour"], "criteria_human": "The colour alone."},
        "/scoring/criteria_scorers": {"colour": {"scorer": "exact_match"}},
        "/scorer_pins": {"exact_match": "1"},
    }
    (record,) = export(run(tmp_path, episodes(1), changes=changes).bundle)
    assert "calibration" not in record


# --- what stays with the owner ---------------------------------------------------------------


@pytest.mark.parametrize(
    "disclosure",
    [
        {"/product_theatre_config/disclosure": "hashes"},
        {
            "/schema_version": "2.2.0",
            "/product_theatre_config/disclosure": "withheld",
            "/product_theatre_config/withheld": {"episodes": ["pilot-1"]},
        },
    ],
)
def test_with_disclosure_by_hashes_neither_truth_nor_invocations_leave(
    tmp_path: Path, disclosure: dict[str, JsonValue]
) -> None:
    records: list[JsonObject] = [
        {
            "episode_id": "pilot-1",
            "input_data": {"question": "planted-question"},
            "expected_output": {"colour": "planted-truth", "recall": 0.5},
        }
    ]
    label: JsonObject = {
        "episode_id": "pilot-1",
        "label": {"seen": "planted-label"},
        "labeller": "planted-labeller",
    }
    stage = pilot_stage(
        tmp_path,
        records,
        changes={**disclosure, "/product_theatre_config/gold_label_set": "gold_labels.jsonl"},
        further={"gold_labels.jsonl": canonical_line(label)},
    )
    answer: JsonObject = {"output_data": {"colour": "planted-answer", "recall": 0.5}}
    finished = stage.run(ScriptedAdapter(lambda _: answer))
    (line,), _ = raw_export(finished.bundle)
    assert b"planted" not in line
    truth = {
        "episode_id": "pilot-1",
        "input_sha256": sha256(records[0]["input_data"]),
        "expected_output": records[0]["expected_output"],
        "label": label["label"],
    }
    assert state(parse_object(line)) == {
        "input_data": None,
        "construct_output": None,
        "ground_truth_ref": "ground_truth/dataset.jsonl#1",
        "ground_truth_hash": sha256(truth),
    }


def test_the_hash_of_the_same_short_truth_differs_with_the_question(tmp_path: Path) -> None:
    changes = {"/product_theatre_config/disclosure": "hashes"}
    exported = export(run(tmp_path, episodes(2), changes=changes).bundle)
    assert len({cast("str", state(record)["ground_truth_hash"]) for record in exported}) == 2


# --- the same bytes, streamed ----------------------------------------------------------------


def test_the_same_moment_gives_the_same_bytes_and_the_summary_hashes_them(
    finished: Finished,
) -> None:
    lines, summary = raw_export(finished.bundle)
    assert raw_export(finished.bundle) == (lines, summary)
    assert summary.as_document() == {
        "export": "rlmf",
        "export_version": "theatre-rlmf/1",
        "records": 7,
        "not_run": 0,
        "export_sha256": hashlib.sha256(b"".join(lines)).hexdigest(),
    }
    later, other = raw_export(finished.bundle, at=EXPORTED_AT + timedelta(seconds=1))
    assert other._replace(sha256=summary.sha256) == summary
    assert later != lines


def test_lines_are_canonical_json_with_a_line_feed(finished: Finished) -> None:
    for line in raw_export(finished.bundle)[0]:
        assert rfc8785.dumps(json.loads(line)) + b"\n" == line


class CountingRegistry(SchemaRegistry):
    """The registry, with a count of the records it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[object] = []

    def validate_cached(self, schema_name: str) -> Callable[[object], list[SchemaViolation]]:
        """Count, and validate."""
        validate = super().validate_cached(schema_name)

        def counting(document: object) -> list[SchemaViolation]:
            self.shown.append(document)
            return validate(document)

        return counting


def test_a_record_is_made_when_it_is_asked_for_and_not_before(finished: Finished) -> None:
    registry = CountingRegistry()
    lines = RlmfExport(finished.bundle, registry, exported_at=EXPORTED_AT).lines()
    assert len(registry.shown) == 0
    next(lines)
    next(lines)
    assert len(registry.shown) == 2


def test_a_large_run_is_read_from_its_parts_in_order(tmp_path: Path) -> None:
    finished = pilot_stage(tmp_path, episodes(PART_SIZE + 2)).run(
        ScriptedAdapter(), batch_size=1000
    )
    assert len(list((finished.bundle / "invocations").iterdir())) == 2
    exported = export(finished.bundle)
    assert [record["timestep"] for record in exported] == list(range(1, PART_SIZE + 3))
    assert state(exported[-1])["input_data"] == {"seq": PART_SIZE + 2}


ODD_ANSWERS: tuple[JsonObject, ...] = (
    {},
    {"colour": None},
    {"colour": ["red"]},
    {"colour": {"red": True}},
    {"colour": ""},
    {"colour": "red\n"},
    {"colour": "\U0001f3a8" * 50},
    {"colour": 1e300, "recall": -0.0},
    {"recall": [[[[[[1]]]]]], "confidence": "very"},
    {"confidence": 2},
    {str(number): number for number in range(200)},
)


@pytest.mark.parametrize("changes", [{}, BY_COLOUR], ids=["judged", "mapped"])
def test_every_record_is_valid_whatever_was_answered(
    tmp_path: Path, changes: Mapping[str, JsonValue]
) -> None:
    records = [
        episode(seq, {"output_data": answer}, EXPECTED)
        for seq, answer in enumerate(ODD_ANSWERS, start=1)
    ]
    exported = export(run(tmp_path, records, changes=changes).bundle)
    assert [state(record)["construct_output"] for record in exported] == list(ODD_ANSWERS)
    assert [SchemaRegistry().validate(RLMF_SCHEMA, record) for record in exported] == [
        [] for _ in ODD_ANSWERS
    ]
    options = cast("list[str]", cast("JsonObject", exported[0]["fork"])["options"])
    assert all(record["replay_output_class"] in options for record in exported)
