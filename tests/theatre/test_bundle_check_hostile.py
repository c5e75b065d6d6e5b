"""A stranger's folder may hold anything: the check says so by name and never falls over."""

import copy
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.theatre.conftest import SmallRun
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    document,
    failed_ids,
    lines,
    load,
    parse_or_none,
    resealed,
    store,
)
from theatre.engine.bundle_check import CheckId
from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.report import (
    NOTHING,
    DefectError,
    first_difference,
    require_same,
    same_json,
)
from theatre.engine.canonical_json import JsonValue, canonical_bytes, canonical_line

IDS = [check_id.value for check_id in CheckId]
DATASET = "ground_truth/dataset.jsonl"
TRAIL = "audit_trail.jsonl"


@pytest.fixture(scope="session")
def files(real_run: SmallRun) -> Files:
    return load(real_run.sealed)


@pytest.fixture
def bundle(real_run: SmallRun, tmp_path: Path) -> Path:
    """A copy of a real bundle, on disk, to be spoilt."""
    return Path(shutil.copytree(real_run.sealed, tmp_path / "bundle"))


def link_out(bundle: Path) -> None:
    (bundle / "tier.json").rename(bundle.parent / "tier.json")
    (bundle / "tier.json").symlink_to(bundle.parent / "tier.json")


def link_folder_out(bundle: Path) -> None:
    (bundle / "scores").rename(bundle.parent / "scores")
    (bundle / "scores").symlink_to(bundle.parent / "scores")


def link_in_a_circle(bundle: Path) -> None:
    (bundle / "scores" / "again").symlink_to(bundle)


def pipe(bundle: Path) -> None:
    (bundle / DATASET).unlink()
    os.mkfifo(bundle / DATASET)


def folder_in_place_of_a_file(bundle: Path) -> None:
    (bundle / "tier.json").unlink()
    (bundle / "tier.json").mkdir()


def name_that_is_no_text(bundle: Path) -> None:
    (bundle / os.fsdecode(b"not\xfftext")).write_bytes(b"x")


def name_with_a_line_feed(bundle: Path) -> None:
    (bundle / "two\nlines").write_bytes(b"x")


def terabyte(bundle: Path) -> None:
    os.truncate(bundle / DATASET, 2**40)


def large_document(bundle: Path) -> None:
    os.truncate(bundle / "tier.json", 2**27)


def long_line(bundle: Path) -> None:
    os.truncate(bundle / TRAIL, 2**26)


def not_utf8(bundle: Path) -> None:
    (bundle / "certificate.json").write_bytes(b"\xff\xfe\x00")


def nested(bundle: Path) -> None:
    (bundle / "resolution.json").write_bytes(b"[" * 100_000)


def listed_outside(bundle: Path) -> None:
    manifest = cast("Any", document(load(bundle), "manifest.json"))
    manifest["file_inventory"][0]["path"] = "../bundle/template.json"
    (bundle / "manifest.json").write_bytes(canonical_line(manifest))


SPOILINGS: list[tuple[Callable[[Path], None], set[str]]] = [
    (link_out, {"inventory", "tier"}),
    (link_folder_out, {"inventory", "scores", "aggregate", "results-hash"}),
    (link_in_a_circle, {"inventory"}),
    (pipe, {"inventory", "datasets"}),
    (folder_in_place_of_a_file, {"inventory", "tier"}),
    (name_that_is_no_text, {"inventory"}),
    (name_with_a_line_feed, {"inventory"}),
    (terabyte, {"inventory", "datasets"}),
    (large_document, {"canonical-form", "tier"}),
    (long_line, {"audit-chain"}),
    (not_utf8, {"canonical-form", "certificate-schema"}),
    (nested, {"canonical-form", "resolution"}),
    (listed_outside, {"inventory"}),
]


@pytest.mark.parametrize(
    ("spoil", "caught_by"), [pytest.param(s, ids, id=s.__name__) for s, ids in SPOILINGS]
)
def test_what_is_no_plain_bounded_text_is_named(
    bundle: Path, spoil: Callable[[Path], None], caught_by: set[str]
) -> None:
    spoil(bundle)
    report = check(bundle)
    assert [line.id for line in report.checks] == IDS
    assert failed_ids(report) >= caught_by
    for line in report.checks:
        assert line.expected.isprintable()
        assert line.actual.isprintable()


