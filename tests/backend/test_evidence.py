"""Evidence over HTTP: the chain, the episodes, the bundle; private, public, or by hashes only."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.log_rows import await_logged
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import with_config
from tests.theatre.runs import checked
from theatre.engine.audit_chain import GENESIS
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import canonical_sha256

EVIDENCE = ("audit-events", "episodes", "episodes/sum-2", "evidence-bundle")


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    return sums_stage(tmp_path / "stage", sums(4))


@pytest.fixture
def client(database: Database, tmp_path: Path, stage: SumsStage) -> Iterator[Client]:
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        yield client


def ended(owner: Client, template: object) -> str:
    path = committed(owner, template)
    assert run(owner, path).document["outcome"] == "certified"
    return path


def test_a_stranger_downloads_the_bundle_and_checks_it(
    client: Client, stage: SumsStage, database: Database, tmp_path: Path
) -> None:
    path = ended(client.registered("ada"), stage.template)
    await_logged(database, 2)
    first = client.get(f"{path}/evidence-bundle")
    assert (first.status, first.headers["content-type"]) == (200, "application/gzip")
    # The witnesses may still sign: the sealed files never change, `proofs/` may.
    assert first.headers["cache-control"] == "public, max-age=30"
    half = client.get(f"{path}/evidence-bundle", Range=f"bytes={len(first.body) // 2}-")
    assert (half.status, half.body) == (206, first.body[len(first.body) // 2 :])
    etag = first.headers["etag"]
    assert client.get(f"{path}/evidence-bundle", **{"If-None-Match": etag}).status == 304
    with tarfile.open(fileobj=io.BytesIO(first.body)) as archive:
        archive.extractall(tmp_path / "downloaded", filter="data")
    (bundle,) = (tmp_path / "downloaded").iterdir()
    assert checked(bundle).consistent
    manifest = client.get(f"{path}/evidence-bundle/manifest.json").document
    for entry in manifest["file_inventory"]:
        sent = client.get(f"{path}/evidence-bundle/{entry['path']}").body
        assert hashlib.sha256(sent).hexdigest() == entry["sha256"]
    for archive_file in (tmp_path / "home").rglob("evidence_bundle.tar.gz"):
        archive_file.unlink()
    assert client.get(f"{path}/evidence-bundle").body == first.body


def test_anybody_downloads_the_check_as_one_file(client: Client) -> None:
    sent = client.get("/verify_bundle.py")
    assert (sent.status, sent.body) == (200, verifier_source().encode())
    assert sent.headers["content-type"] == "text/x-python; charset=utf-8"
    assert sent.headers["cache-control"] == "public, max-age=30"
    assert sent.headers["access-control-allow-origin"] == "*"
    etag = f'"{hashlib.sha256(sent.body).hexdigest()}"'
    assert sent.headers["etag"] == etag
    assert client.get("/verify_bundle.py", **{"If-None-Match": etag}).status == 304


def test_a_file_that_the_manifest_does_not_name_is_not_there(
    client: Client, stage: SumsStage
) -> None:
    path = ended(client.registered("ada"), stage.template)
    export = "rlmf_export.jsonl"
    for name in (f"../{export}", f"..%2f{export}", "%2e%2e/%2e%2e", "/etc/passwd", "a%00b", ""):
        assert client.get(f"{path}/evidence-bundle/{name}").slug == "not-found", name


def test_the_audit_chain_is_told_as_it_was_hashed(client: Client, stage: SumsStage) -> None:
    path = ended(client.registered("ada"), stage.template)
    page = client.get(f"{path}/audit-events?limit=3").document
    entries = page["audit_events"]
    while page["next_cursor"] is not None:
        page = client.get(f"{path}/audit-events?limit=3&cursor={page['next_cursor']}").document
        entries += page["audit_events"]
    assert len(entries) == page["total"]
    previous = GENESIS
    for entry in entries:
        own = entry.pop("entry_hash")
        assert entry["prev_entry_hash"] == previous
        assert canonical_sha256(entry) == own
        previous = own
    assert [one["to_state"] for one in entries if one["to_state"]] == [
        "DRAFT",
        "COMMITTED",
        "ACTIVE",
        "SETTLING",
        "RESOLVED",
        "ARCHIVED",
    ]


def test_episodes_are_listed_and_read(client: Client, stage: SumsStage) -> None:
    path = ended(client.registered("ada"), stage.template)
    page = client.get(f"{path}/episodes?limit=2").document
    assert [(one["seq"], one["episode_id"], one["scores"]) for one in page["episodes"]] == [
        (1, "sum-1", {"addition": 1}),
        (2, "sum-2", {"addition": 1}),
    ]
    rest = client.get(f"{path}/episodes?limit=2&cursor={page['next_cursor']}").document
    assert [one["seq"] for one in rest["episodes"]] == [3, 4]
    record = client.get(f"{path}/episodes/sum-2").document["record"]
    assert record["calls"][0]["request"]["input_data"] == {"numbers": [2, 1]}
    assert client.get(f"{path}/episodes/none").slug == "not-found"


def test_evidence_is_the_owners_until_the_theatre_is_resolved(
    client: Client, stage: SumsStage
) -> None:
    ada, bob = client.registered("ada"), client.registered("bob")
    path = committed(ada, stage.template)
    for name in (*EVIDENCE, "replay", "certificate"):
        for stranger in (client, bob):
            assert stranger.get(f"{path}/{name}").slug == "not-found", name
    assert ada.get(f"{path}/audit-events").document["total"] == 2
    run(ada, path)
    for name in (*EVIDENCE, "replay", "certificate"):
        for stranger in (client, bob):
            assert stranger.get(f"{path}/{name}").status == 200, name


@pytest.mark.parametrize(
    "disclosure", [{"disclosure": "hashes"}, {"disclosure": "withheld", "withheld": {"share": 0.2}}]
)
def test_by_hashes_only_ground_truth_invocations_and_coin_stay_with_the_owner(
    client: Client, stage: SumsStage, disclosure: dict[str, Any]
) -> None:
    ada = client.registered("ada")
    template = with_config(stage.template, **disclosure) | {"schema_version": "2.2.0"}
    path = ended(ada, template)
    withheld = (
        "evidence-bundle/coin.txt",
        "episodes/sum-2",
        "evidence-bundle",
        "evidence-bundle/ground_truth/dataset.jsonl",
        "evidence-bundle/invocations/episode_000001.json",
    )
    for name in withheld:
        assert client.get(f"{path}/{name}").slug == "not-found", name
        assert ada.get(f"{path}/{name}").status == 200, name
    told = ("audit-events", "episodes", "evidence-bundle/SHA256SUMS", "replay")
    for name in told:
        reply = client.get(f"{path}/{name}")
        assert reply.status == 200, name
        assert b'"numbers"' not in reply.body
