"""What has served its time is removed, and nothing that a theatre rests on."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backend.evidence_store import EvidenceStore
from backend.main import create_app
from backend.services.ground_truth import GroundTruth
from backend.services.integrity.retention import CleanUpReport, clean_up
from tests.backend.databases import A_TEMPLATE, A_USER, USER_ID, Database
from tests.backend.serving import served, settings_for
from tests.theatre.echelon_process import until
from theatre.engine.canonical_json import canonical_bytes, sha256_hex

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=31)
LATELY = NOW - timedelta(days=29)
NAMED, UNUSED, FRESH, ANSWERS = (digit * 64 for digit in "abcf")
THEATRE_ID = "018f0000-0000-7000-8000-00000000000a"


def names_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def cleaned(database: Database, store: Path) -> CleanUpReport:
    async def scene() -> CleanUpReport:
        engine = database.engine()
        try:
            kept = EvidenceStore(None, store)
            return await clean_up(engine, GroundTruth([], kept), kept, at=NOW)
        finally:
            await engine.dispose()

    return asyncio.run(scene())


@pytest.fixture
def used(database: Database) -> Database:
    """A database with a user, a template that names a dataset, and a rehearsal that was canned."""
    document = {"theatre_id": "a_template_v1", "dataset_hashes": {"truth": NAMED}}
    raw = canonical_bytes(document)
    database.add("users", A_USER)
    template = {"sha256": sha256_hex(raw), "template_json": json.dumps(document), "document": raw}
    database.add("theatre_templates", {**A_TEMPLATE, **template})
    canned = {"is_certificate_run": False, "answers_sha256": ANSWERS}
    database.add_theatre(THEATRE_ID, template_sha256=template["sha256"], **canned)
    return database


def test_uploads_that_no_template_names_are_removed_when_they_are_old(
    used: Database, tmp_path: Path
) -> None:
    for sha256, created_at in (
        (NAMED, LONG_AGO),
        (UNUSED, LONG_AGO),
        (FRESH, LATELY),
        (ANSWERS, LONG_AGO),
    ):
        upload = {"sha256": sha256, "size_bytes": 1, "lines_total": 1, "created_at": created_at}
        used.add("datasets", {**upload, "user_id": USER_ID})
    store = tmp_path / "datasets"
    store.mkdir()
    # Copies: of uploads, and of datasets of the operator's.
    for name, put_there in (
        (NAMED, LONG_AGO),
        (UNUSED, LONG_AGO),
        (FRESH, LONG_AGO),
        (ANSWERS, LONG_AGO),
        ("d" * 64, LONG_AGO),
        ("e" * 64, LATELY),
    ):
        (store / name).write_bytes(b"1")
        os.utime(store / name, (put_there.timestamp(), put_there.timestamp()))
    assert cleaned(used, tmp_path) == CleanUpReport(
        requests=0, keys=0, uploads=1, copies=2, broken_uploads=0
    )
    assert {row["sha256"] for row in used.rows("SELECT sha256 FROM datasets")} == {
        NAMED,
        FRESH,
        ANSWERS,
    }
    assert names_in(store) == {NAMED, FRESH, ANSWERS, "e" * 64}
    assert cleaned(used, tmp_path) == CleanUpReport(
        requests=0, keys=0, uploads=0, copies=0, broken_uploads=0
    )


def test_a_copy_that_is_put_there_anew_meanwhile_is_kept(tmp_path: Path) -> None:
    data = GroundTruth([], EvidenceStore(None, tmp_path))
    store = tmp_path / "datasets"
    store.mkdir()
    (store / UNUSED).write_bytes(b"1")
    os.utime(store / UNUSED, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    assert data.copies_from_before(LATELY) == {UNUSED}
    (store / UNUSED).write_bytes(b"1")
    assert not data.remove(UNUSED, before=LATELY)
    assert names_in(store) == {UNUSED}


def test_what_a_killed_writer_left_in_the_folder_is_removed_when_it_is_old(
    used: Database, tmp_path: Path
) -> None:
    shelf = tmp_path / "bundles"
    shelf.mkdir()
    days = {f"{NAMED}#1": 8, f"{UNUSED}#1": 6, FRESH: 31}
    for name, old in days.items():
        at = NOW - timedelta(days=old)
        (shelf / name).write_bytes(b"1")
        os.utime(shelf / name, (at.timestamp(), at.timestamp()))
    removed = CleanUpReport(requests=0, keys=0, uploads=0, copies=0, broken_uploads=1)
    assert cleaned(used, tmp_path) == removed
    assert names_in(shelf) == {f"{UNUSED}#1", FRESH}


def test_keys_and_kept_answers_are_removed_when_they_are_old(
    used: Database, tmp_path: Path
) -> None:
    moments = {
        "expired long ago": (LONG_AGO, None),
        "expired lately": (LATELY, None),
        "revoked long ago": (NOW + timedelta(days=9), LONG_AGO),
        "in use": (NOW + timedelta(days=9), None),
    }
    for number, (name, (expires_at, revoked_at)) in enumerate(moments.items()):
        key = {
            "id": f"018f0000-0000-7000-8000-00000000000{number}",
            "user_id": USER_ID,
            "name": name,
            "secret_sha256": str(number) * 64,
            "scopes": ["read"],
            "created_at": LONG_AGO,
            "expires_at": expires_at,
            "revoked_at": revoked_at,
        }
        used.add("api_keys", key)
    for hours in (47, 48):
        row = {"user_id": USER_ID, "key": str(hours), "method": "POST", "path": "/theatres"}
        made = {"body_sha256": NAMED, "created_at": NOW - timedelta(hours=hours)}
        used.add("idempotency_keys", {**row, **made})
    assert cleaned(used, tmp_path) == CleanUpReport(
        requests=1, keys=2, uploads=0, copies=0, broken_uploads=0
    )
    left = used.rows("SELECT name FROM api_keys ORDER BY name")
    assert [row["name"] for row in left] == ["expired lately", "in use"]
    assert used.rows("SELECT key FROM idempotency_keys") == [{"key": "47"}]


def test_the_service_cleans_up_when_it_starts(used: Database, tmp_path: Path) -> None:
    row = {"user_id": USER_ID, "key": "old", "method": "POST", "path": "/", "body_sha256": NAMED}
    used.add("idempotency_keys", {**row, "created_at": LONG_AGO})
    readings = tmp_path / "evidence" / "readings"
    for name, moment in {"lost": LONG_AGO, "under way": NOW}.items():
        (readings / name).mkdir(parents=True)
        os.utime(readings / name, (moment.timestamp(), moment.timestamp()))
    with served(create_app(settings_for(used, tmp_path), clock=lambda: NOW)):
        until(lambda: not used.rows("SELECT key FROM idempotency_keys"), "the end of the old row")
        until(lambda: names_in(readings) == {"under way"}, "the end of what a lost reading left")
