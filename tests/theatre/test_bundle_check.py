"""The independent check: an honest bundle passes, and each defect is named by the right checks."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.conftest import SmallRun
from tests.theatre.forged_bundle import (
    REGISTRY,
    SCORERS,
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    lines,
    load,
    resealed,
    store,
    with_certified_hash,
    with_lines,
    with_manifest,
)
from tests.theatre.runs import LATE
from theatre.engine.bundle_check import CheckId, CheckReport, CheckStatus
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.engine.errors import BundleError

UNANCHORED = {"certificate-copy", "issuer-identity", "times-and-latencies", "history"}
IDS = [check_id.value for check_id in CheckId]
RECORD = "invocations/episode_000001.json"
SUMS = "SHA256SUMS"
DATASET = "ground_truth/dataset.jsonl"
PER_EPISODE = "scores/per_episode.jsonl"
ELSEWHERE: JsonObject = {"environment_hash": "ab" * 32, "interpreter": "x", "platform": "y"}
TRAIL = "audit_trail.jsonl"

Change = Callable[[Files], Files]


@pytest.fixture(scope="session")
def files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


def statuses(report: CheckReport) -> dict[str, str]:
    return {line.id: line.status.value for line in report.checks}


def set_in(path: str, pointer: str, value: JsonValue) -> Change:
    """Return the change that puts `value` at a JSON Pointer of the document at `path`."""

    def edit(whole: JsonObject) -> None:
        *parents, last = pointer.split("/")[1:]
        place: Any = whole
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[last] = value

    return lambda files: changed(files, path, edit)


def replaced(path: str, old: bytes, new: bytes) -> Change:
    def change(files: Files) -> Files:
        assert old in files[path]
        return files | {path: files[path].replace(old, new, 1)}

    return change


def without(path: str) -> Change:
    return lambda files: {name: raw for name, raw in files.items() if name != path}


def trail_changed(event_type: str, members: JsonObject) -> Change:
    def change(files: Files) -> Files:
        entries = lines(files, TRAIL)
        return with_lines(
            files, TRAIL, [e | members if e["event_type"] == event_type else e for e in entries]
        )

    return change


def isolated(*, another: str | None = None, **members: JsonValue) -> Change:
    """Say in the trail that the construct, or another, was kept from other things."""

    def change(files: Files) -> Files:
        entries = lines(files, TRAIL)
        (activated,) = (one for one in entries if one["event_type"] == "activated")
        detail = cast("JsonObject", activated["detail"])
        ((construct_id, closed),) = cast("JsonObject", detail["isolation"]).items()
        detail["isolation"] = {another or construct_id: cast("JsonObject", closed) | members}
        return with_lines(files, TRAIL, entries)

    return change


def detail_changed(event_type: str, members: JsonObject) -> Change:
    def change(files: Files) -> Files:
        entries = lines(files, TRAIL)
        for entry in entries:
            if entry["event_type"] == event_type:
                cast("JsonObject", entry["detail"]).update(members)
        return with_lines(files, TRAIL, entries)

    return change


def in_record(pointer: str, value: JsonValue) -> Change:
    return set_in(RECORD, f"/calls/0{pointer}", value)


def test_an_honest_bundle_passes_every_check_that_a_bundle_can_settle(real_run: SmallRun) -> None:
    report = check(real_run.sealed)
    assert statuses(report) == {id_: "unanchored" if id_ in UNANCHORED else "pass" for id_ in IDS}
    assert (report.consistent, report.failed, report.unavailable) == (True, (), ())


def test_the_ids_of_a_report_keep_their_order_and_form(real_run: SmallRun) -> None:
    told = check(real_run.sealed).as_document()
    listed = cast("list[JsonObject]", told["checks"])
    assert (told["verdict"], told["valid"]) == ("consistent", False)
    assert [line["id"] for line in listed] == IDS
    assert listed[IDS.index("sums")] == {
        "id": "sums",
        "ok": True,
        "status": "pass",
        "expected": "SHA256SUMS with the right digest for every file it has to list, sorted",
        "actual": "22 digests",
    }
    assert {line["ok"] for line in listed if line["id"] in UNANCHORED} == {None}


def test_a_copy_of_the_certificate_anchors_it(real_run: SmallRun) -> None:
    copy = (real_run.sealed / "certificate.json").read_bytes()
    printed = json.dumps(json.loads(copy), indent=2).encode()
    for certificate in (copy, printed):
        report = check(real_run.sealed, certificate=certificate)
        assert report.consistent
        assert statuses(report)["certificate-copy"] == "pass"


@pytest.mark.parametrize("copy", [b'{"issuer":"somebody else"}', b"no JSON", b"[]", b"{}"])
def test_another_certificate_fails_by_name(real_run: SmallRun, copy: bytes) -> None:
    assert failed_ids(check(real_run.sealed, certificate=copy)) == {"certificate-copy"}


# fmt: off
DEFECTS: list[tuple[str, Change, set[str]]] = [
    ("a file more", lambda f: f | {"notes.txt": b"x"}, {"inventory", "tier"}),
    ("a record beyond the dataset", lambda f: f | {"invocations/episode_000011.json": f[RECORD]},
     {"invocations", "audit-episodes", "resolution"}),
    ("a required file less", without("resolution.json"),
     {"inventory", "sums", "tier", "resolution"}),
    ("a record less", without(RECORD),
     {"invocations", "sanitised-input", "version-pins", "audit-episodes", "outcomes", "scores",
      "aggregate", "data-audit",
      "baselines", "resolution"}),
    ("a document in another form", replaced("tier.json", b"{", b"{ "), {"canonical-form"}),
    ("a schema version that is none", set_in("certificate.json", "/schema_version", "1.0.0"),
     {"certificate-schema", "certificate-fields"}),
    ("another template", set_in("template.json", "/display_name", "Sums?"),
     {"template", "commitment", "tier", "audit-chain", "certificate-fields"}),
    ("another time of commitment",
     set_in("commitment_receipt.json", "/committed_at", "2026-01-01T00:00:00.000000Z"),
     {"commitment", "tier", "certificate-fields"}),
    ("escrow in a replay theatre", set_in("commitment_receipt.json", "/escrowed_capital", 0),
     {"commitment", "tier"}),
    ("a member more in the receipt", set_in("commitment_receipt.json", "/remark", 1),
     {"commitment", "tier"}),
    ("a scorer pin more", set_in("commitment_receipt.json", "/scorer_pins/set_f1", "1"),
     {"commitment", "tier", "audit-chain"}),
    ("another labeller", replaced("ground_truth/gold_labels.jsonl", b"a test", b"a bird"),
     {"datasets"}),
    ("a dataset that is not read", replaced(DATASET, b"{", b"["),
     {"datasets", "invocations", "sanitised-input", "version-pins", "outcomes", "scores",
      "aggregate", "data-audit",
      "baselines", "certificate-fields"}),
    ("time that runs backwards", trail_changed("settling", {"at": "2026-01-01T00:00:00Z"}),
     {"audit-chain", "times"}),
    ("another environment before",
     detail_changed("activated", {"previous_environment": ELSEWHERE}),
     {"audit-chain", "certificate-fields"}),
    ("a state that is skipped", trail_changed("activated", {"from_state": "DRAFT"}),
     {"audit-chain"}),
    ("a latency", in_record("/attempts/0/response/latency_ms", 99_999), {"audit-episodes"}),
    ("an answer that came right", in_record("/attempts/0/response/output_data/sum", 4),
     {"audit-episodes", "scores", "aggregate", "resolution", "certificate-fields"}),
    ("an expectation in a request", in_record("/request/input_data/expected_output", {"sum": 3}),
     {"audit-episodes", "invocations"}),
    ("another invocation id",
     in_record("/request/invocation_id", "00000000-0000-5000-8000-000000000000"),
     {"audit-episodes", "invocations"}),
    ("a mock", in_record("/adapter", "mock@1"),
     {"audit-episodes", "invocations", "tier"}),
    ("another version in an accepted answer",
     in_record("/attempts/0/response/construct_version", "0" * 40),
     {"audit-episodes", "version-pins"}),
    ("a mismatch that reports no version", set_in(
        "invocations/episode_000005.json", "/calls/0/attempts/0/response/construct_version", None),
     {"audit-episodes", "version-pins"}),
    ("a success without an answer", in_record("/attempts/0/response/output_data", None),
     {"audit-episodes", "invocations", "outcomes", "scores", "aggregate",
      "data-audit", "baselines"}),
    ("no call", set_in(RECORD, "/calls", []),
     {"audit-episodes", "invocations", "version-pins", "outcomes", "scores", "aggregate",
      "data-audit", "baselines"}),
    ("calls that are no list", set_in(RECORD, "/calls", {}),
     {"audit-episodes", "invocations", "version-pins", "outcomes", "scores", "aggregate",
      "data-audit", "baselines"}),
    ("a version source of another sort", in_record("/version_source", "guessed"),
     {"audit-episodes", "invocations"}),
    ("another adapter", in_record("/adapter", "http@1"), {"audit-episodes", "invocations"}),
    ("another hop", in_record("/hop", 1), {"audit-episodes", "invocations"}),
    ("a repeat of nothing", in_record("/repeat", 1),
     {"audit-episodes", "invocations", "outcomes", "scores", "aggregate", "data-audit",
      "baselines", "tier"}),
    ("no time of the call", in_record("/request/metadata/invoked_at", None),
     {"audit-episodes", "invocations"}),
    ("a longer time limit", in_record("/request/metadata/timeout_seconds", 60),
     {"audit-episodes", "invocations"}),
    ("a member more in a record", set_in(RECORD, "/remark", 1), {"audit-episodes", "invocations"}),
    ("a member more in a call", in_record("/remark", 1), {"audit-episodes", "invocations"}),
    ("another episode", set_in(RECORD, "/episode_id", "sum-2"), {"audit-episodes", "invocations"}),
    ("another seq", set_in(RECORD, "/seq", 2), {"audit-episodes", "invocations"}),
    ("no score file", without(PER_EPISODE),
     {"inventory", "sums", "tier", "outcomes", "scores", "results-hash", "certificate-fields"}),
    ("a score line in another form", replaced(PER_EPISODE, b"{", b"{ "),
     {"canonical-form", "scores", "results-hash", "certificate-fields"}),
    ("a score line that is not read", replaced(PER_EPISODE, b"{", b"["),
     {"outcomes", "scores", "results-hash", "certificate-fields"}),
    ("another scorer pin", set_in("commitment_receipt.json", "/scorer_pins/exact_match", "2"),
     {"commitment", "tier", "audit-chain"}),
    ("score lines less", lambda f: f | {PER_EPISODE: f[PER_EPISODE].splitlines(keepends=True)[0]},
     {"outcomes", "scores", "results-hash", "certificate-fields"}),
    ("score lines more", lambda f: f | {PER_EPISODE: f[PER_EPISODE] * 2},
     {"outcomes", "scores", "results-hash", "certificate-fields"}),
    ("another outcome", replaced(PER_EPISODE, b"excluded", b"missing"),
     {"outcomes", "scores", "results-hash", "certificate-fields"}),
    ("another score", replaced(PER_EPISODE, b'"addition":0', b'"addition":1'),
     {"scores", "results-hash", "certificate-fields"}),
    ("another composite of a line", replaced(PER_EPISODE, b'"composite":', b'"composite":0.'),
     {"scores", "results-hash", "certificate-fields"}),
    ("another composite", set_in("scores/aggregate.json", "/composite_score", 1),
     {"aggregate", "results-hash", "certificate-fields"}),
    ("another interval", set_in("scores/aggregate.json", "/score_intervals/addition/low", 0.5),
     {"aggregate", "certificate-fields"}),
    ("a step that failed", set_in("resolution.json", "/steps/0/status", "failed"), {"resolution"}),
    ("more replays", set_in("tier.json", "/facts/replay_count", 60), {"tier"}),
    ("fewer caps", set_in("certificate.json", "/caps", []), {"tier", "certificate-fields"}),
    ("another head", set_in("certificate.json", "/audit_head", "0" * 64),
     {"audit-chain", "certificate-fields"}),
    ("a member more", set_in("certificate.json", "/remark", "fine"),
     {"certificate-fields", "certificate-schema"}),
    ("another issuer", set_in("certificate.json", "/issuer", "Echelon"), {"certificate-fields"}),
    ("computed, not claimed", set_in("certificate.json", "/version_source", "claimed"),
     {"certificate-fields"}),
    ("an environment in the receipt", set_in("commitment_receipt.json", "/environment",
        {"environment_hash": "ab" * 32, "interpreter": "CPython 3.11.7", "platform": "Linux"}),
     {"certificate-fields"}),
    ("a finding that is none", set_in("certificate.json", "/findings", ["version-claimed"]),
     {"certificate-fields"}),
    ("an isolation that was never tried", set_in("certificate.json", "/isolation",
     {"files": True, "processes": True, "network": True, "by": "remote"}),
     {"certificate-fields"}),
    ("an environment that the receipt has not", set_in("certificate.json", "/environment",
     {"environment_hash": "0" * 64, "interpreter": "x", "platform": "y"}),
     {"certificate-fields"}),
    ("an owner that nobody confirmed", set_in("certificate.json", "/owner", {"name": "me"}),
     {"certificate-fields"}),
    ("an older form", set_in("certificate.json", "/schema_version", "1.1.0"),
     {"certificate-fields", "certificate-schema"}),
]
# fmt: on


def test_a_bundle_of_an_older_form_says_that_it_has_to_be_run_again(
    files: Files, tmp_path: Path
) -> None:
    change = set_in("certificate.json", "/schema_version", "1.1.0")
    forged = resealed(change(files), Effort.CERTIFIED_HASH)
    report = check(store(forged, tmp_path / "bundle"))
    (line,) = [line for line in report.checks if line.id == "certificate-schema"]
    assert (line.expected, line.actual) == (
        "schema_version 1.2.0",
        'issued under "1.1.0": run again',
    )


@pytest.mark.parametrize(
    ("change", "caught_by"), [pytest.param(c, ids, id=name) for name, c, ids in DEFECTS]
)
def test_a_defect_is_named_even_where_every_sum_was_made_anew(
    files: Files, tmp_path: Path, change: Change, caught_by: set[str]
) -> None:
    forged = resealed(change(files), Effort.CERTIFIED_HASH)
    report = check(store(forged, tmp_path / "bundle"))
    assert failed_ids(report) == caught_by
    assert [line.id for line in report.checks] == IDS


def test_a_defect_alone_also_breaks_sums_and_inventory(files: Files, tmp_path: Path) -> None:
    change = in_record("/attempts/0/response/latency_ms", 99_999)
    report = check(store(change(files), tmp_path / "bundle"))
    # The record is under `episode_root`, too.
    assert failed_ids(report) == {"inventory", "sums", "audit-episodes", "certificate-fields"}


def sums_of(files: Files) -> list[bytes]:
    return files[SUMS].splitlines(keepends=True)


# fmt: off
LAST_CHANGES: list[tuple[str, Change, set[str]]] = [
    ("a sum", lambda f: f | {SUMS: b"0" * 64 + f[SUMS][64:]}, {"sums"}),
    ("sums in another order", lambda f: f | {SUMS: b"".join(sorted(sums_of(f)))},
     {"sums"}),
    ("a sum less", lambda f: f | {SUMS: b"".join(sums_of(f)[1:])}, {"sums"}),
    ("a sum of no file", lambda f: f | {SUMS: f[SUMS] + b"0" * 64 + b"  zebra.json\n"}, {"sums"}),
    ("a sum twice", lambda f: f | {SUMS: f[SUMS] + sums_of(f)[-1]}, {"sums"}),
    ("no last line feed", lambda f: f | {SUMS: f[SUMS][:-1]}, {"sums"}),
]
MANIFEST_CHANGES: list[tuple[str, JsonValue, set[str]]] = [
    ("/bundle_id", "00000000-0000-5000-8000-000000000000", {"manifest"}),
    ("/bundle_hash", "0" * 64, {"bundle-hash"}),
    ("/theatre_id", "00000000-0000-4000-8000-000000000000", {"manifest", "commitment", "tier"}),
    ("/commitment_hash", "0" * 64, {"commitment", "tier"}),
    ("/created_at", "2026-01-01T00:00:00.000000Z", {"manifest"}),
    ("/scorer_version", "shipped-2", {"manifest"}),
    ("/remark", "a member more", {"manifest"}),
    ("/file_inventory/0/size_bytes", 1, {"inventory"}),
    ("/file_inventory/0/sha256", "0" * 64, {"inventory"}),
    ("/file_inventory/0/remark", 1, {"inventory", "tier"}),
    ("/file_inventory/1/path", SUMS, {"inventory", "tier"}),
    ("/file_inventory", {}, {"inventory", "tier"}),
    ("/file_inventory/0/path", "../template.json", {"inventory", "tier"}),
    ("/file_inventory/0/path", "/etc/passwd", {"inventory", "tier"}),
]
# fmt: on


@pytest.mark.parametrize(
    ("change", "caught_by"), [pytest.param(c, ids, id=name) for name, c, ids in LAST_CHANGES]
)
def test_wrong_sums_are_named_even_where_the_certificate_names_their_hash(
    files: Files, tmp_path: Path, change: Change, caught_by: set[str]
) -> None:
    forged = with_manifest(with_certified_hash(change(files)))
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == caught_by


@pytest.mark.parametrize(("pointer", "value", "caught_by"), MANIFEST_CHANGES)
def test_every_field_of_the_manifest_is_derived(
    files: Files, tmp_path: Path, pointer: str, value: JsonValue, caught_by: set[str]
) -> None:
    forged = set_in("manifest.json", pointer, value)(files)
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == caught_by


def test_an_inventory_in_another_order_is_named(files: Files, tmp_path: Path) -> None:
    forged = changed(
        files, "manifest.json", lambda m: cast("list[JsonValue]", m["file_inventory"]).reverse()
    )
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == {"inventory", "tier"}


@pytest.mark.parametrize(("step", "failed"), [(1e-6, set()), (3e-6, {"aggregate"})])
def test_bounds_may_differ_in_the_last_place(
    files: Files, tmp_path: Path, step: float, failed: set[str]
) -> None:
    aggregate = document(files, "scores/aggregate.json")
    interval = cast("Any", aggregate["score_intervals"])["addition"]
    assert interval["method"] == "wilson"
    interval["low"] = round(interval["low"] + step, 6)
    forged = files | {
        "scores/aggregate.json": canonical_line(aggregate),
        "certificate.json": canonical_line(
            document(files, "certificate.json") | {"score_intervals": aggregate["score_intervals"]}
        ),
    }
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    assert failed_ids(report) == failed


def test_what_cannot_be_computed_fails_by_name_and_says_why(files: Files, tmp_path: Path) -> None:
    forged = without("template.json")(without("commitment_receipt.json")(files))
    report = check(store(forged, tmp_path / "bundle"))
    assert [line.id for line in report.checks] == IDS
    told = {line.id: line.actual for line in report.failed}
    assert {id_ for id_, actual in told.items() if actual.startswith("not computed because")} == {
        *("datasets", "invocations", "sanitised-input", "version-pins", "scorers", "outcomes"),
        *("scores", "human-scores", "aggregate", "data-audit", "baselines", "resolution", "tier"),
    }
    # The records are still held against the trail, and the score files against their hash.
    assert statuses(report)["audit-episodes"] == "pass"
    assert statuses(report)["results-hash"] == "pass"


@pytest.mark.parametrize("scorers", [{}, {n: replace(s, version="2") for n, s in SCORERS.items()}])
def test_a_scorer_that_is_not_the_pinned_one_is_unavailable_and_nothing_fails(
    real_run: SmallRun, scorers: dict[str, Any]
) -> None:
    report = check_bundle(
        real_run.sealed, scorers, registry=REGISTRY, computations={}, sanitiser=None, now=LATE
    )
    assert report.failed == ()
    assert {line.id for line in report.unavailable} == {
        *("scorers", "scores", "aggregate", "data-audit", "baselines")
    }
    assert (report.consistent, report.verdict) == (False, "not valid")
    assert {line.ok for line in report.unavailable} == {False}


@pytest.mark.parametrize(
    ("old", "new", "caught_by"),
    [
        (b"excluded", b"missing", {"outcomes", "results-hash", "certificate-fields"}),
        (b"sum-2", b"sum-3", {"scores", "results-hash", "certificate-fields"}),
    ],
)
def test_a_defect_shows_beside_a_scorer_that_is_missing(
    files: Files, tmp_path: Path, old: bytes, new: bytes, caught_by: set[str]
) -> None:
    forged = replaced(PER_EPISODE, old, new)(files)
    folder = store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle")
    report = check_bundle(folder, {}, registry=REGISTRY, computations={}, sanitiser=None, now=LATE)
    assert failed_ids(report) == caught_by
    assert statuses(report)["scorers"] == CheckStatus.UNAVAILABLE.value


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "template.json").write_bytes(b"{}\n")
    for name in ("nowhere", "empty", "file", "other"):
        with pytest.raises(BundleError, match="expected"):
            check(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "caught_by"),
    [
        (isolated(files=False), {"certificate-fields", "tier"}),
        (isolated(processes=False), {"certificate-fields", "tier"}),
        (isolated(network=False), {"certificate-fields"}),
        (isolated(by="trust"), {"audit-chain", "certificate-fields", "tier"}),
        (isolated(how="well"), {"audit-chain", "certificate-fields", "tier"}),
        (isolated(another="observer"), {"audit-chain", "certificate-fields", "tier"}),
        (set_in("commitment_receipt.json", "/isolation", {"files": True}), {"commitment", "tier"}),
    ],
    ids=["files", "processes", "network", "no means", "a member more", "another", "receipt"],
)
def test_a_certificate_says_what_the_trail_says_was_closed_to_the_construct(
    files: Files, tmp_path: Path, change: Change, caught_by: set[str]
) -> None:
    forged = resealed(change(files), Effort.CHAIN)
    assert failed_ids(check(store(forged, tmp_path / "bundle"))) == caught_by
