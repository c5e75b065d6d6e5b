"""A sanitiser that is not at hand: the check says so, and still finds defects."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.every_feature import CLEANED, DISCARDED, HIDDEN, UNSENDABLE, run_every_feature
from tests.theatre.forged_bundle import (
    COMPUTATIONS,
    REGISTRY,
    SCORERS,
    Effort,
    Files,
    check,
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
    forged,
    forged_everywhere,
    of_call,
    of_record,
    raw_input,
)
from tests.theatre.runs import LATE
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InputSanitiser
from theatre.oracles.sanitise import TextSanitiser

INPUTS = {"invocations", "sanitised-input"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return load(run_every_feature(tmp_path_factory.mktemp("features")))


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
