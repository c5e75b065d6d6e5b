"""Sanitising in a run: the construct sees clean text, the evidence says what became of it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    EXPECTED,
    PILOT,
    SANITISED,
    Finished,
    ScriptedAdapter,
    call_step,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.oracles.sanitise_tables import TABLES_SHA256

STEPS = "/resolution_programme"
HIDDEN = "he\u200bllo\x07"
MARKED = "<|im_start|>system"
ASKED: JsonObject = {"seq": 1, "text": HIDDEN, "quote": {"by": MARKED}, "plain": ["as it is"]}
SENT: JsonObject = {
    "seq": 1,
    "text": "hello",
    "quote": {"by": "<·|im_start|>system"},
    "plain": ["as it is"],
}


def run(
    folder: Path,
    *inputs: JsonObject,
    construct: ScriptedAdapter | Mapping[str, ScriptedAdapter],
    changes: Mapping[str, JsonValue] | None = None,
) -> Finished:
    """Run over episodes with these inputs, sanitised."""
    records = episodes(len(inputs))
    for record, asked in zip(records, inputs, strict=True):
        record["input_data"] = asked
    stage = pilot_stage(folder, records, changes={**SANITISED, **(changes or {})})
    return stage.run(construct)


def sha256(value: JsonValue) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def sanitised(finished: Finished, seq: int = 1) -> dict[str, Any]:
    return cast("dict[str, Any]", finished.record(seq)["sanitised"])


def requests_in(finished: Finished, seq: int = 1) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", call["request"]) for call in finished.calls(seq)]


def test_the_construct_sees_clean_text_and_the_evidence_says_what_was_changed(
    tmp_path: Path,
) -> None:
    construct = ScriptedAdapter()
    finished = run(tmp_path, ASKED, construct=construct)
    (request,) = requests_in(finished)
    assert [asked.input_data for asked in construct.asked] == [SENT]
    assert (request["input_data"], request["metadata"]["sanitised"]) == (SENT, True)
    assert sanitised(finished) == {
        "sanitiser_version": "theatre-sanitise/1.0.0",
        "tables_sha256": TABLES_SHA256,
        "role_markers": "break",
        "raw_fields": [],
        "raw_sha256": sha256(ASKED),
        "sent_sha256": sha256(SENT),
        "counts": {"control": 1, "role-marker": 1, "zero-width": 1},
        "fields_changed": 2,
        "fields": [
            {"path": "/text", "counts": {"control": 1, "zero-width": 1}},
            {"path": "/quote/by", "counts": {"role-marker": 1}},
        ],
        "wrong_keys": [],
    }
    activated = cast("JsonObject", finished.trail[2]["detail"])
    assert activated["sanitiser"] == "theatre-sanitise/1.0.0"


def test_ground_truth_stays_as_it_was_written(tmp_path: Path) -> None:
    finished = run(tmp_path, ASKED, construct=ScriptedAdapter())
    truth = (finished.bundle / "ground_truth" / "dataset.jsonl").read_bytes()
    assert truth == (tmp_path / "truth.jsonl").read_bytes()
    assert "\u200b".encode() in truth


def test_plain_text_is_sent_as_it_is_and_recorded_as_seen(tmp_path: Path) -> None:
    plain: JsonObject = {"seq": 1, "text": "hello"}
    finished = run(tmp_path, plain, construct=ScriptedAdapter())
    record = sanitised(finished)
    assert record["raw_sha256"] == record["sent_sha256"] == sha256(plain)
    assert (record["counts"], record["fields_changed"], record["fields"]) == ({}, 0, [])
    assert requests_in(finished)[0]["metadata"]["sanitised"] is True


def test_without_sanitising_the_text_is_sent_raw_and_no_record_claims_otherwise(
    tmp_path: Path,
) -> None:
    construct = ScriptedAdapter()
    changes: dict[str, JsonValue] = {"/execution_policy/sanitise_input": False}
    finished = run(tmp_path, ASKED, construct=construct, changes=changes)
    (request,) = requests_in(finished)
    assert [asked.input_data for asked in construct.asked] == [ASKED]
    assert (request["input_data"], request["metadata"]["sanitised"]) == (ASKED, False)
    assert finished.record(1)["sanitised"] is None
    assert cast("JsonObject", finished.trail[2]["detail"])["sanitiser"] is None


def test_a_template_that_says_nothing_is_sanitised(tmp_path: Path) -> None:
    construct = ScriptedAdapter()
    run(tmp_path, ASKED, construct=construct, changes={"/execution_policy": {}})
    assert [asked.input_data for asked in construct.asked] == [SENT]


@pytest.mark.parametrize(
    ("spec", "sent", "fields_changed"),
    [
        ({"raw_fields": ["/text"]}, SENT | {"text": HIDDEN}, 1),
        ({"raw_fields": ["/text", "/quote/by"]}, ASKED, 0),
        ({"raw_fields": ["/quote"]}, SENT | {"quote": {"by": MARKED}}, 1),
        ({"raw_fields": [""]}, ASKED, 0),
        ({"raw_fields": ["/nowhere", "/text/0"]}, SENT, 2),
        ({"role_markers": "break"}, SENT, 2),
        ({"role_markers": "flag"}, SENT | {"quote": {"by": MARKED}}, 2),
    ],
)
def test_fields_and_markers_are_left_as_the_first_call_commits_it(
    tmp_path: Path, spec: JsonObject, sent: JsonObject, fields_changed: int
) -> None:
    construct = ScriptedAdapter()
    steps: list[JsonValue] = [call_step(input_spec=spec)]
    finished = run(tmp_path, ASKED, construct=construct, changes={STEPS: steps})
    assert [asked.input_data for asked in construct.asked] == [sent]
    record = sanitised(finished)
    assert record["raw_fields"] == spec.get("raw_fields", [])
    assert record["role_markers"] == spec.get("role_markers", "break")
    assert record["sent_sha256"] == sha256(sent)
    assert (record["fields_changed"], record["wrong_keys"]) == (fields_changed, [])


NAMED: JsonObject = {"seq": 2, "na\u200bme": "x", "deep": [{"<|im_end|>": 1}]}


def test_an_input_whose_names_would_have_to_change_is_sent_to_nobody(tmp_path: Path) -> None:
    construct = ScriptedAdapter()
    finished = run(
        tmp_path,
        ASKED,
        NAMED,
        ASKED | {"seq": 3},
        construct=construct,
        changes={
            "/execution_policy/on_threshold": "continue",
            "/execution_policy/retry_policy": {"max_retries": 3, "backoff_seconds": 0},
        },
    )
    assert [asked.input_data["seq"] for asked in construct.asked] == [1, 3]
    pointers = ["/deep/0/<|im_end|>", "/na\\u200bme"]
    assert sorted(sanitised(finished, 2)["wrong_keys"]) == pointers
    (call,) = finished.calls(2)
    (attempt,) = cast("list[dict[str, Any]]", call["attempts"])
    detail = attempt["response"]["error_detail"]
    assert (attempt["reason"], attempt["response"]["status"]) == ("unsendable-input", "error")
    assert attempt["response"]["output_data"] is None
    assert (attempt["raw"], attempt["stderr"]) == (None, None)
    assert detail.startswith("expected member names that the sanitiser leaves as they are, got at ")
    assert detail.endswith(": rename them in the dataset")
    assert all(pointer in detail for pointer in sanitised(finished, 2)["wrong_keys"])
    assert [line["outcome"] for line in finished.lines("scores/per_episode.jsonl")] == [
        "scored",
        "missing",
        "scored",
    ]
    (event,) = [
        entry["detail"] for entry in finished.trail if entry["event_type"] == "episode_failed"
    ]
    assert event == {
        "seq": 2,
        "episode_id": "pilot-2",
        "construct_id": PILOT,
        "hop": 0,
        "status": "error",
        "reason": "unsendable-input",
        "error_detail": detail,
    }


def test_names_below_a_raw_field_are_nobody_s_business(tmp_path: Path) -> None:
    construct = ScriptedAdapter()
    steps: list[JsonValue] = [call_step(input_spec={"raw_fields": ["/deep"]})]
    asked: JsonObject = {"seq": 1, "deep": [{"<|im_end|>": 1}]}
    finished = run(tmp_path, asked, construct=construct, changes={STEPS: steps})
    assert [request.input_data for request in construct.asked] == [asked]
    assert sanitised(finished)["wrong_keys"] == []


def test_a_chain_is_sent_the_clean_episode_at_every_hop_and_outputs_as_they_were(
    tmp_path: Path,
) -> None:
    loud: JsonObject = {"said": HIDDEN, "na\u200bme": MARKED}

    def easel(_: OracleInvocationRequest) -> JsonObject:
        return {"output_data": {**loud}}

    constructs = {
        EASEL: ScriptedAdapter(easel, version=EASEL_VERSION),
        PILOT: ScriptedAdapter(lambda _: {"output_data": {**EXPECTED}}),
    }
    finished = run(tmp_path, ASKED, construct=constructs, changes=CHAIN)
    first, second = requests_in(finished)
    assert first["input_data"] == SENT
    assert second["input_data"] == {"episode": SENT, "upstream": {EASEL: loud}}
    assert [request["metadata"]["sanitised"] for request in (first, second)] == [True, True]


def test_a_repeat_is_sent_the_same_clean_text(tmp_path: Path) -> None:
    construct = ScriptedAdapter()
    changes: dict[str, JsonValue] = {"/execution_policy/deterministic_sample": 1}
    finished = run(tmp_path, ASKED, construct=construct, changes=changes)
    assert [request["input_data"] for request in requests_in(finished)] == [SENT, SENT]


def test_an_unsendable_input_of_the_sample_is_not_repeated_and_of_a_chain_meets_nobody(
    tmp_path: Path,
) -> None:
    constructs = {EASEL: ScriptedAdapter(version=EASEL_VERSION), PILOT: ScriptedAdapter()}
    finished = run(
        tmp_path,
        NAMED,
        ASKED,
        construct=constructs,
        changes={
            **CHAIN,
            "/execution_policy/deterministic_sample": 2,
            "/execution_policy/on_threshold": "continue",
        },
    )
    calls = finished.calls(1)
    assert [(call["hop"], call["repeat"], call["construct_id"]) for call in calls] == [
        (0, 0, EASEL)
    ]
    assert len(finished.calls(2)) == 4
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert (facts["determinism_differences"], facts["failures"]) == (0, 1)


def test_scorers_are_shown_the_text_of_the_dataset(tmp_path: Path) -> None:
    """A check has the dataset: what scorers see must not depend on the sanitiser."""

    def raw(case: ScoringCase) -> float:
        return 1.0 if case.input_data == ASKED else 0.0

    records = episodes(1)
    records[0]["input_data"] = ASKED
    scorers = {
        name: Scorer(name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, score=raw)
        for name in ("exact_match", "numeric_tolerance")
    }
    finished = pilot_stage(tmp_path, records, changes=SANITISED).run(
        ScriptedAdapter(), scorers=scorers
    )
    (line,) = finished.lines("scores/per_episode.jsonl")
    assert line["scores"] == {"colour": 1, "recall": 1}
