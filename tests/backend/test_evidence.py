"""Evidence over HTTP: the chain, the episodes, the bundle; private, public, or by hashes only."""

import hashlib
import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.routing import iter_route_contexts
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.routing import compile_path

from backend.api.http.access_policy import Access, DeclaredRoute
from backend.main import RESOURCES
from backend.repositories.transparency_log import CountedAudits, count_audits
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.log_rows import await_logged, record_of_rows
from tests.backend.serving import Client, Reply
from tests.backend.sums_stage import SumsStage
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import with_config
from tests.theatre.runs import checked
from theatre.cli import cli
from theatre.engine.audit_chain import GENESIS
from theatre.engine.bundle_check.report import CheckStatus, Verdict
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import canonical_sha256, parse_object
from theatre.files.published_bundle import unpack_bundle

EVIDENCE = ("audit-events", "episodes", "episodes/sum-2", "evidence-bundle")


def ended(owner: Client, template: object) -> str:
    path = committed(owner, template)
    assert run(owner, path).document["outcome"] == "certified"
    return path


def unpacked(archive: bytes, folder: Path) -> Path:
    bundle = folder / "bundle"
    unpack_bundle(io.BytesIO(archive), bundle)
    return bundle


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
    assert checked(unpacked(first.body, tmp_path / "downloaded")).consistent
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
        *("DRAFT", "COMMITTED", "ACTIVE", "SETTLING", "RESOLVED", "ARCHIVED"),
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


MARK = "a phrase of the template that no stranger may read"
STRANGERS = (Access.PUBLIC, Access.DISCLOSED)


def read_by_all(client: Client, **filled: str) -> Iterator[tuple[str, Reply]]:
    """Ask each route that a stranger may read about one theatre, and all files of its bundle."""
    for router in RESOURCES:
        for context in iter_route_contexts(router.routes):
            route = context.original_route
            assert isinstance(route, DeclaredRoute)
            if "GET" in (context.methods or ()) and route.declared.access in STRANGERS:
                path = compile_path(str(context.path))[1]
                yield path, client.get(path.format_map(filled))
    theatre = f"/theatres/{filled['theatre_id']}"
    yield "template", client.get(f"/templates/{filled['template_id']}?sha256={filled['sha256']}")
    yield "hashed", client.get(f"{theatre}/commitment?format=canonical")
    manifest = client.get(f"{theatre}/evidence-bundle/manifest.json")
    for entry in manifest.document.get("file_inventory", ()):
        path = f"evidence-bundle/{entry['path']}"
        yield path, client.get(f"{theatre}/{path}")


def test_with_hashes_alone_no_public_route_shows_template_truth_answers_or_coin(
    client: Client, stage: SumsStage, database: Database
) -> None:
    ada, bob = client.registered("ada"), client.registered("bob")
    marked = with_config(stage.template, disclosure="hashes")
    marked |= {"display_name": MARK, "description": MARK}
    marked["fork_definitions"][0]["options"][0]["label"] = MARK
    path = committed(ada, marked)
    theatre_id = path.rpartition("/")[2]
    own = ada.get(f"{path}/commitment")
    hidden = {"template_snapshot": "disclosure: hashes"}
    public = {**own.document, "template_snapshot": None, "hidden": hidden}
    for stranger in (client, bob):
        assert stranger.get(f"{path}/commitment").document == public
    assert own.headers["cache-control"] == "private, no-store"
    hashed = ada.get(f"{path}/commitment?format=canonical").body
    assert hashlib.sha256(hashed).hexdigest() == own.document["commitment_hash"]
    theatre = run(ada, path).document
    await_logged(database, 2)
    certificate = client.get(f"{path}/certificate").document
    filled = {
        "theatre_id": theatre_id,
        "certificate_id": certificate["certificate_id"],
        "template_id": theatre["template_id"],
        "construct_id": theatre["construct_id"],
        "episode_id": "sum-2",
        "path": "0/000.p/2",
        "statement_sha256": "ab" * 32,
        "sha256": canonical_sha256(marked),
        "slug": "not-found",
    }
    for stranger in (client, bob):
        shown = dict(read_by_all(stranger, **filled))
        leaks = [
            name
            for name, reply in shown.items()
            if MARK.encode() in reply.body or b'"numbers"' in reply.body
        ]
        assert leaks == []
        assert {name for name, reply in shown.items() if reply.status == 404} >= {
            "/templates/{template_id}",
            "/theatres/{theatre_id}/evidence-bundle",
            "template",
            "hashed",
            "evidence-bundle/coin.txt",
            "evidence-bundle/commitment_receipt.json",
            "evidence-bundle/ground_truth/dataset.jsonl",
            "evidence-bundle/invocations/episode_000001.json",
            "evidence-bundle/template.json",
        }
        assert shown["/templates"].document["templates"] == []
        listed = shown["/theatres/{theatre_id}/episodes"].document["episodes"]
        assert [one["withheld"] for one in listed] == [True] * 4
        one = shown["/theatres/{theatre_id}/episodes/{episode_id}"].document
        assert (one["withheld"], one["record"]) == (True, None)
    assert (certificate["disclosure"], certificate["episodes_withheld"]) == ("hashes", 4)
    owned = dict(read_by_all(ada, **filled))
    assert MARK.encode() in owned["evidence-bundle/template.json"].body
    assert b'"numbers"' in owned["/theatres/{theatre_id}/episodes/{episode_id}"].body


