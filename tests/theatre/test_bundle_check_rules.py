"""The rules of the independent check, one by one: what a plan, an attempt, a batch may be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.conftest import CONSTRUCT_ID, TEMPLATE, SmallRun
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    lines,
    load,
    rechained,
    resealed,
    store,
    with_document,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.attempts import check_attempts
from theatre.engine.bundle_check.batches import batch_of
from theatre.engine.bundle_check.json_values import DefectError
from theatre.engine.bundle_check.plan import committed_plan
from theatre.engine.bundle_check.records import RecordChecker
from theatre.engine.bundle_check.report import Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import read_episodes

SHA = "ab" * 32
INVOCATION_ID = "00000000-0000-5000-8000-000000000000"
GOLD = "ground_truth/gold_labels.jsonl"
TRAIL = "audit_trail.jsonl"

Edit = Callable[[Any], object]


@pytest.fixture(scope="session")
def files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


def template(edit: Edit = lambda _: None) -> JsonObject:
    edited = cast("Any", copy.deepcopy(TEMPLATE))
    edited["version_pins"]["constructs"][CONSTRUCT_ID] = "0123456"
    edited["dataset_hashes"] = {"sums": SHA, "gold_labels": SHA}
    edit(edited)
    return cast("JsonObject", edited)


def test_a_plan_is_read_with_the_documented_defaults() -> None:
    document = cast("dict[str, Any]", template())
    document["execution_policy"] = {"sanitise_input": False}
    del document["version_pins"]["adapter_version"]
    del document["criteria"]["weights"]
    plan = committed_plan(document)
    assert plan.retry_policy == {"max_retries": 2, "backoff_seconds": 5}
    assert plan.max_attempts == 3
    assert (plan.timeout_seconds, plan.failure_threshold) == (30, Fraction(1, 5))
    assert (plan.max_refusal_rate, plan.methodology_version) == (Fraction(1, 2), "1.0.0")
    assert (plan.adapter_version, plan.chain_versions) == (None, None)
    assert plan.criteria["weights"] == {}
    assert plan.datasets == {
        "ground_truth/dataset.jsonl": SHA,
        "ground_truth/gold_labels.jsonl": SHA,
    }


# fmt: off
NO_PLAN: list[tuple[Edit, str]] = [
    (lambda t: t.update(execution_path="market"), "a replay template"),
    (lambda t: t["execution_policy"].pop("sanitise_input"), "sanitise_input false"),
    (lambda t: t["execution_policy"].update(deterministic_sample=3), "deterministic_sample 0"),
    (lambda t: t["product_theatre_config"].update(episode_runner="game"), "episode_runner"),
    (lambda t: t["product_theatre_config"].update(adapter_type="mock"), "reaches a real construct"),
    (lambda t: t["product_theatre_config"].update(construct_chain=["a", "sums"]), "alone"),
    (lambda t: t["product_theatre_config"].pop("replay_dataset_id"), "replay_dataset_id"),
    (lambda t: t["product_theatre_config"].update(replay_dataset_id="x"), "replay_dataset_id"),
    (lambda t: t["version_pins"].update(constructs={}), 'a version pin of "sums"'),
    (lambda t: t["resolution_programme"].pop(0), "a programme of one construct_invocation"),
    (lambda t: t["resolution_programme"][1].update(type="hitl_rubric"), "a programme of one"),
    (lambda t: t["resolution_programme"][1].update(step_id="add"), "step ids that are unique"),
    (lambda t: t["resolution_programme"][0].update(output_spec={"type": "object"}), "output_spec"),
    (lambda t: t["resolution_programme"][0].update(construct_id="other"), "under test"),
    (lambda t: t["criteria"].update(criteria_ids=["composite_score"]), "not named composite_score"),
    (lambda t: t["criteria"]["weights"].pop("parity"), "weights for exactly the criteria"),
    (lambda t: t["criteria"]["weights"].update(parity=0.4), "sum to 1"),
    (lambda t: t["criteria"]["weights"].update(parity=-0.3, addition=1.1), "sum to 1"),
    (lambda t: t["criteria"].update(weights={"addition": 0, "parity": 0, "overlap": 0}),
     "sum to 1"),
    (lambda t: t["scoring"]["criteria_scorers"].pop("overlap"), "a scorer for criterion overlap"),
    (lambda t: t["scoring"]["criteria_scorers"]["parity"]["params"].update(field="9" * 5000),
     "at most 1000 characters"),
    (lambda t: t["dataset_hashes"].update({"../../escape": SHA}), "dataset names with a file each"),
    (lambda t: t["dataset_hashes"].update({"dataset": SHA}), "dataset names with a file each"),
]
# fmt: on


@pytest.mark.parametrize(("edit", "expected"), NO_PLAN)
def test_what_cannot_be_recomputed_is_refused_and_never_passed(edit: Edit, expected: str) -> None:
    with pytest.raises(DefectError, match="expected") as refused:
        committed_plan(template(edit))
    assert expected in refused.value.expected


def attempt(
    status: JsonValue = "success", reason: str | None = None, **response: JsonValue
) -> dict[str, Any]:
    answered: JsonObject = {
        "invocation_id": INVOCATION_ID,
        "construct_id": "c" if reason is None else None,
        "construct_version": "0123456" if reason is None else None,
        "output_data": {} if status == "success" else None,
        "latency_ms": 3,
        "status": status,
        "error_detail": None if status == "success" else "why",
        "responded_at": "2026-11-21T02:07:00.000000Z",
    }
    return {"response": answered | response, "reason": reason, "raw": None, "stderr": None}


def judged(*attempts: JsonValue, max_attempts: int = 3) -> None:
    check_attempts(
        list(attempts), invocation_id=INVOCATION_ID, construct_id="c", max_attempts=max_attempts
    )


ERROR = attempt("error")
TIMEOUT = attempt("timeout", "timeout")
MISMATCH = attempt("error", "version-mismatch")


@pytest.mark.parametrize(
    "attempts",
    [
        [attempt()],
        [attempt("refused")],
        [attempt("refused", output_data={})],
        [attempt("error", output_data={"partial": 1}), ERROR, ERROR],
        [ERROR, TIMEOUT, attempt()],
        [ERROR, TIMEOUT, attempt("timeout")],
        [ERROR, attempt("refused")],
        [MISMATCH],
        [TIMEOUT, MISMATCH],
        [attempt(error_detail="slow today")],
        [attempt("error", "not-json") | {"raw": "x", "stderr": "y"}] * 3,
    ],
)
def test_attempts_that_the_protocol_allows_pass(attempts: list[JsonValue]) -> None:
    judged(*attempts)


# fmt: off
REFUSED_ATTEMPTS: list[tuple[list[JsonValue], str]] = [
    ([], "attempts as an array of one or more"),
    ([ERROR] * 4, "at most 3 attempts"),
    ([ERROR], "3 attempts at a failing call"),
    ([ERROR, TIMEOUT], "3 attempts at a failing call"),
    ([attempt(), ERROR, ERROR], "no attempt behind one that ended the call"),
    ([attempt("refused"), attempt()], "no attempt behind one that ended the call"),
    ([MISMATCH, attempt()], "no attempt behind one that ended the call"),
    (["no attempt"], "attempt 1 with an attempt as an object"),
    ([attempt() | {"extra": 1}], "an attempt with exactly"),
    ([attempt() | {"response": None}], "a response as an object"),
    ([attempt(extra=1)], "a response with exactly"),
    ([attempt(invocation_id="another")], "invocation_id"),
    ([attempt(construct_id="d")], 'construct_id "c"'),
    ([attempt(construct_id=1)], "construct_id as text or null"),
    ([attempt(latency_ms=-1)], "latency_ms as an integer from 0"),
    ([attempt(latency_ms=True)], "latency_ms as an integer from 0"),
    ([attempt(latency_ms=1.5)], "latency_ms as an integer from 0"),
    ([attempt(responded_at="yesterday")], "responded_at as an RFC 3339 time"),
    ([attempt(status="SUCCESS")], "status as one of"),
    ([attempt(status=["success"])], "status as one of"),
    ([attempt("success", "late")], "status timeout or error where a reason stands"),
    ([attempt(output_data=None)], "output_data as an object on success"),
    ([attempt("refused", output_data=[])], "output_data as an object on success"),
    ([attempt("error", "not-json", output_data={})], "output_data null where a reason stands"),
    ([attempt("refused", error_detail=None)], "error_detail where the call did not succeed"),
    ([attempt("refused", error_detail="x" * 2001)], "error_detail of at most 2000 characters"),
    ([attempt() | {"raw": "x"}], "raw null where the answer was accepted"),
    ([attempt() | {"stderr": 1}], "stderr as text or null"),
    ([attempt("error", "")], "reason as a code or null"),
    ([attempt("error", "timeout")], "the status timeout for that reason"),
]
# fmt: on


@pytest.mark.parametrize(("attempts", "expected"), REFUSED_ATTEMPTS)
def test_attempts_that_the_protocol_does_not_allow_are_named(
    attempts: list[JsonValue], expected: str
) -> None:
    with pytest.raises(DefectError, match="expected") as refused:
        judged(*attempts)
    assert expected in refused.value.expected


STATUSES: JsonObject = {"success": 1, "timeout": 0, "error": 0, "refused": 0}
BATCH: JsonObject = {"seqs": [[1, 1]], "records_sha256": SHA, "statuses": STATUSES}


@pytest.mark.parametrize(
    "change",
    [
        {"seqs": []},
        {"seqs": [[0, 1]]},
        {"seqs": [[2, 1]]},
        {"seqs": [[1, 2], [2, 3]]},
        {"seqs": [[1]]},
        {"seqs": [["1", "2"]]},
        {"seqs": [[1, True]]},
        {"seqs": {"1": 2}},
        {"records_sha256": "AB" * 32},
        {"records_sha256": f"{SHA}\n"},
        {"statuses": {"success": 1}},
        {"extra": 1},
    ],
)
def test_a_batch_is_read_strictly(change: JsonObject) -> None:
    assert batch_of(BATCH).ranges == [(1, 1)]
    with pytest.raises(DefectError, match="expected"):
        batch_of(BATCH | change)


def test_a_batch_of_all_numbers_costs_nothing() -> None:
    assert batch_of(BATCH | {"seqs": [[1, 2**53 - 1]]}).ranges == [(1, 2**53 - 1)]


def with_trail(files: Files, edit: Callable[[list[Any]], object], folder: Path) -> CheckReport:
    """Check a bundle whose trail was edited and its chain made anew, up to the certificate."""
    entries = lines(files, TRAIL)
    edit(entries)
    return check(store(resealed(rechained(files, entries), Effort.CERTIFIED_HASH), folder))


def entry_of(trail: list[Any], event_type: str) -> JsonObject:
    return next(entry for entry in trail if entry["event_type"] == event_type)


# fmt: off
TRAIL_EDITS: list[tuple[Callable[[list[Any]], object], str]] = [
    (lambda t: t.pop(0), "created behind start"),
    (lambda t: t.pop(), "a last entry sealed"),
    (lambda t: t.append(t[-1]), "no entry behind sealed"),
    (lambda t: t.insert(2, t[-2]), "activated behind committed"),
    (lambda t: t[0].update(event_type="born"), "an event of the lifecycle"),
    (lambda t: t[0].update(event_type=["created"]), "an event of the lifecycle"),
    (lambda t: t[1].update(theatre_id=INVOCATION_ID), "an unbroken chain"),
    (lambda t: t[1].update(remark=1), "an unbroken chain"),
    (lambda t: t[0]["detail"].update(template_id="other_v1"), "created/template_id"),
    (lambda t: t[2]["detail"].update(remark=1), "the detail of activated with exactly"),
    (lambda t: t[2]["detail"].update(episodes=11), "activated/episodes 10"),
    (lambda t: t[2]["detail"]["adapters"].update(other="local@1"), "activated/adapters/other"),
    (lambda t: t[2]["detail"]["scorers"].update(exact_match="2"), "activated/scorers/exact_match"),
    (lambda t: t[3].update(at="now"), "at as an RFC 3339 time"),
    (lambda t: t[3].update(at="2026-01-01T00:00:00Z"), "not before the entry above"),
    (lambda t: t[3].update(to_state="SETTLING"), "episodes_recorded from None to None"),
    (lambda t: t[2].update(from_state="DRAFT"), "activated from COMMITTED to ACTIVE"),
    (lambda t: t[3]["detail"].update(remark=1), "the detail of episodes_recorded"),
    (lambda t: entry_of(t, "settling").update(detail={"reason": "x"}), "the detail of settling"),
    (lambda t: t[-1].update(detail=None), "the detail of sealed as an object"),
    (lambda t: t[-1]["detail"].update(certificate_id=INVOCATION_ID), "sealed/certificate_id"),
    (lambda t: t[-1]["detail"].update(issued_at="2026-01-01T00:00:00Z"), "sealed/issued_at"),
    (lambda t: t[-1]["detail"].update(theatre_resolved_at="2026"), "sealed/theatre_resolved_at"),
    (lambda t: t.clear(), "a last entry sealed"),
]
# fmt: on


@pytest.mark.parametrize(("edit", "expected"), TRAIL_EDITS)
def test_a_trail_off_its_way_is_named_though_its_chain_holds(
    files: Files, tmp_path: Path, edit: Callable[[list[Any]], object], expected: str
) -> None:
    report = with_trail(files, edit, tmp_path / "bundle")
    told = {line.id: line.expected for line in report.failed}
    assert expected in told["audit-chain"]


def test_a_step_that_the_trail_leaves_out_is_named(files: Files, tmp_path: Path) -> None:
    report = with_trail(
        files, lambda trail: trail.remove(entry_of(trail, "step_completed")), tmp_path / "bundle"
    )
    assert failed_ids(report) == {"resolution"}


def test_a_whole_rewrite_shows_only_beside_a_copy_that_somebody_kept(
    files: Files, tmp_path: Path
) -> None:
    entries = lines(files, TRAIL)
    sealed = entry_of(entries, "sealed")
    sealed["detail"] = {**cast("JsonObject", sealed["detail"]), "issuer": "another"}
    forged = changed(
        rechained(files, entries), "certificate.json", lambda whole: whole.update(issuer="another")
    )
    folder = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle")
    assert check(folder).valid
    kept = check(folder, certificate=files["certificate.json"])
    assert failed_ids(kept) == {"certificate-copy"}


def test_batches_that_overlap_are_named(files: Files, tmp_path: Path) -> None:
    def overlap(trail: list[Any]) -> None:
        batches = [entry for entry in trail if entry["event_type"] == "episodes_recorded"]
        assert len(batches) == 3
        batches[1]["detail"]["seqs"] = batches[0]["detail"]["seqs"]

    report = with_trail(files, overlap, tmp_path / "bundle")
    told = {line.id: (line.expected, line.actual) for line in report.failed}
    assert told["audit-episodes"][0] == "each episode in one batch of the trail"
    assert told["audit-episodes"][1].startswith("episode 1 in two")


def test_a_count_that_is_not_that_of_the_records_is_named(files: Files, tmp_path: Path) -> None:
    def count_more(trail: list[Any]) -> None:
        trail[3]["detail"]["statuses"]["success"] += 1

    assert failed_ids(with_trail(files, count_more, tmp_path / "bundle")) == {"audit-episodes"}


def test_a_failure_that_the_trail_leaves_out_is_named(files: Files, tmp_path: Path) -> None:
    def leave_out(trail: list[Any]) -> None:
        events = [entry["event_type"] for entry in trail]
        del trail[events.index("episode_refused")]

    report = with_trail(files, leave_out, tmp_path / "bundle")
    told = {line.id: line.expected for line in report.failed}
    expected = "an entry for each failure and refusal in the batch of episodes 1 to 4"
    assert told["audit-episodes"] == expected


@pytest.mark.parametrize("raw", [b"no label\n", b"\n", b'{"episode_id":"sum-1"}\n'])
def test_gold_labels_that_cannot_be_read_leave_nothing_scored(
    files: Files, tmp_path: Path, raw: bytes
) -> None:
    forged = resealed(files | {GOLD: raw}, Effort.CERTIFIED_HASH)
    report = check(store(forged, tmp_path / "bundle"))
    told = {line.id: line.actual for line in report.failed}
    assert told["scores"] == "not computed because the gold labels cannot be read"
    assert set(told) == {"datasets", "outcomes", "scores", "aggregate"}


def test_a_dataset_more_than_was_committed_is_named(files: Files, tmp_path: Path) -> None:
    forged = resealed(files | {"ground_truth/more.jsonl": files[GOLD]}, Effort.CERTIFIED_HASH)
    failed = failed_ids(check(store(forged, tmp_path / "bundle")))
    assert failed == {"inventory", "datasets", "tier"}


def test_params_that_their_scorer_does_not_take_are_named(files: Files, tmp_path: Path) -> None:
    """Not even a template that was committed with them makes the scorer run on them."""
    text = b'"field":"sum"'
    forged = dict(files)
    for name in ("template.json", "commitment_receipt.json"):
        assert text in forged[name]
        forged[name] = forged[name].replace(text, b'"field":""')
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    told = {line.id: line.actual for line in report.failed}
    assert told["scorers"].startswith("not computed because params of addition/field:")
    assert told["scores"] == told["scorers"]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda t: t.update(display_name=""), "a template that fits echelon_theatre_schema_v2_1"),
        (lambda t: t.update(schema_version="2.0.1"), "a template that fits"),
        (lambda t: t["product_theatre_config"].update(adapter_type="mock"), "real construct"),
    ],
)
def test_a_template_that_never_could_be_committed_is_named_though_the_receipt_agrees(
    files: Files, tmp_path: Path, edit: Edit, expected: str
) -> None:
    committed = document(files, "template.json")
    edit(committed)
    receipt = document(files, "commitment_receipt.json") | {"template_snapshot": committed}
    forged = with_document(
        with_document(files, "template.json", committed), "commitment_receipt.json", receipt
    )
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert expected in told["template"]
    assert {"datasets", "scorers", "scores", "tier", "certificate-fields"} <= set(told)


# fmt: off
ADAPTERS: list[tuple[str | None, str, str, str]] = [
    ("local@1", "http@1", "local@1", "the adapter that the trail names"),
    ("local@1", "local@2", "local@2", "the committed adapter_version"),
    (None, "mock@1", "mock@1", "an adapter that reaches a real construct"),
]
# fmt: on


@pytest.mark.parametrize(("pinned", "in_trail", "in_record", "expected"), ADAPTERS)
def test_an_adapter_is_the_committed_the_audited_and_a_real_one(
    files: Files, pinned: str | None, in_trail: str, in_record: str, expected: str
) -> None:
    plan = replace(committed_plan(document(files, "template.json")), adapter_version=pinned)
    theatre_id = cast("str", document(files, "manifest.json")["theatre_id"])
    asked = next(read_episodes(files["ground_truth/dataset.jsonl"].splitlines()))
    record = cast("Any", document(files, "invocations/episode_000001.json"))
    ledger = Ledger()
    RecordChecker(plan, theatre_id, record["calls"][0]["adapter"], ledger).check(record, asked, "")
    record["calls"][0]["adapter"] = in_record
    RecordChecker(plan, theatre_id, in_trail, ledger).check(record, asked, "here")
    told = {line.id: line.expected for line in ledger.report().failed}
    assert told["invocations"].startswith(f"here: {expected}")
