"""The independent check of the audit trail and its times: each rule by itself, in sound chains."""

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
    changed,
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
from theatre.engine.bundle_check.batches import batch_of
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.bundle_check.report import DefectError
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339, parse_rfc3339

SHA = "ab" * 32
OTHER_ID = "00000000-0000-5000-8000-000000000000"
TRAIL = "audit_trail.jsonl"


@pytest.fixture(scope="session")
def files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


STATUSES: JsonObject = {"success": 1, "timeout": 0, "error": 0, "refused": 0}
BATCH: JsonObject = {
    "seqs": [[1, 1]],
    "records_sha256": SHA,
    "journal_sha256": SHA,
    "statuses": STATUSES,
}


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
        {"journal_sha256": "AB" * 32},
        {"journal_sha256": None},
        {"statuses": {"success": 1}},
        {"statuses": {"success": "1", "timeout": 0, "error": 0, "refused": 0}},
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


PLACE: JsonObject = {"environment_hash": "AB" * 32, "interpreter": "x", "platform": "y"}


# fmt: off
TRAIL_EDITS: list[tuple[Callable[[list[Any]], object], str]] = [
    (lambda t: t.pop(0), "created behind start"),
    (lambda t: t.pop(), "a last entry sealed"),
    (lambda t: t.append(t[-1]), "no entry behind sealed"),
    (lambda t: t.insert(2, t[-2]), "activated behind committed"),
    (lambda t: t[0].update(event_type="born"), "an event of the lifecycle"),
    (lambda t: t[0].update(event_type=["created"]), "an event of the lifecycle"),
    (lambda t: t[1].update(theatre_id=OTHER_ID), "an unbroken chain"),
    (lambda t: t[1].update(remark=1), "an unbroken chain"),
    (lambda t: t[0]["detail"].update(template_id="other_v1"), "created/template_id"),
    (lambda t: t[2]["detail"].update(remark=1), "the detail of activated with exactly"),
    (lambda t: t[2]["detail"].update(episodes=11), "activated/episodes 10"),
    (lambda t: t[2]["detail"]["adapters"].update(other="local@1"), "activated/adapters/other"),
    (lambda t: t[2]["detail"]["scorers"].update(exact_match="2"), "activated/scorers/exact_match"),
    (lambda t: t[2]["detail"].pop("previous_environment"), "the detail of activated with exactly"),
    (lambda t: t[2]["detail"].update(previous_environment={}), "activated/previous_environment"),
    (lambda t: t[2]["detail"].update(environment=1), "activated/environment as an object"),
    (lambda t: t[2]["detail"].update(environment=PLACE | {"platform": ""}), "as texts"),
    (lambda t: t[2]["detail"].update(environment=PLACE), "environment_hash as a SHA-256"),
    (lambda t: t[3].update(at="now"), "at as an RFC 3339 time"),
    (lambda t: t[3].update(at=t[3]["at"][:19] + "Z"), '.000000Z"'),
    (lambda t: t[3].update(to_state="SETTLING"), "episodes_recorded from None to None"),
    (lambda t: t[2].update(from_state="DRAFT"), "activated from COMMITTED to ACTIVE"),
    (lambda t: t[3]["detail"].update(remark=1), "the detail of episodes_recorded"),
    (lambda t: entry_of(t, "settling").update(detail={"reason": "x"}), "the detail of settling"),
    (lambda t: t[-1].update(detail=None), "the detail of sealed as an object"),
    (lambda t: t[-1]["detail"].update(certificate_id=OTHER_ID), "sealed/certificate_id"),
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
    assert check(folder).consistent
    kept = check(folder, certificate=files["certificate.json"])
    assert failed_ids(kept) == {"certificate-copy"}


def test_batches_that_overlap_are_named(files: Files, tmp_path: Path) -> None:
    def overlap(trail: list[Any]) -> None:
        batches = [entry for entry in trail if entry["event_type"] == "episodes_recorded"]
        assert len(batches) > 1
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


MICROSECOND = timedelta(microseconds=1)

Record = Any
Edit = Callable[[list[Record], "Stamps"], None]


class Stamps:
    """The times of an honest trail, by event."""

    def __init__(self, files: Files) -> None:
        self._entries = {str(e["event_type"]): str(e["at"]) for e in lines(files, TRAIL)}

    def of(self, event_type: str, shift: timedelta = timedelta(0)) -> str:
        return format_rfc3339(parse_rfc3339(self._entries[event_type]) + shift)


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