def with_other_bytes(files: Files, name: str, position: int, new: bytes) -> Files:
    raw = bytearray(files[name])
    place = position % (len(raw) + 1)
    raw[place : place + len(new)] = new
    return files | {name: bytes(raw)}


VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=20)
    | st.sampled_from(["0" * 64, "2026-01-01T00:00:00Z", "../x", "9" * 5000, "mock@1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: JsonValue, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every member and item of a document."""
    found = []
    items = value.items() if isinstance(value, dict) else ()
    for key, item in items or (enumerate(value) if isinstance(value, list) else ()):
        found.append((*path, key))
        found.extend(places(item, (*path, key)))
    return found


def spliced(value: JsonValue, path: tuple[str | int, ...], new: JsonValue) -> JsonValue:
    edited = copy.deepcopy(value)
    place: Any = edited
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    return edited


def checked_in(folder: Path, files: Files) -> None:
    """Check `files`; whatever they hold, the report is whole, printable, and not valid."""
    shutil.rmtree(folder, ignore_errors=True)
    report = check(store(files, folder))
    assert [line.id for line in report.checks] == IDS
    assert canonical_bytes(report.as_document())
    assert not report.consistent


# Without a database: what one run kept does not fit the bundles of the next.
FUZZ = settings(
    max_examples=120,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="session", params=["small", "every-feature", "every-rating"])
def any_files(
    request: pytest.FixtureRequest, files: Files, every_feature: Path, every_rating: Path
) -> Files:
    """A run of every outcome, one with everything that a template can commit, one with people."""
    if request.param == "small":
        return files
    return load(every_feature if request.param == "every-feature" else every_rating)


@FUZZ
@given(data=st.data())
def test_no_bytes_make_the_check_raise(files: Files, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(files)))
    new = data.draw(st.binary(min_size=1, max_size=6))
    spoilt = with_other_bytes(files, name, data.draw(st.integers(0, 2**20)), new)
    if spoilt != files:
        checked_in(tmp_path / "bundle", spoilt)


@pytest.mark.parametrize("other", [7, [None]])
def test_no_member_of_another_kind_makes_the_check_raise(
    files: Files, tmp_path: Path, other: JsonValue
) -> None:
    """Each member of each document in turn: what is drawn may pass by any of them."""
    for name in sorted(one for one in files if "/" not in one and one.endswith(".json")):
        whole = document(files, name)
        for member in sorted(whole):
            edited = spliced(whole, (member,), other)
            if not same_json(whole, edited):
                checked_in(tmp_path / "bundle", files | {name: canonical_line(edited)})


@FUZZ
@given(data=st.data())
def test_no_json_makes_the_check_raise(
    any_files: Files, tmp_path: Path, data: st.DataObject
) -> None:
    files = any_files
    name = data.draw(st.sampled_from([n for n in sorted(files) if ".json" in n]))
    raw_lines = files[name].splitlines(keepends=True)
    number = data.draw(st.integers(0, len(raw_lines) - 1))
    whole = parse_or_none(raw_lines[number])
    edited = spliced(whole, data.draw(st.sampled_from(places(whole))), data.draw(VALUES))
    effort = data.draw(st.sampled_from(Effort))
    if same_json(whole, edited):
        return
    raw_lines[number] = canonical_line(edited)
    spoilt = files | {name: b"".join(raw_lines)}
    if name != "manifest.json":
        spoilt = resealed(spoilt, effort)
    # Who changes a hash of the chain and makes the chain anew has changed nothing.
    if spoilt != files:
        checked_in(tmp_path / "bundle", spoilt)


@FUZZ
@given(data=st.data())
def test_no_template_makes_the_check_raise_though_the_receipt_agrees(
    any_files: Files, tmp_path: Path, data: st.DataObject
) -> None:
    files = any_files
    template: JsonValue = document(files, "template.json")
    place = data.draw(st.sampled_from(places(template)))
    edited = cast("Any", spliced(template, place, data.draw(VALUES)))
    if same_json(template, edited):
        return
    receipt = document(files, "commitment_receipt.json") | {
        "template_snapshot": edited,
        "version_pins": edited.get("version_pins", {}),
        "dataset_hashes": edited.get("dataset_hashes", {}),
    }
    spoilt = files | {
        "template.json": canonical_line(edited),
        "commitment_receipt.json": canonical_line(receipt),
    }
    checked_in(tmp_path / "bundle", resealed(spoilt, Effort.CERTIFIED_HASH))


@settings(max_examples=300, deadline=None)
@given(one=VALUES, other=VALUES)
def test_values_are_the_same_exactly_if_their_canonical_bytes_are(
    one: JsonValue, other: JsonValue
) -> None:
    for left, right in ((one, other), (one, copy.deepcopy(one)), ([one], [other])):
        same = canonical_bytes(left) == canonical_bytes(right)
        assert same_json(left, right) is same
        assert (first_difference(left, right) is None) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ("1", 1, False),
        ([], {}, False),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
    ],
)
def test_types_are_told_apart_as_canonical_bytes_tell_them(
    one: JsonValue, other: JsonValue, *, same: bool
) -> None:
    assert same_json(one, other) is same
    assert same_json({"in": [one]}, {"in": [other]}) is same