def test_what_a_template_withholds_is_said_to_be_withheld_and_the_rest_is_open(
    client: Client, stage: SumsStage, database: Database, tmp_path: Path
) -> None:
    ada = client.registered("ada")
    config = {"disclosure": "withheld", "withheld": {"share": 0.5}}
    path = ended(ada, with_config(stage.template, **config) | {"schema_version": "2.2.0"})
    await_logged(database, 2)
    listed = client.get(f"{path}/episodes").document["episodes"]
    closed = {one["episode_id"] for one in listed if one["withheld"]}
    assert (len(listed), len(closed)) == (4, 2)
    assert not any(one["withheld"] for one in ada.get(f"{path}/episodes").document["episodes"])
    for one in listed:
        shown = client.get(f"{path}/episodes/{one['episode_id']}").document
        assert (shown["record"] is None) == shown["withheld"] == one["withheld"]
    view = client.get(f"{path}/certificate").document
    assert (view["disclosure"], view["episodes_withheld"]) == ("withheld", 2)
    (one,) = client.get("/certificates").document["certificates"]
    assert {name: one[name] for name in ("disclosure", "episodes_withheld", "run")} == {
        name: view[name] for name in ("disclosure", "episodes_withheld", "run")
    }
    published = client.get(f"{path}/evidence-bundle")
    report = checked(unpacked(published.body, tmp_path / "stranger"))
    assert (report.consistent, report.verdict) == (True, Verdict.CONSISTENT)
    assert CheckStatus.WITHHELD in {one.status for one in report.checks}
    lines = client.get(f"{path}/evidence-bundle/episodes.jsonl").body.splitlines()
    assert sum("leaf" in parse_object(line) for line in lines) == 2
    for name in ("coin.txt", "ground_truth/dataset.jsonl", "invocations/episode_000001.json"):
        assert client.get(f"{path}/evidence-bundle/{name}").slug == "not-found"
        assert ada.get(f"{path}/evidence-bundle/{name}").status == 200
    assert b'"numbers"' not in client.get(f"{path}/replay").body
    # What was made on this machine is made again where it was changed.
    for copy in (tmp_path / "home").rglob("published/*"):
        copy.write_bytes(b"changed")
    assert client.get(f"{path}/evidence-bundle").body == published.body
    whole = unpacked(ada.get(f"{path}/evidence-bundle").body, tmp_path / "owner")
    assert (checked(whole).consistent, (whole / "coin.txt").exists()) == (True, True)
    signed, shown = tmp_path / "signed.json", tmp_path / "shown.json"
    signed.write_bytes(client.get(f"/certificates/{view['certificate_id']}/sigstore").body)
    assert echelon("disclose", whole, "--episodes", ",".join(closed), "--output", shown) == 0
    assert echelon("audit", "check", signed, shown) == 0


def echelon(*arguments: object) -> int:
    return CliRunner().invoke(cli, [str(one) for one in arguments]).exit_code


def test_an_audit_is_logged_answered_by_the_owner_alone_and_counted(
    client: Client,
    stage: SumsStage,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "auditor"))
    ada, bob = client.registered("ada"), client.registered("bob")
    path = ended(ada, with_config(stage.template, disclosure="hashes"))
    certificate = client.get(f"{path}/certificate").document
    audits = f"/certificates/{certificate['certificate_id']}/audits"
    signed, shown = tmp_path / "signed.json", tmp_path / "shown.json"
    signed.write_bytes(client.get(f"/certificates/{certificate['certificate_id']}/sigstore").body)

    def asked(name: str, days: int) -> dict[str, Any]:
        file = tmp_path / name
        drawn = ("--draw", 3, "--days", days, "--output", file)
        assert echelon("audit", "request", signed, *drawn) == 0
        return parse_object(file.read_bytes())

    def answer(document: object, name: str = "audit.json") -> Reply:
        coin = (tmp_path / f"{name}.coin").read_text().strip()
        return ada.post(f"{audits}/answer", {"request": document, "coin": coin})

    request, hasty, ignored = (
        asked(*one) for one in (("audit.json", 30), ("hasty.json", 2), ("ignored.json", 8))
    )
    assert answer(request).slug == "audit-refused"
    for refused in (hasty, {**request, "statement_sha256": "ab" * 32}, {**request, "episodes": 3}):
        assert bob.post(audits, refused).slug == "audit-refused"
    for document in (request, request, ignored):
        logged = bob.post(audits, document)
        assert (logged.status, logged.document["open_by"][:19]) == (200, document["open_by"][:19])
    assert answer(request, "ignored.json").slug == "audit-refused"
    coin = (tmp_path / "audit.json.coin").read_text().strip()
    assert bob.post(f"{audits}/answer", {"request": request, "coin": coin}).slug == "not-found"
    opened = answer(request)
    assert (opened.status, answer(request).body) == (200, opened.body)
    shown.write_bytes(opened.body)
    given = ("--audit", tmp_path / "audit.json", "--coin", tmp_path / "audit.json.coin")
    assert echelon("audit", "check", signed, shown, *given) == 0
    await_logged(database, 5)
    record = client.get(f"/constructs/{certificate['construct_id']}/record").document
    assert record["audits"] == {"requested": 2, "answered": 1, "overdue": 0}
    assert [one.answered_at for one in record_of_rows(database).audits.values()] == [4, None]

    async def counted(engine: AsyncEngine, days: int) -> CountedAudits:
        async with engine.connect() as connection:
            late = now() + timedelta(days=days)
            return await count_audits(connection, certificate["construct_id"], None, now=late)

    assert database.play(lambda engine: counted(engine, 7)) == (2, 1, 0)
    assert database.play(lambda engine: counted(engine, 9)) == (2, 1, 1)
