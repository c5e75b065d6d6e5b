"""`echelon theatre export`: the records, one archived event, and the same bytes ever after."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.theatre.echelon_process import ECHELON, PATIENCE_SECONDS, REPOSITORY, environment
from tests.theatre.forked_echelon import forked
from theatre.engine.canonical_json import JsonObject
from theatre.engine.rlmf_export import RLMF_SCHEMA
from theatre.engine.schema_registry import SchemaRegistry
from theatre.files.run_journal import read_trail
from theatre.files.theatre_store import FileTheatreStore

NUMERALS = REPOSITORY / "fixtures" / "templates" / "versions" / "product_numerals_v1.json"
MARKET = REPOSITORY / "fixtures" / "templates" / "market" / "geopolitical_fx_v1.json"
NO_ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with one certified theatre, which is copied before anybody exports it."""
    home = tmp_path_factory.mktemp("export") / "home"
    run = forked("theatre", "run", NUMERALS, "--json", home=home)
    assert run.code == 0, run.stdout
    return home, run.document["theatre_id"]


@pytest.fixture
def place(resolved: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    home, theatre_id = resolved
    return shutil.copytree(home, tmp_path / "home"), theatre_id


def files_of(bundle: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in bundle.rglob("*") if p.is_file()}


def archived_events(home: Path, theatre_id: str) -> list[JsonObject]:
    folder = FileTheatreStore(home).folder(theatre_id)
    return [e for e in read_trail(folder, theatre_id) if e["event_type"] == "archived"]


def test_the_first_export_archives_and_every_later_one_is_the_same(
    place: tuple[Path, str], tmp_path: Path
) -> None:
    home, theatre_id = place
    (bundle,) = (home / "theatres" / theatre_id).glob("evidence_bundle_*")
    before = files_of(bundle)
    first = forked("theatre", "export", theatre_id, "--format", "rlmf", home=home)
    assert first.code == 0, first.stderr
    assert files_of(bundle) == before
    assert [line.split()[0] for line in first.stderr.splitlines()] == [
        "theatre",
        "state",
        "records",
        "not_run",
        "export_sha256",
    ]
    assert FileTheatreStore(home).view(theatre_id).state == "ARCHIVED"
    out = tmp_path / "records.ndjson"
    second = forked("theatre", "export", theatre_id, "--out", out, "--json", home=home)
    assert out.read_text(encoding="utf-8") == first.stdout
    sha256 = hashlib.sha256(out.read_bytes()).hexdigest()
    assert second.document == {
        "theatre_id": theatre_id,
        "state": "ARCHIVED",
        "export": "rlmf",
        "export_version": "theatre-rlmf/1",
        "records": 60,
        "not_run": 0,
        "export_sha256": sha256,
        "out": str(out),
    }
    (event,) = archived_events(home, theatre_id)
    assert (event["from_state"], event["to_state"]) == ("RESOLVED", "ARCHIVED")
    assert event["detail"] == {
        "export": "rlmf",
        "export_version": "theatre-rlmf/1",
        "records": 60,
        "not_run": 0,
        "export_sha256": sha256,
    }
    records = [json.loads(line) for line in first.stdout.splitlines()]
    assert {record["metadata"]["export_timestamp"] for record in records} == {event["at"]}
    assert [record["timestep"] for record in records] == list(range(1, 61))
    assert {record["theatre_id"] for record in records} == {theatre_id}
    registry = SchemaRegistry()
    assert [registry.validate(RLMF_SCHEMA, record) for record in records] == [[]] * 60


def test_an_archived_theatre_is_shown_with_its_certificate_and_not_run_again(
    place: tuple[Path, str],
) -> None:
    home, theatre_id = place
    before = forked("theatre", "show", theatre_id, "--json", home=home).document
    assert forked("theatre", "export", theatre_id, home=home).code == 0
    after = forked("theatre", "show", theatre_id, "--json", home=home).document
    assert after == before | {"state": "ARCHIVED"}
    again = forked("theatre", "run", theatre_id, "--json", home=home)
    assert (again.code, again.document["error"]["code"]) == (6, "invalid-transition")


def refused(home: Path, *arguments: str | Path) -> tuple[int, str]:
    answer = forked("theatre", "export", *arguments, home=home)
    assert answer.stdout == ""
    return answer.code, answer.stderr.partition("(")[2].partition(")")[0]


def test_there_is_nothing_to_export_before_the_end(tmp_path: Path) -> None:
    for template in (NUMERALS, MARKET):
        commit = forked("theatre", "commit", template, "--json", home=tmp_path)
        assert refused(tmp_path, commit.document["theatre_id"]) == (6, "invalid-transition")
    assert refused(tmp_path, NO_ID) == (3, "not-found")


def test_a_run_without_a_certificate_has_no_bundle_to_export(tmp_path: Path) -> None:
    folder = shutil.copytree(NUMERALS.parent, tmp_path / "versions")
    template = folder / NUMERALS.name
    document = json.loads(template.read_bytes())
    # Nobody answers a question that no criterion asks.
    document["criteria"] = {"criteria_ids": ["nothing_of_the_kind"], "criteria_human": ""}
    template.write_text(json.dumps(document), encoding="utf-8")
    home = tmp_path / "home"
    run = forked("theatre", "run", template, "--json", home=home).document
    assert (run["state"], run["outcome"]) == ("RESOLVED", "no_certificate")
    answer = forked("theatre", "export", run["theatre_id"], home=home)
    assert (answer.code, answer.stdout) == (3, "")
    assert "its outcome is no_certificate (nothing-scored)" in answer.stderr
    assert FileTheatreStore(home).view(run["theatre_id"]).state == "RESOLVED"


@pytest.mark.parametrize(
    ("path", "old", "new", "ending"),
    [
        ("ground_truth/dataset.jsonl", b"n124", b"n125", (5, "bundle-invalid")),
        # Found out only when the first record is held to its schema.
        ("certificate.json", b'"UNVERIFIED"', b'"SPLENDID"', (5, "export-refused")),
    ],
)
def test_a_bundle_that_was_changed_is_not_exported_and_no_file_is_left(
    place: tuple[Path, str],
    tmp_path: Path,
    path: str,
    old: bytes,
    new: bytes,
    ending: tuple[int, str],
) -> None:
    home, theatre_id = place
    (bundle,) = (home / "theatres" / theatre_id).glob("evidence_bundle_*")
    (bundle / path).write_bytes((bundle / path).read_bytes().replace(old, new, 1))
    out = tmp_path / "out" / "records.ndjson"
    out.parent.mkdir()
    out.write_text("from before", encoding="utf-8")
    assert refused(home, theatre_id, "--out", out) == ending
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert out.read_text(encoding="utf-8") == "from before"
    assert FileTheatreStore(home).view(theatre_id).state == "RESOLVED"


def resolved_with_two_episodes(folder: Path) -> tuple[Path, str]:
    """Run the example over two episodes only: an export that fits into any buffer."""
    shutil.copytree(NUMERALS.parent, folder / "versions")
    template, dataset = (folder / "versions" / name for name in (NUMERALS.name, "numerals.jsonl"))
    raw = b"".join(dataset.read_bytes().splitlines(keepends=True)[:2])
    dataset.write_bytes(raw)
    document = json.loads(template.read_bytes())
    document["dataset_hashes"]["numerals"] = hashlib.sha256(raw).hexdigest()
    template.write_text(json.dumps(document), encoding="utf-8")
    run = forked("theatre", "run", template, "--json", home=folder / "small home")
    return folder / "small home", run.document["theatre_id"]


@pytest.mark.parametrize("size", ["small", "large"])
def test_an_export_that_nobody_took_archives_nothing(
    place: tuple[Path, str], tmp_path: Path, size: str
) -> None:
    home, theatre_id = place if size == "large" else resolved_with_two_episodes(tmp_path)
    # As for most users: what is written waits in a buffer.
    buffered = {k: v for k, v in environment(home).items() if k != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [ECHELON, "theatre", "export", theatre_id],
            env=buffered,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    finally:
        os.close(writing)
    assert ended.returncode == 1
    assert FileTheatreStore(home).view(theatre_id).state == "RESOLVED"
    assert archived_events(home, theatre_id) == []


def test_a_theatre_that_is_held_is_not_exported(place: tuple[Path, str]) -> None:
    home, theatre_id = place
    with FileTheatreStore(home).hold(theatre_id):
        assert refused(home, theatre_id) == (6, "state-conflict")


def test_a_file_that_cannot_be_written_archives_nothing(
    place: tuple[Path, str], tmp_path: Path
) -> None:
    home, theatre_id = place
    assert refused(home, theatre_id, "--out", tmp_path / "nowhere" / "records.ndjson") == (
        1,
        "system",
    )
    assert FileTheatreStore(home).view(theatre_id).state == "RESOLVED"


@pytest.mark.parametrize("arguments", [("--json",), ("--format", "csv"), ("one", "too", "many")])
def test_wrong_usage_is_said_so(place: tuple[Path, str], arguments: tuple[str, ...]) -> None:
    home, theatre_id = place
    assert forked("theatre", "export", theatre_id, *arguments, home=home).code == 2
    assert FileTheatreStore(home).view(theatre_id).state == "RESOLVED"
