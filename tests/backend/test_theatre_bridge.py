"""Runs over HTTP: accepted once, carried to their end, taken up again, cancelled."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from backend.database.embedded.cluster import SUPERUSER
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, at_once, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_serve import serving
from tests.backend.theatre_templates import cartograph
from tests.theatre.conftest import episode
from tests.theatre.echelon_process import CARTOGRAPH, ECHELON, environment, until
from tests.theatre.runs import checked
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.published_bundle import unpack_bundle

EXPECTED = json.loads(CARTOGRAPH.with_suffix(".expected.json").read_text())
WAIT = {"Prefer": "wait=60"}
MARKETS = CARTOGRAPH.parent / "market"


def committed(client: Client, template: object) -> str:
    """Create and commit a theatre; return its path."""
    made = client.post("/api/v1/theatres", {"template_json": template})
    assert made.status == 201, made
    path = made.headers["location"]
    reply = client.post(f"{path}/commit", b"")
    assert reply.status == 200, reply
    return path


def run(client: Client, path: str, **body: Any) -> Reply:  # noqa: ANN401 - members of the body
    return client.post(f"{path}/run", body, headers=WAIT)


def bundle_of(home: Path, path: str) -> Path:
    theatre_id = path.rpartition("/")[2]
    return home / "evidence" / "theatres" / theatre_id / bundle_name(theatre_id)


def test_cartograph_over_http_comes_to_what_the_command_line_comes_to(
    database: Database, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with serving(home, ECHELON_DATABASE_URL=database.application) as service:
        client = service.client
        ada = client.registered("ada")
        path = committed(ada, cartograph())
        accepted = ada.post(f"{path}/run", b"")
        assert (accepted.status, accepted.headers["location"]) == (202, path)
        assert accepted.headers["retry-after"] == "1"
        until(lambda: ada.get(path).document["run"]["status"] == "succeeded", "the end of the run")
        theatre = ada.get(path).document
        archive = tmp_path / "bundle.tar.gz"
        archive.write_bytes(client.get(f"{path}/evidence-bundle").body)
        document = client.get(f"/certificates/{theatre['certificate_id']}/document").body
        export = client.get(f"{path}/replay").body
        assert service.end() == 0
    assert (theatre["state"], theatre["outcome"]) == ("ARCHIVED", "certified")
    assert (theatre["progress"], theatre["total_episodes"]) == (240, 240)
    bundle = tmp_path / "downloaded"
    unpack_bundle(archive, bundle)
    issued = tmp_path / "certificate.json"
    issued.write_bytes(document)
    subprocess.run(["cmp", issued, bundle / "certificate.json"], check=True)
    check = [str(ECHELON), "check", str(bundle), "--certificate", str(issued)]
    subprocess.run(check, env=environment(home), check=True, capture_output=True)
    (row,) = database.rows("SELECT results_hash, document FROM theatre_certificates")
    assert row == {"results_hash": EXPECTED["results_hash"], "document": document[:-1]}
    (archived,) = database.rows(
        "SELECT detail_json FROM theatre_audit_events WHERE event_type = 'archived'"
    )
    assert archived["detail_json"]["export_sha256"] == sha256_hex(export)


def test_one_key_queues_one_run_and_is_answered_the_same_again(
    ada: Client, stage: SumsStage, database: Database
) -> None:
    path = committed(ada, stage.template)
    keyed = {**WAIT, "Idempotency-Key": "run"}
    first = ada.post(f"{path}/run", b"", headers=keyed)
    again = ada.post(f"{path}/run", b"", headers=keyed)
    assert (first.status, again.status) == (200, 202)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.document["run"]["status"] == "queued"
    assert len(database.rows("SELECT id FROM theatre_certificates")) == 1


def test_an_answer_that_was_preferred_to_wait_holds_the_end(ada: Client, stage: SumsStage) -> None:
    path = committed(ada, stage.template)
    reply = run(ada, path)
    assert (reply.status, reply.headers["preference-applied"]) == (200, "wait=60")
    whole = {**reply.document, "parameters": stage.template, "ending": None, "usage": None}
    assert whole == ada.get(path).document
    assert (reply.document["state"], reply.document["outcome"]) == ("ARCHIVED", "certified")


def test_of_twenty_runs_at_once_one_is_accepted(
    ada: Client, stage: SumsStage, database: Database
) -> None:
    path = committed(ada, stage.template)
    replies = at_once(20, lambda: run(ada, path))
    assert Counter(reply.status for reply in replies) == {200: 1, 409: 19}
    assert len(database.rows("SELECT id FROM theatre_certificates")) == 1
    again = run(ada, path)
    assert (again.status, again.slug) == (409, "invalid-transition")
    assert "ARCHIVED" in again.document["detail"]


def test_a_rehearsal_takes_the_same_steps_and_leaves_no_certificate(
    ada: Client, stage: SumsStage, database: Database
) -> None:
    path = committed(ada, stage.template)
    theatre = run(ada, path, is_certificate_run=False).document
    assert (theatre["state"], theatre["outcome"], theatre["certificate_id"]) == (
        "RESOLVED",
        "no_certificate",
        None,
    )
    assert database.rows("SELECT id FROM theatre_certificates") == []


def test_a_run_without_a_certificate_says_why_to_its_owner_and_codes_to_everybody(
    database: Database, tmp_path: Path
) -> None:
    asked = ["err", "refuse", "err", "err", "refuse"]
    records = [episode(number, [number, 1], do) for number, do in enumerate(asked, start=1)]
    stage = sums_stage(tmp_path / "stage", records)
    policy: JsonObject = {"retry_policy": {"max_retries": 0}, "on_threshold": "continue"}
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template | {"execution_policy": policy})
        assert ada.get(path).document["ending"] is None
        assert run(ada, path).document["outcome"] == "no_certificate"
        owner = ada.get(path).document
        assert client.get(path).status == 401
        events = client.get(f"{path}/audit-events?limit=100").document["audit_events"]
        kept = ada.get(f"{path}/episodes/{records[0]['episode_id']}").document["record"]
    assert (owner["outcome"], owner["outcome_reason"]) == ("no_certificate", "nothing-scored")
    assert owner["ending"] == {
        "statuses": {"success": 0, "refused": 2, "timeout": 0, "error": 3},
        "reasons": [
            {
                "code": "error",
                "count": 3,
                "example": {
                    "episode_id": records[0]["episode_id"],
                    "error_detail": "cannot add",
                    "stderr": None,
                },
            },
            {
                "code": "refused",
                "count": 2,
                "example": {
                    "episode_id": records[1]["episode_id"],
                    "error_detail": "will not add",
                    "stderr": None,
                },
            },
        ],
    }
    (resolved,) = [event["detail"] for event in events if event["event_type"] == "resolved"]
    assert resolved["statuses"] == owner["ending"]["statuses"]
    assert [(one["code"], one["count"]) for one in resolved["reasons"]] == [
        ("error", 3),
        ("refused", 2),
    ]
    # What the construct said is its owner's to read: the chain is public.
    assert " add" not in json.dumps(resolved)
    assert kept["calls"][0]["attempts"][0]["response"]["error_detail"] == "cannot add"


def test_a_draft_is_not_run(ada: Client, stage: SumsStage) -> None:
    path = ada.post("/theatres", {"template_json": stage.template}).headers["location"]
    refused = run(ada, path)
    assert (refused.status, refused.slug) == (409, "invalid-transition")
    assert "DRAFT" in refused.document["detail"]
    assert "commit" in refused.document["detail"]


def test_a_market_is_committed_and_neither_run_nor_settled(ada: Client) -> None:
    market = json.loads(next(iter(sorted(MARKETS.glob("*.json")))).read_bytes())
    path = committed(ada, market)
    for command in ("run", "settle"):
        refused = ada.post(f"{path}/{command}", b"")
        assert (refused.status, refused.slug) == (409, "execution-path-unavailable")
    assert ada.get(path).document["state"] == "COMMITTED"


def test_episodes_are_asked_more_than_once(ada: Client, stage: SumsStage, tmp_path: Path) -> None:
    policy = {**cast("JsonObject", stage.template.get("execution_policy", {})), "repeats": 3}
    path = committed(ada, {**stage.template, "schema_version": "2.2.0", "execution_policy": policy})
    assert run(ada, path).document["outcome"] == "certified"
    bundle = bundle_of(tmp_path / "home", path)
    assert checked(bundle).failed == ()
    certificate = json.loads((bundle / "certificate.json").read_bytes())
    assert (certificate["repeats"]["k"], certificate["repeats"]["asked"]) == (3, 12)
    assert certificate["episode_counts"]["scored"] == 4


def test_what_went_wrong_is_told_without_the_folders_of_the_machine(
    ada: Client, stage: SumsStage
) -> None:
    path = committed(ada, stage.template)
    (stage.folder / "construct" / "main.py").unlink()
    theatre = run(ada, path).document
    assert (theatre["state"], theatre["run"]["status"]) == ("COMMITTED", "failed")
    assert "[path]" in theatre["error"]
    assert str(stage.folder.parent) not in theatre["error"]


def test_a_committed_dataset_that_was_changed_is_not_run(
    ada: Client, stage: SumsStage, tmp_path: Path
) -> None:
    path = committed(ada, stage.template)
    (stage.folder / "sums.jsonl").unlink()
    (copy,) = (tmp_path / "home" / "evidence" / "datasets").iterdir()
    kept = copy.read_bytes()
    copy.write_bytes(kept + b"\n")
    refused = run(ada, path)
    assert (refused.status, refused.slug) == (422, "dataset-mismatch")
    assert ada.get(path).document["state"] == "COMMITTED"
    copy.write_bytes(kept)
    assert run(ada, path).document["outcome"] == "certified"


def test_a_run_that_is_cancelled_is_void_for_everybody_to_see(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(4, gate_at=3))
    settings = settings_for(database, tmp_path / "home", drain_seconds=0.2, **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["progress"] == 2, "two episodes")
        # The construct never comes through the gate: it is waited for so long and no longer.
        cancelled = ada.post(f"{path}/cancel", b"", headers=WAIT).document
        assert (cancelled["state"], cancelled["outcome"]) == ("RESOLVED", "void")
        assert (cancelled["outcome_reason"], cancelled["run"]["status"]) == (
            "cancelled",
            "cancelled",
        )
        assert ada.post(f"{path}/cancel", b"").slug == "invalid-transition"
    assert database.rows("SELECT id FROM theatre_certificates") == []


@pytest.mark.parametrize("end", ["terminated", "killed"])
def test_what_a_stopped_service_left_unfinished_is_taken_up_again(
    database: Database, tmp_path: Path, end: str
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(4, gate_at=3))
    home = tmp_path / "home"
    variables = {
        "ECHELON_DATABASE_URL": database.application,
        "ECHELON_LEASE_SECONDS": "1",
        "ECHELON_DRAIN_SECONDS": "0.2",
        **stage.variables,
    }
    with serving(home, "first", **variables) as first:
        ada = first.client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["progress"] == 2, "two episodes")
        if end == "killed":
            first.process.kill()
            first.process.wait()
        else:
            assert first.end() == 0
    (left,) = database.rows("SELECT state, run_status, run_epoch FROM theatres")
    status = "running" if end == "killed" else "queued"
    assert left == {"state": "ACTIVE", "run_status": status, "run_epoch": 1}
    with serving(home, "second", **variables) as second:
        again = Client(second.client.port, ada.headers)

        def is_archived() -> bool:
            stage.let_through()
            return bool(again.get(path).document["state"] == "ARCHIVED")

        until(is_archived, "the end of the run")
        assert second.end() == 0
    assert checked(bundle_of(home, path)).consistent
    recorded = database.rows("SELECT seq FROM theatre_episode_scores ORDER BY seq")
    assert [row["seq"] for row in recorded] == [1, 2, 3, 4]
    assert len(database.rows("SELECT id FROM theatre_certificates")) == 1


def test_a_run_outlives_its_connections_to_the_database(database: Database, tmp_path: Path) -> None:
    stage = sums_stage(tmp_path / "stage", sums(4, gate_at=3))
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["progress"] == 2, "two episodes")
        with database.connected(SUPERUSER) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

        def is_archived() -> bool:
            stage.let_through()
            reply = ada.get(path)
            return reply.status == 200 and reply.document["state"] == "ARCHIVED"

        until(is_archived, "the end of the run")
    recorded = database.rows("SELECT seq FROM theatre_episode_scores ORDER BY seq")
    assert [row["seq"] for row in recorded] == [1, 2, 3, 4]
    assert checked(bundle_of(tmp_path / "home", path)).consistent