def test_what_is_required_is_the_same_json_value() -> None:
    require_same("hop", 1, 1.0)
    with pytest.raises(DefectError) as refused:
        require_same("hop", {"at": [1]}, {"at": [True]})
    assert (refused.value.expected, refused.value.actual) == ("hop/at/0 1", "true")


def test_two_gaps_prove_nothing() -> None:
    assert not same_json(NOTHING, NOTHING)
    assert not same_json(None, NOTHING)
    assert not same_json([NOTHING], ["nothing"])  # type: ignore[list-item]


def test_a_trail_line_that_cannot_be_read_does_not_hide_the_ones_behind_it(
    files: Files, tmp_path: Path
) -> None:
    entries = files[TRAIL].splitlines(keepends=True)
    at = [entry["event_type"] for entry in lines(files, TRAIL)].index("settling")
    entries[at] = b"no entry\n"
    report = check(store(files | {TRAIL: b"".join(entries)}, tmp_path / "bundle"))
    told = {line.id: line.actual for line in report.checks}
    assert (
        told["audit-episodes"] == "not computed because the audit trail cannot be read to its end"
    )
    assert failed_ids(report) == {"inventory", "sums", "audit-chain", "audit-episodes"}


def test_a_file_that_changed_its_nature_after_the_listing_is_refused(bundle: Path) -> None:
    listed = BundleFolder.listed(bundle)
    (bundle / "tier.json").unlink()
    (bundle / "resolution.json").rename(bundle.parent / "resolution.json")
    (bundle / "resolution.json").symlink_to(bundle.parent / "resolution.json")
    pipe(bundle)
    for name in ("tier.json", "resolution.json", DATASET, "never/there"):
        for read in (listed.read, listed.digest, lambda path: list(listed.lines(path))):
            with pytest.raises(DefectError, match=name):
                read(name)


def test_a_folder_of_too_many_files_is_named(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theatre.engine.bundle_check.folder.MAX_FILES", 12)
    report = check(bundle)
    assert [line.id for line in report.checks] == IDS
    told = {line.id: line.actual for line in report.failed}
    assert "beyond 12 entries" in told["inventory"]


@pytest.mark.parametrize("raw", [b"", b"{}\n", b"null\n"])
@pytest.mark.parametrize("name", ["manifest.json", "SHA256SUMS", "certificate.json"])
def test_hardly_a_bundle_passes_no_check(tmp_path: Path, name: str, raw: bytes) -> None:
    report = check(store({name: raw}, tmp_path / "bundle"))
    told = {line.id: line.status.value for line in report.checks}
    assert list(told) == IDS
    settled = {id_ for id_, status in told.items() if status == "pass"}
    assert settled <= {"canonical-form"}
    unanchored = {id_ for id_, status in told.items() if status == "unanchored"}
    assert unanchored == {"certificate-copy", "issuer-identity", "times-and-latencies", "history"}
