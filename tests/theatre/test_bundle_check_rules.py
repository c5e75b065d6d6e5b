"""The rules of the independent check, one by one: what a call and its data may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.conftest import CONSTRUCT_ID, EVERY_OUTCOME, SmallRun, run_small_theatre
from tests.theatre.conftest import GOLD as GOLD_LABELS
from tests.theatre.forged_bundle import (
    REGISTRY,
    Effort,
    Files,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.runs import LATE
from theatre.engine.bundle_check.batches import Recorded
from theatre.engine.bundle_check.calls import (
    CallChecker,
    CallPlace,
    CommittedCall,
    OutputShape,
    check_attempts,
)
from theatre.engine.bundle_check.plan import committed_plan
from theatre.engine.bundle_check.report import NOTHING, DefectError, Nothing
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Coin, Draws
from theatre.engine.models import read_episodes

INVOCATION_ID = "00000000-0000-5000-8000-000000000000"
GOLD = "ground_truth/gold_labels.jsonl"

Edit = Callable[[Any], object]


@pytest.fixture(scope="session")
def files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


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


def judged(*attempts: JsonValue) -> None:
    call = CommittedCall(
        invocation_id=INVOCATION_ID,
        construct_id="c",
        version="0123456",
        max_attempts=3,
        shape=OutputShape({}, REGISTRY),
    )
    check_attempts(list(attempts), call)


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
    ([attempt("error", "unsendable-input")], "no reason unsendable-input"),
    ([attempt("error", "output-spec", construct_id="c", construct_version="0123456")],
     "no reason output-spec without an output_spec"),
]
# fmt: on


@pytest.mark.parametrize(("attempts", "expected"), REFUSED_ATTEMPTS)
def test_attempts_that_the_protocol_does_not_allow_are_named(
    attempts: list[JsonValue], expected: str
) -> None:
    with pytest.raises(DefectError, match="expected") as refused:
        judged(*attempts)
    assert expected in refused.value.expected


@pytest.mark.parametrize("raw", [b"no label\n", b"\n", b'{"episode_id":"sum-1"}\n'])
def test_gold_labels_that_cannot_be_read_leave_nothing_scored(
    files: Files, tmp_path: Path, raw: bytes
) -> None:
    forged = resealed(files | {GOLD: raw}, Effort.CERTIFIED_HASH)
    report = check(store(forged, tmp_path / "bundle"))
    told = {line.id: line.actual for line in report.failed}
    assert told["scores"] == "not computed because the gold labels cannot be read"
    assert set(told) == {
        *("datasets", "outcomes", "scores", "aggregate", "data-audit", "baselines"),
        "certificate-fields",
    }


def test_a_gold_label_of_no_episode_is_not_used(tmp_path: Path) -> None:
    stranger: JsonObject = {"episode_id": "sum-99", "label": {"even": True}, "labeller": "a test"}
    run = run_small_theatre(tmp_path, episodes=EVERY_OUTCOME[:2], gold=[*GOLD_LABELS, stranger])
    assert check(run.sealed).consistent
    found = verify(run.sealed, now=LATE).problems
    assert {name: problems for name, problems in found.items() if problems} == {}


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


def reserving(template: Any, member: str, **reserved: object) -> None:  # noqa: ANN401  # a document at will
    """Commit, under 2.2.0, to what no version runs."""
    template["schema_version"] = "2.2.0"
    template.setdefault(member, {}).update(reserved)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda t: t.update(display_name=""), "a template that fits echelon_theatre_schema_v2_1"),
        (lambda t: t.update(schema_version="2.0.1"), "a template that fits"),
        (lambda t: t["product_theatre_config"].update(adapter_type="mock"), "real construct"),
        (
            lambda t: reserving(t, "execution_policy", repeats=2, deterministic_sample=1),
            "repeats of single calls alone",
        ),
        (
            lambda t: reserving(t, "product_theatre_config", adapter_type="openai"),
            "pinned by the hash of what it is asked",
        ),
        (
            lambda t: t["resolution_programme"][0].update(output_spec={"type": "objekt"}),
            "an output_spec that is a usable JSON Schema",
        ),
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


@pytest.mark.parametrize(
    ("statuses", "counts"),
    [
        (("refused", "success", "error"), "success"),
        (("refused", "error", "timeout"), "error"),
        (("refused", "refused"), "refused"),
        (("success", "unknown"), "success"),
        ((), NOTHING),
    ],
)
def test_no_refusal_hides_a_round_that_was_answered_or_failed(
    statuses: tuple[str, ...], counts: JsonValue | Nothing
) -> None:
    calls: list[JsonValue] = [
        {"repeat": repeat, "attempts": [{"response": {"status": status}}]}
        for repeat, status in enumerate(statuses)
    ]
    assert Recorded({"calls": calls}).status == counts


# fmt: off
ADAPTERS: list[tuple[str | None, str, str, str]] = [
    ("local@1", "http@1", "local@1", "the adapter that the trail names"),
    ("local@1", "local@2", "local@2", "the committed adapter_version"),
    (None, "mock@1", "mock@1", "an adapter that reaches a real construct"),
    (None, "imported@1", "imported@1", "an adapter of the committed adapter_type local"),
    (None, "plain_http@1", "plain_http@1", "an adapter of the committed adapter_type local"),
]
# fmt: on


@pytest.mark.parametrize(("pinned", "in_trail", "in_record", "expected"), ADAPTERS)
def test_an_adapter_is_the_committed_the_audited_and_a_real_one(
    files: Files, pinned: str | None, in_trail: str, in_record: str, expected: str
) -> None:
    plan = committed_plan(document(files, "template.json"))._replace(adapter_version=pinned)
    theatre_id = cast("str", document(files, "manifest.json")["theatre_id"])
    asked = next(read_episodes(files["ground_truth/dataset.jsonl"].splitlines()))
    call = cast("Any", document(files, "invocations/episode_000001.json"))["calls"][0]
    place = CallPlace(episode=asked, hop=0, repeat=0)
    draws = Draws(Coin.from_line(files["coin.txt"]), plan.commitment_hash)
    honest = CallChecker(plan, theatre_id, draws, {CONSTRUCT_ID: call["adapter"]}, REGISTRY)
    if pinned in (None, call["adapter"]):
        assert honest.check(call, place, asked.input_data) == {"sum": 3, "parity": False}
    checker = CallChecker(plan, theatre_id, draws, {CONSTRUCT_ID: in_trail}, REGISTRY)
    with pytest.raises(DefectError) as refused:
        checker.check(call | {"adapter": in_record}, place, asked.input_data)
    assert refused.value.expected.startswith(expected)
