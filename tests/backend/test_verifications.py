"""Verifications over HTTP: the whole flow, whose they are, and how they end without."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.recorded_examples import LINES
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.test_theatre_bridge import bundle_of
from tests.backend.verification_stage import (
    FEW,
    RUN,
    GitHubStage,
    asked,
    finished,
    github,
    status,
    wished,
)
from tests.theatre.echelon_process import PATIENCE_SECONDS, until
from tests.theatre.oracles.loopback import Received, envelope, response, serving
from tests.theatre.runs import checked
from tests.theatre.verification.git_history import Commit, repository
from theatre.verification.certificate import verification_certificate
from theatre.verification.local_history import Selection, read_history
from theatre.verification.records import ground_truth_lines

RESULT = "/api/v1/verification/result"
LISTED = "/api/v1/verification/certificates"
COMMITS = [
    Commit(message=b"Change %d" % n, files={b"m%d.py" % n: b"def added_%d(): pass\n" % n})
    for n in range(5)
]
VERSION = "0123456789abcdef"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verifying") / "home"


@pytest.fixture(scope="module")
def clone(home: Path) -> Path:
    return repository(home.parent / "clones" / "ours", COMMITS)


@pytest.fixture(scope="module")
def stage() -> Iterator[GitHubStage]:
    with github() as stage:
        yield stage


@pytest.fixture(scope="module")
def anybody(
    module_database: Database, home: Path, clone: Path, stage: GitHubStage
) -> Iterator[Client]:
    settings = settings_for(
        module_database,
        home,
        # Jobs that wait for a moment are looked for in a quarter of it.
        lease_seconds=4,
        github_api_url=stage.root,
        clone_roots=(clone.parent,),
        outbound_allow=("127.0.0.1",),
    )
    with served(create_app(settings)) as client:
        yield client


@pytest.fixture(scope="module")
def database_rows(module_database: Database) -> Callable[[str], list[dict[str, Any]]]:
    return module_database.rows


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


@pytest.fixture(scope="module")
def bob(anybody: Client) -> Client:
    return anybody.registered("bob")


@pytest.mark.parametrize(
    "repository",
    ["https://github.com/o/n", "https://github.com/o/n.git", "https://github.com/o/n/"],
)
def test_the_literal_path_and_the_web_address_of_a_repository_are_the_same_thing(
    ada: Client, database_rows: Callable[[str], list[dict[str, Any]]], repository: str
) -> None:
    source = {"kind": "github", "repository": repository, "limit": FEW}
    once = {"Idempotency-Key": repository}
    reply = ada.post("/api/verification/run", wished(source=source), headers=once)
    assert reply.status == 202, reply
    job_id = reply.document["job_id"]
    assert ada.post(RUN, wished(source=source), headers=once).document["job_id"] == job_id
    seen = finished(ada, job_id)
    assert seen["outcome"] == "certified"
    assert ada.get(f"/api/verification/status/{job_id}").document == seen
    assert ada.get(f"/api/verification/result/{job_id}").body == ada.get(f"{RESULT}/{job_id}").body
    assert ada.get("/api/verification/certificates").document == ada.get(LISTED).document
    assert ada.post(f"/api/verification/cancel/{job_id}", b"").slug == "invalid-transition"
    assert ada.get("/api/theatres").status == 404
    rows = database_rows("SELECT id, request FROM verifications")
    stored = {str(row["id"]): row["request"]["source"] for row in rows}
    assert stored[job_id]["repository"] == "o/n"


@pytest.mark.parametrize(
    "repository",
    [
        "https://github.com/o",
        "https://github.com/o/n/pull/7",
        "https://github.com/o/.git",
        "http://github.com/o/n",
        "https://github.com.example/o/n",
        "https://github.com/o/..",
        "https://o:secret@github.com/o/n",
        "git@github.com:o/n.git",
        "o/n/",
        "o/n.git/",
    ],
)
def test_what_is_no_address_of_a_repository_is_refused(ada: Client, repository: str) -> None:
    source = {"kind": "github", "repository": repository, "limit": FEW}
    assert ada.post(RUN, wished(source=source)).slug == "validation-error"


def test_pull_requests_become_a_theatre_and_two_certificates(
    anybody: Client, ada: Client, bob: Client, home: Path, stage: GitHubStage
) -> None:
    asked_before = len(stage.service.requests)
    once = {"Idempotency-Key": "once"}
    reply = ada.post(RUN, wished(), headers=once)
    assert (reply.status, reply.document["phase"], reply.document["state"]) == (202, "queued", None)
    job_id = reply.document["job_id"]
    assert ada.post(RUN, wished(), headers=once).document["job_id"] == job_id
    assert reply.headers["location"] == f"/api/v1/verification/status/{job_id}"
    seen = finished(ada, job_id)
    assert (seen["outcome"], seen["outcome_reason"], seen["error"]) == ("certified", None, None)
    assert (seen["records"], seen["replays"]["completed"], seen["replays"]["total"]) == (4, 4, 4)
    kept = home / "evidence" / "readings" / job_id
    until(lambda: not kept.exists(), "the end of what was kept")

    theatre = ada.get(f"/api/v1/theatres/{job_id}").document
    assert (theatre["template_id"], theatre["state"]) == ("community_oracle_v1", "ARCHIVED")
    bundle = bundle_of(home, job_id)
    assert checked(bundle).consistent
    result = ada.get(f"{RESULT}/{job_id}")
    assert result.body == verification_certificate(bundle)
    certificate = result.document
    assert (certificate["ground_truth_source"], certificate["commit_range"]) == (
        "https://github.com/o/n",
        f"{6:040x}..{9:040x}",
    )
    assert certificate["theatre_certificate"]["certificate_id"] == theatre["certificate_id"]
    tag = {"If-None-Match": result.headers["etag"]}
    assert ada.ask("GET", f"{RESULT}/{job_id}", headers=tag).status == 304
    records = ada.get(f"/api/v1/theatres/{job_id}/replay").body.splitlines()
    calibrations = [json.loads(record)["calibration"] for record in records]
    lifted = ("sample_size", "agent_accuracy", "precision", "recall", "reply_accuracy")
    assert calibrations == [{name: certificate[name] for name in lifted}] * 4

    (listed, *_) = anybody.get(f"{LISTED}?construct_id=change_extractive").document["certificates"]
    assert (listed["certificate_id"], listed["replay_count"]) == (theatre["certificate_id"], 4)
    assert listed["precision"] == certificate["precision"]
    assert anybody.get(f"{LISTED}?construct_id=another").document["total"] == 0

    for path in (f"/verification/status/{job_id}", f"/verification/result/{job_id}"):
        assert bob.get(path).slug == "not-found"
        assert anybody.get(path).slug == "unauthenticated"
    assert anybody.post(RUN, wished()).slug == "unauthenticated"
    # One list of pull requests, and two requests for each of them.
    assert len(stage.service.requests) - asked_before == 1 + 2 * FEW


def test_a_clone_and_its_uploaded_records_are_the_same_ground_truth(
    anybody: Client, ada: Client, bob: Client, clone: Path
) -> None:
    records = ground_truth_lines(read_history(clone, Selection(limit=FEW)))
    upload = ada.ask("POST", "/datasets", body=records, headers=LINES).document
    sources: list[dict[str, Any]] = [
        {"kind": "clone", "path": "ours", "limit": FEW},
        {"kind": "records", "dataset": upload["name"]},
    ]
    theirs = bob.post(RUN, wished(source=sources[1]))
    assert (theirs.status, theirs.slug) == (422, "dataset-unavailable")
    jobs = [asked(ada, source=source, weights={"recall": 3.0}) for source in sources]
    certificates = []
    for job_id in jobs:
        seen = finished(ada, job_id)
        assert (seen["outcome"], seen["records"]) == ("certified", FEW), seen
        certificates.append(ada.get(f"{RESULT}/{job_id}").document)
    hashes = {one["ground_truth_hash"] for one in certificates}
    assert len(hashes) == 1
    assert [one["ground_truth_source"] for one in certificates] == [
        "local-clone",
        "uploaded-records",
    ]
    for job_id in jobs:
        receipt = ada.get(f"/theatres/{job_id}/commitment").document
        template, sha256 = receipt["template_snapshot"], receipt["dataset_hashes"]["ground_truth"]
        config, weights = template["product_theatre_config"], template["criteria"]["weights"]
        assert (config["replay_data_path"], config["disclosure"]) == (f"dataset:{sha256}", "hashes")
        assert weights == {"precision": 0.2, "recall": 0.6, "reply_accuracy": 0.2}
        # Nothing that is public says where a clone lies.
        assert "ours" not in json.dumps(receipt)
        assert ada.get(f"/datasets/{sha256}").document["lines_total"] == FEW
        assert bob.get(f"/datasets/{sha256}").slug == "not-found"
    # A page at a time, the newest first.
    page = anybody.get(f"{LISTED}?limit=1").document
    rest = anybody.get(f"{LISTED}?limit=1&cursor={page['next_cursor']}").document
    listed = [one["theatre_id"] for one in (*page["certificates"], *rest["certificates"])]
    assert sorted(listed) == sorted(jobs)
    assert page["total"] >= len(jobs)


async def half_deaf(request: Received, writer: asyncio.StreamWriter) -> None:
    """Say the version, and fail for one change."""
    record = request.envelope["input_data"]["record"]
    output = {"summary": record["title"], "key_claims": [], "follow_up_response": "1"}
    fails = {"status": "error", "output_data": None, "error_detail": "no"}
    members: dict[str, Any] = {"output_data": output} if record["id"] != "3" else fails
    writer.write(response(envelope(request, **{**members, "construct_version": VERSION})))


async def plain(_: Received, writer: asyncio.StreamWriter) -> None:
    """Know nothing of envelopes."""
    output = {"summary": "A change.", "key_claims": ["1 file"], "follow_up_response": "1"}
    writer.write(response(json.dumps(output).encode()))


def test_a_service_that_knows_no_envelope_is_asked_plainly_and_capped(ada: Client) -> None:
    with serving(plain) as oracle:
        job_id = asked(ada, construct={"construct_id": "plain", "endpoint": oracle.url})
        seen = finished(ada, job_id)
        assert (seen["outcome"], seen["replays"]["completed"]) == ("certified", FEW), seen
        certificate = ada.get(f"{RESULT}/{job_id}").document
    assert "version-unreported" in certificate["caps"]
    sent = [json.loads(one.body) for one in oracle.received]
    assert [one.get("id") for one in sent] == [None, "6", "7", "8", "9"]


def test_what_falls_short_ends_without_a_certificate_and_says_why(
    anybody: Client, ada: Client, clone: Path
) -> None:
    bad = ada.ask("POST", "/datasets", body=b'{"id": "c4n4ry"}\n', headers=LINES).document
    with serving(half_deaf) as oracle:
        service = {"construct_id": "half-deaf", "endpoint": oracle.url}
        everything = {"kind": "github", "repository": "o/n", "limit": 8}
        partly = asked(ada, source=everything, construct=service, min_replays=8)
        jobs = {
            name: asked(ada, source=source)
            for name, source in {
                "few": {"kind": "github", "repository": "o/n", "limit": 9, "labels": ["api"]},
                "none": {"kind": "clone", "path": "ours", "until": "2001-01-01"},
                "unknown": {"kind": "github", "repository": "o/unknown"},
                "no clone": {"kind": "clone", "path": "theirs"},
                "no range": {"kind": "clone", "path": "ours", "commit_range": "HEAD..nowhere"},
                "no records": {"kind": "records", "dataset": bad["name"]},
            }.items()
        }
        ended = {name: finished(ada, job_id) for name, job_id in jobs.items()}
        seen = finished(ada, partly)
    assert {name: one["outcome_reason"] for name, one in ended.items()} == {
        "few": "replays-below-minimum",
        "none": "repository-unreadable",
        "unknown": "repository-unreadable",
        "no clone": "repository-unreadable",
        "no range": "repository-unreadable",
        "no records": "dataset-invalid",
    }
    for one in ended.values():
        assert (one["phase"], one["outcome"], one["state"]) == ("finished", "failed", None)
        assert str(clone.parent.parent) not in one["error"]
        assert "c4n4ry" not in one["error"]
        assert ada.get(f"/theatres/{one['job_id']}").slug == "not-found"
    assert (seen["outcome"], seen["outcome_reason"]) == ("no_certificate", "replays-below-minimum")
    assert (seen["replays"]["failures"], seen["state"]) == (1, "ARCHIVED"), seen
    for job_id in (partly, ended["few"]["job_id"]):
        refused = ada.get(f"{RESULT}/{job_id}")
        assert (refused.status, refused.slug) == (409, "invalid-transition")
        assert "replays-below-minimum" in refused.document["detail"]
    assert anybody.get(f"{LISTED}?construct_id=half-deaf").document["total"] == 0
    # The probe, and eight changes of which the failed one is tried again.
    versions = [one.envelope["construct_version"] for one in oracle.received]
    assert set(versions[1:]) == {VERSION}
    assert versions[0] != VERSION


CANCEL = "/api/v1/verification/cancel"


def cancelled(client: Client, job_id: str) -> Reply:
    return client.ask("POST", f"{CANCEL}/{job_id}")


def test_what_is_not_committed_is_cancelled_at_once_and_leaves_nothing(
    anybody: Client, ada: Client, bob: Client, home: Path, stage: GitHubStage
) -> None:
    gate = stage.arm(after=3)
    job_id = asked(ada)
    until(gate.reached.is_set, "a reading at the gate")
    kept = home / "evidence" / "readings" / job_id
    assert kept.is_dir()
    assert (bob.ask("POST", f"{CANCEL}/{job_id}").slug, status(ada, job_id)["phase"]) == (
        "not-found",
        "ingesting",
    )
    assert anybody.ask("POST", f"{CANCEL}/{job_id}").slug == "unauthenticated"
    told = cancelled(ada, job_id)
    assert told.status == 202
    ended = ("finished", "void", "cancelled", None)
    names = ("phase", "outcome", "outcome_reason", "state")
    assert tuple(told.document[name] for name in names) == ended
    # Whoever reads finds out while the repository keeps it waiting.
    until(lambda: not kept.exists(), "the end of what was read")
    gate.opened.set()
    assert tuple(status(ada, job_id)[name] for name in names) == ended
    assert ada.get(f"/theatres/{job_id}").slug == "not-found"
    for again in (cancelled(ada, job_id), ada.get(f"{RESULT}/{job_id}")):
        assert (again.status, again.slug) == (409, "invalid-transition")


def test_what_waits_for_a_limit_is_cancelled_and_forgotten(
    ada: Client, home: Path, module_database: Database, stage: GitHubStage
) -> None:
    stage.limited = {len(stage.service.requests) + 3: 3000}
    job_id = asked(ada)
    until(lambda: status(ada, job_id)["waits_until"], "the wait for a limit")
    told = cancelled(ada, job_id).document
    assert (told["outcome"], told["outcome_reason"], told["waits_until"]) == (
        "void",
        "cancelled",
        None,
    )
    kept, before = home / "evidence" / "readings" / job_id, len(stage.service.requests)
    assert kept.is_dir()
    # As if the hour were over: its job has nothing to do but to tidy up.
    module_database.rows(
        "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE task_name = 'ingest' RETURNING id"
    )
    until(lambda: not kept.exists(), "the end of what was read")
    assert len(stage.service.requests) == before
    assert status(ada, job_id)["outcome_reason"] == "cancelled"


def test_once_it_is_committed_its_run_is_cancelled(ada: Client) -> None:
    replayed, released = threading.Event(), threading.Event()

    async def slow(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.envelope["episode_id"] != "probe":
            replayed.set()
            await asyncio.to_thread(released.wait, PATIENCE_SECONDS)
        await half_deaf(request, writer)

    try:
        with serving(slow) as oracle:
            job_id = asked(ada, construct={"construct_id": "slow", "endpoint": oracle.url})
            until(replayed.is_set, "the first change to be shown")
            told = cancelled(ada, job_id)
            assert (told.status, told.document["outcome"]) == (202, None)
            released.set()
            seen = finished(ada, job_id)
    finally:
        released.set()
    assert (seen["outcome"], seen["outcome_reason"]) == ("void", "cancelled")
    assert seen["certificate_id"] is None
    assert cancelled(ada, job_id).slug == "invalid-transition"


def test_a_limit_that_is_reached_for_long_is_waited_for_in_the_queue(
    ada: Client, module_database: Database, stage: GitHubStage
) -> None:
    before = len(stage.service.requests)
    stage.limited = {before + 3: 3000}
    job_id = asked(ada)
    until(lambda: status(ada, job_id)["waits_until"], "the wait for a limit")
    waiting = status(ada, job_id)
    assert (waiting["phase"], waiting["outcome"]) == ("queued", None)
    assert waiting["error"] == "GitHub's limit is reached"
    assert ada.get(f"{RESULT}/{job_id}").slug == "invalid-transition"
    (row,) = module_database.rows(
        "SELECT scheduled_at - now() AS wait FROM procrastinate_jobs WHERE task_name = 'ingest'"
    )
    assert row["wait"].total_seconds() > 2000
    assert len(stage.service.requests) == before + 4
    # As if the hour were over.
    module_database.rows(
        "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE task_name = 'ingest' RETURNING id"
    )
    assert finished(ada, job_id)["outcome"] == "certified"
    # The list once more, unchanged; what was read of the first change is not asked for again.
    lines = stage.service.requests[before:]
    assert stage.service.not_modified >= 1
    assert sum(" /repos/o/n/pulls/6 " in line for line in lines) == 1
