"""The check of sanitised inputs: recomputed, or unknown where that sanitiser is not at hand."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.conftest import SmallRun
from tests.theatre.every_feature import (
    CLEANED,
    DISCARDED,
    HIDDEN,
    LAST,
    READER,
    READER_VERSION,
    UNSENDABLE,
)
from tests.theatre.forged_bundle import (
    COMPUTATIONS,
    REGISTRY,
    SANITISER,
    SCORERS,
    Effort,
    Files,
    check,
    document,
    failed_ids,
    lines,
    load,
    rechained,
    resealed,
    store,
)
from tests.theatre.record_edits import (
    Edit,
    Record,
    each,
    forged,
    forged_everywhere,
    of_answer,
    of_call,
    of_record,
    raw_input,
    records_in,
    with_all,
)
from tests.theatre.runs import LATE
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.models import InputSanitiser
from theatre.oracles.sanitise import TextSanitiser

INPUTS = {"invocations", "sanitised-input"}


@pytest.fixture(scope="module")
def files(every_feature: Path) -> Files:
    return load(every_feature)


def test_the_run_sent_clean_text_and_kept_what_it_was_told_to_keep(files: Files) -> None:
    record = records_in(files)[CLEANED]
    sent = record["calls"][0]["request"]["input_data"]
    assert sent == {"number": 1, "text": "one word, <·|im_start|> and more", "verbatim": HIDDEN}
    assert record["calls"][1]["request"]["input_data"]["episode"] == sent
    assert record["sanitised"]["counts"] == {"bidi": 1, "role-marker": 1, "zero-width": 1}


def answered(record: Record) -> None:
    """Make the call that was never made."""
    record["calls"][0]["attempts"][0] |= {"reason": None}
    record["calls"][0]["attempts"][0]["response"] |= {
        "status": "error",
        "construct_id": READER,
        "construct_version": READER_VERSION,
    }


# fmt: off
INPUT_EDITS: list[tuple[str, int, Edit, set[str]]] = [
    ("raw text, recorded as sanitised", CLEANED, raw_input, INPUTS),
    ("raw text at the second hop alone", CLEANED,
     of_call(1, "request", "input_data", "episode", "text", to=HIDDEN), INPUTS),
    ("raw text at the second call alone", CLEANED,
     of_call(2, "request", "input_data", "text", to=HIDDEN), INPUTS),
    ("clean text where raw was committed", CLEANED,
     of_call(0, "request", "input_data", "verbatim", to="one word"), INPUTS),
    ("a call that says it got raw text", CLEANED,
     of_call(3, "request", "metadata", "sanitised", to=False), INPUTS),
    ("no record of the sanitising", CLEANED, of_record("sanitised", to=None), {"sanitised-input"}),
    ("a record of nothing", CLEANED, of_record("sanitised", to={}), {"sanitised-input"}),
    ("fewer changes", CLEANED, of_record("sanitised", "counts", "bidi", to=0),
     {"sanitised-input"}),
    ("a field less", CLEANED, of_record("sanitised", "fields", to=[]), {"sanitised-input"}),
    ("another digest of what was sent", CLEANED,
     of_record("sanitised", "sent_sha256", to="0" * 64), {"sanitised-input"}),
    ("role markers that were only flagged", CLEANED,
     of_record("sanitised", "role_markers", to="flag"), {"sanitised-input"}),
    ("another raw field", CLEANED, of_record("sanitised", "raw_fields", to=["/text"]),
     {"sanitised-input"}),
    ("a discarded input", DISCARDED[0], of_record("sanitised", "fields_changed", to=1),
     {"sanitised-input"}),
    ("the sanitiser of one record alone", CLEANED + 1,
     of_record("sanitised", "sanitiser_version", to="theatre-sanitise/0.9.0"),
     {"sanitised-input"}),
    ("no wrong names, nothing sent", UNSENDABLE, of_record("sanitised", "wrong_keys", to=[]),
     {"sanitised-input"}),
    ("an answer to what could not be sent", UNSENDABLE, answered, {"invocations"}),
    ("another reason", UNSENDABLE, of_call(0, "attempts", 0, "reason", to="crashed"),
     {"invocations"}),
    ("an answer in raw", UNSENDABLE, of_call(0, "attempts", 0, "raw", to="x"), {"invocations"}),
    ("a complaint of what was never asked", UNSENDABLE,
     of_call(0, "attempts", 0, "stderr", to="x"), {"invocations"}),
    ("a version of what was never asked", UNSENDABLE,
     of_answer(0, 0, construct_version="0" * 40), {"invocations"}),
    ("no word why", UNSENDABLE, of_answer(0, 0, error_detail=None), {"invocations"}),
    ("two attempts at what could not be sent", UNSENDABLE,
     lambda r: r["calls"][0]["attempts"].append(deepcopy(r["calls"][0]["attempts"][0])),
     {"invocations"}),
    ("a failure as if nothing could be sent", LAST,
     each(lambda r: r["calls"].pop(), of_call(0, "attempts", 0, "reason", to="unsendable-input"),
          of_call(0, "attempts", 0, "raw", to="x"),
          of_answer(0, 0, status="error", output_data=None, error_detail="no",
                    construct_id=None, construct_version=None)), {"invocations"}),
]
# fmt: on


@pytest.mark.parametrize(
    ("seq", "edit", "failed"), [pytest.param(*case[1:], id=case[0]) for case in INPUT_EDITS]
)
def test_an_input_that_is_not_what_the_sanitiser_makes_is_named(
    files: Files, tmp_path: Path, seq: int, edit: Edit, failed: set[str]
) -> None:
    assert failed_ids(check(store(forged(files, seq, edit), tmp_path / "bundle"))) == failed


def test_a_timed_out_call_in_place_of_an_unsendable_one_is_named(
    files: Files, tmp_path: Path
) -> None:
    timed_out = forged(files, UNSENDABLE, of_answer(0, 0, status="timeout"))
    assert "invocations" in failed_ids(check(store(timed_out, tmp_path / "bundle")))


@pytest.mark.parametrize(
    ("edit", "failed"),
    [
        (of_record("sanitised", to={}), {"sanitised-input"}),
        (of_call(0, "request", "metadata", "sanitised", to=True), INPUTS),
    ],
)
def test_a_run_without_a_sanitiser_may_not_claim_one(
    real_run: SmallRun, tmp_path: Path, edit: Edit, failed: set[str]
) -> None:
    claimed = forged(load(real_run.sealed), 1, edit)
    assert failed_ids(check(store(claimed, tmp_path / "bundle"))) == failed


@pytest.mark.parametrize("version", [None, "theatre-sanitise/0.9.0"])
def test_the_trail_names_the_sanitiser_of_the_records(
    files: Files, tmp_path: Path, version: str | None
) -> None:
    entries = lines(files, "audit_trail.jsonl")
    activated = next(entry for entry in entries if entry["event_type"] == "activated")
    cast("JsonObject", activated["detail"])["sanitiser"] = version
    renamed = resealed(rechained(files, entries), Effort.CERTIFIED_HASH)
    report = check(store(renamed, tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert told == {"audit-chain": 'activated/sanitiser "theatre-sanitise/1.0.0"'}


def test_a_record_of_another_sanitiser_first_does_not_hide_the_installed_one(
    files: Files, tmp_path: Path
) -> None:
    """Whichever record comes first, all have to name the same sanitiser."""
    records = records_in(files)
    records[1]["sanitised"]["sanitiser_version"] = "theatre-sanitise/0.9.0"
    report = check(store(with_all(files, records), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert "the sanitiser of all records" in told["sanitised-input"]


def test_the_digests_in_a_record_are_those_of_the_dataset_and_of_what_was_sent(
    files: Files,
) -> None:
    raw = lines(files, "ground_truth/dataset.jsonl")[CLEANED - 1]["input_data"]
    record = records_in(files)[CLEANED]
    sent = record["calls"][0]["request"]["input_data"]
    assert record["sanitised"]["raw_sha256"] == canonical_sha256(raw)
    assert record["sanitised"]["sent_sha256"] == canonical_sha256(sent)
    assert SANITISER.version == record["sanitised"]["sanitiser_version"]
    assert document(files, "template.json")["schema_version"] == "2.1.0"


class NewerSanitiser(TextSanitiser):
    """What a later release might ship: another version, or the same with other tables."""

    def __init__(self, member: str, value: str) -> None:
        self._other: JsonObject = {member: value}

    def sanitise(self, value: JsonObject, **policy: Any) -> Any:  # noqa: ANN401  # passed through
        made = super().sanitise(value, **policy)
        return replace(made, record=made.record | self._other)


def checked_with(folder: Path, sanitiser: InputSanitiser | None) -> CheckReport:
    return check_bundle(
        folder, SCORERS, registry=REGISTRY, computations=COMPUTATIONS, sanitiser=sanitiser, now=LATE
    )


@pytest.mark.parametrize(
    ("sanitiser", "installed"),
    [
        (None, "none"),
        (NewerSanitiser("sanitiser_version", "theatre-sanitise/2.0.0"), "theatre-sanitise/2.0.0"),
        (NewerSanitiser("tables_sha256", "0" * 64), f"theatre-sanitise/1.0.0 {'0' * 64}"),
    ],
)
def test_a_sanitiser_that_is_not_the_recorded_one_is_unavailable_and_nothing_fails(
    files: Files, tmp_path: Path, sanitiser: InputSanitiser | None, installed: str
) -> None:
    report = checked_with(store(files, tmp_path / "bundle"), sanitiser)
    assert report.failed == ()
    assert [line.id for line in report.unavailable] == ["sanitised-input"]
    assert f"is recorded and {installed}" in report.unavailable[0].actual
    assert not report.consistent


UNKNOWN = "theatre-sanitise/0.9.0"


def by_another(record: Record) -> None:
    record["sanitised"]["sanitiser_version"] = UNKNOWN


# fmt: off
BESIDE: list[tuple[str, int, Callable[[Record], object], set[str]]] = [
    ("another input", CLEANED, raw_input, {"sanitised-input"}),
    ("another input at a later call", CLEANED,
     of_call(2, "request", "input_data", "text", to=HIDDEN), INPUTS),
    ("a digest of another dataset", CLEANED,
     of_record("sanitised", "raw_sha256", to="0" * 64), {"sanitised-input"}),
    ("another policy", CLEANED, of_record("sanitised", "raw_fields", to=[]),
     {"sanitised-input"}),
    ("a member less", CLEANED, lambda r: r["sanitised"].pop("fields"), {"sanitised-input"}),
    ("a call that says it got raw text", CLEANED,
     of_call(0, "request", "metadata", "sanitised", to=False), INPUTS),
    ("no wrong names, nothing sent", UNSENDABLE, of_record("sanitised", "wrong_keys", to=[]),
     {"invocations"}),
    ("no digest of what was sent", DISCARDED[0], of_record("sanitised", "sent_sha256", to=None),
     {"sanitised-input"}),
]
# fmt: on


@pytest.mark.parametrize(
    ("seq", "edit", "failed"), [pytest.param(*case[1:], id=case[0]) for case in BESIDE]
)
def test_a_defect_shows_beside_a_sanitiser_that_is_missing(
    files: Files, tmp_path: Path, seq: int, edit: Edit, failed: set[str]
) -> None:
    folder = store(forged(files, seq, edit), tmp_path / "bundle")
    report = checked_with(folder, None)
    assert failed_ids(report) == failed


def test_a_bundle_of_another_sanitiser_throughout_is_unavailable(
    files: Files, tmp_path: Path
) -> None:
    other = forged_everywhere(files, by_another)
    entries = lines(other, "audit_trail.jsonl")
    activated = next(entry for entry in entries if entry["event_type"] == "activated")
    cast("JsonObject", activated["detail"])["sanitiser"] = UNKNOWN
    other = resealed(rechained(other, entries), Effort.CERTIFIED_HASH)
    report = check(store(other, tmp_path / "bundle"))
    assert report.failed == ()
    assert [line.id for line in report.unavailable] == ["sanitised-input"]
