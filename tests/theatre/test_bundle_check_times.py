"""Times that contradict each other, in bundles where everything else was made anew."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.conftest import SmallRun
from tests.theatre.forged_bundle import (
    COMPUTATIONS,
    REGISTRY,
    SANITISER,
    SCORERS,
    Effort,
    Files,
    check,
    failed_ids,
    lines,
    load,
    rechained,
    records_of,
    resealed,
    store,
    with_records,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339, parse_rfc3339

TRAIL = "audit_trail.jsonl"
MICROSECOND = timedelta(microseconds=1)

Record = Any
Edit = Callable[[list[Record], "Stamps"], None]


class Stamps:
    """The times of an honest trail, by event."""

    def __init__(self, files: Files) -> None:
        self._entries = {str(e["event_type"]): str(e["at"]) for e in lines(files, TRAIL)}

    def of(self, event_type: str, shift: timedelta = timedelta(0)) -> str:
        return format_rfc3339(parse_rfc3339(self._entries[event_type]) + shift)


@pytest.fixture(scope="session")
def files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


def asked(record: Record, moment: str) -> None:
    record["calls"][0]["request"]["metadata"]["invoked_at"] = moment


def answered(record: Record, moment: str, attempt: int = -1) -> None:
    record["calls"][0]["attempts"][attempt]["response"]["responded_at"] = moment


def asked_before_commitment(grace: timedelta) -> Edit:
    return lambda records, stamps: asked(records[0], stamps.of("committed", -grace))


def answered_after_sealing(late: timedelta) -> Edit:
    return lambda records, stamps: answered(records[-1], stamps.of("sealed", late))


def answered_before_asked(records: list[Record], stamps: Stamps) -> None:
    asked(records[0], stamps.of("settling"))
    answered(records[0], stamps.of("settling", -MICROSECOND))


def attempts_that_cross(records: list[Record], stamps: Stamps) -> None:
    record = next(one for one in records if len(one["calls"][0]["attempts"]) > 1)
    answered(record, stamps.of("settling"), 0)
    answered(record, stamps.of("settling", -MICROSECOND), 1)


# fmt: off
CASES: list[tuple[str, Edit, set[str]]] = [
    ("asked five seconds before the commitment", asked_before_commitment(timedelta(seconds=5)),
     set()),
    ("asked earlier than that", asked_before_commitment(timedelta(seconds=5) + MICROSECOND),
     {"times"}),
    ("answered when it was sealed", answered_after_sealing(timedelta(0)), set()),
    ("answered after that", answered_after_sealing(MICROSECOND), {"times"}),
    ("sealed a year before the answers", answered_after_sealing(timedelta(days=365)), {"times"}),
    ("answered before it was asked", answered_before_asked, {"times"}),
    ("a second attempt before the first", attempts_that_cross, {"times"}),
]
# fmt: on


@pytest.mark.parametrize(("edit", "failed"), [pytest.param(*c[1:], id=c[0]) for c in CASES])
def test_calls_and_answers_follow_each_other_between_commitment_and_sealing(
    files: Files, tmp_path: Path, edit: Edit, failed: set[str]
) -> None:
    records = records_of(files)
    edit(list(records.values()), Stamps(files))
    forged = resealed(with_records(files, records), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == failed


def test_the_trail_never_goes_back(files: Files, tmp_path: Path) -> None:
    entries = lines(files, TRAIL)
    number = next(n for n, entry in enumerate(entries) if entry["event_type"] == "settling")
    before = parse_rfc3339(cast("str", entries[number - 1]["at"]))
    for shift, failed in ((timedelta(0), set()), (-MICROSECOND, {"times"})):
        moved: list[JsonObject] = [*entries]
        moved[number] = entries[number] | {"at": format_rfc3339(before + shift)}
        forged = resealed(rechained(files, moved), Effort.CERTIFIED_HASH)
        report = check(store(forged, tmp_path / f"bundle{shift}"))
        assert failed_ids(report) == failed


def checked_at(bundle: Path, now: datetime) -> CheckReport:
    return check_bundle(
        bundle, SCORERS, registry=REGISTRY, computations=COMPUTATIONS, sanitiser=SANITISER, now=now
    )


def test_no_time_is_to_come_but_for_five_minutes_of_another_clock(
    files: Files, tmp_path: Path
) -> None:
    bundle = store(files, tmp_path / "bundle")
    sealed = parse_rfc3339(Stamps(files).of("sealed")).astimezone(UTC)
    limit = sealed - timedelta(minutes=5)
    assert failed_ids(checked_at(bundle, limit)) == set()
    report = checked_at(bundle, limit - MICROSECOND)
    assert failed_ids(report) == {"times"}
    assert report.verdict == "not valid"
    (line,) = report.failed
    told = (line.expected, line.actual)
    earlier = format_rfc3339(sealed - MICROSECOND)
    assert told == (f"no time beyond {earlier}", format_rfc3339(sealed))
