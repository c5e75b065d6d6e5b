"""Theatres over HTTP: made, read by their owner alone, committed once."""

import hashlib
import itertools
import json
from collections import Counter

import pytest
import rfc8785

from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, at_once
from tests.backend.theatre_templates import CARTOGRAPH_HASH, cartograph, with_config
from theatre.engine.commitment import content_hash

BARE = {"Content-Type": "application/vnd.theatre.template+json"}
NOBODYS = "018f0000-0000-7000-8000-00000000dead"


_numbers = itertools.count()


@pytest.fixture
def client(anybody: Client) -> Client:
    return anybody


@pytest.fixture
def ada(client: Client) -> Client:
    """Who has no theatre yet."""
    return client.registered(f"ada{next(_numbers)}")


def events(database: Database, path: str) -> list[str]:
    query = "SELECT event_type FROM theatre_audit_events WHERE theatre_id = %s ORDER BY seq"
    return [row["event_type"] for row in database.rows(query, path.rpartition("/")[2])]


def created(client: Client, template: object) -> Reply:
    return client.post("/api/v1/theatres", {"template_json": template})


def test_a_valid_template_becomes_a_draft_of_its_sender(
    ada: Client, module_database: Database
) -> None:
    reply = created(ada, cartograph())
    theatre = reply.document
    assert reply.status == 201
    assert reply.headers["location"] == f"/api/v1/theatres/{theatre['id']}"
    moments = {name: theatre.pop(name) for name in ("created_at", "updated_at")}
    assert all(moment.endswith("Z") for moment in moments.values())
    assert len(theatre.pop("template_sha256")) == 64
    assert theatre == {
        "id": theatre["id"],
        "template_id": "product_cartograph_v1",
        "state": "DRAFT",
        "construct_id": "cartograph",
        "commitment_hash": None,
        "committed_at": None,
        "is_certificate_run": None,
        "progress": 0,
        "total_episodes": 0,
        "failure_count": 0,
        "error": None,
        "outcome": None,
        "outcome_reason": None,
        "resolved_at": None,
        "certificate_id": None,
        "run": None,
        "pending_steps": [],
        "warnings": [],
    }
    assert events(module_database, reply.headers["location"]) == ["created"]


def test_its_owner_reads_the_template_of_a_draft_and_of_what_became_of_it(ada: Client) -> None:
    path = created(ada, cartograph()).headers["location"]
    draft = ada.get(path).document
    assert (draft["state"], draft["parameters"]) == ("DRAFT", cartograph())
    assert ada.post(f"{path}/commit", b"").status == 200
    committed = ada.get(path).document
    assert (committed["state"], committed["parameters"]) == ("COMMITTED", cartograph())
    (listed,) = ada.get("/theatres").document["theatres"]
    assert {**listed, "parameters": cartograph(), "ending": None, "usage": None} == committed


def test_a_bare_template_is_the_same_template(ada: Client) -> None:
    body = json.dumps(cartograph()).encode()
    bare = ada.ask("POST", "/theatres", body=body, headers=BARE)
    assert bare.status == 201
    wrapped = created(ada, cartograph())
    assert bare.document["template_sha256"] == wrapped.document["template_sha256"]


def test_a_dry_run_says_what_the_commitment_will_be_and_stores_nothing(ada: Client) -> None:
    reply = ada.post("/theatres?dry_run=true", {"template_json": cartograph()})
    assert (reply.status, reply.document) == (
        200,
        {
            "template_id": "product_cartograph_v1",
            "commitment_hash": CARTOGRAPH_HASH.read_text().strip(),
            "content_hash": content_hash(cartograph()),
            "warnings": [],
        },
    )
    assert ada.get("/theatres").document["total"] == 0


def test_every_rule_that_a_template_breaks_is_listed(ada: Client) -> None:
    broken = cartograph(display_name=7, criteria=None)
    reply = created(ada, broken)
    assert (reply.status, reply.slug) == (422, "template-invalid")
    assert {one["pointer"] for one in reply.document["errors"]} >= {"/display_name", "/criteria"}


@pytest.mark.parametrize(
    ("adapter_type", "endpoint"),
    [
        ("local", '["/bin/sh", "-c", "id"]'),
        ("python", "os:system"),
        ("python", "construct:cartograph"),
        ("mock", "construct:cartograph"),
    ],
)
def test_a_template_of_the_api_names_no_command_no_module_and_no_mock(
    ada: Client, adapter_type: str, endpoint: str
) -> None:
    changed = with_config(cartograph(), adapter_type=adapter_type, adapter_endpoint=endpoint)
    assert created(ada, changed).slug == "template-invalid"
    assert ada.get("/theatres").document["total"] == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.jsonl", "dataset:../../etc/passwd"])
def test_a_template_of_the_api_names_no_file_outside_the_roots(ada: Client, path: str) -> None:
    changed = with_config(cartograph(), replay_data_path=path)
    assert created(ada, changed).slug == "template-invalid"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"template_json": 1}', 422), (b'{"template_json": {}, "more": 1}', 422), (b"{}", 422)],
)
def test_a_body_that_is_no_strict_document_is_refused(
    ada: Client, body: bytes, status: int
) -> None:
    assert ada.post("/theatres", body).status == status


def test_nobody_sees_or_moves_the_theatre_of_somebody_else(client: Client, ada: Client) -> None:
    bob = client.registered("bob")
    theatre_id = created(ada, cartograph()).document["id"]
    for path in (theatre_id, NOBODYS):
        assert bob.get(f"/theatres/{path}").slug == "not-found"
        assert bob.post(f"/theatres/{path}/commit", b"").slug == "not-found"
        assert bob.post(f"/theatres/{path}/run", b"").slug == "not-found"
        assert bob.post(f"/theatres/{path}/cancel", b"").slug == "not-found"
    assert bob.get("/theatres").document["theatres"] == []
    assert client.get(f"/theatres/{theatre_id}").slug == "unauthenticated"
    assert ada.get(f"/theatres/{theatre_id}").document["state"] == "DRAFT"


def test_pages_go_on_where_the_one_before_ended(ada: Client) -> None:
    ids = [created(ada, cartograph()).document["id"] for _ in range(5)][::-1]
    first = ada.get("/theatres?limit=2").document
    assert [one["id"] for one in first["theatres"]] == ids[:2]
    assert (first["total"], first["limit"], first["offset"]) == (5, 2, 0)
    second = ada.get(f"/theatres?limit=2&cursor={first['next_cursor']}").document
    assert [one["id"] for one in second["theatres"]] == ids[2:4]
    last = ada.get("/theatres?limit=2&offset=4").document
    assert ([one["id"] for one in last["theatres"]], last["next_cursor"]) == (ids[4:], None)
    assert ada.get("/theatres?state=COMMITTED").document["total"] == 0
    assert ada.get("/theatres?construct_id=cartograph").document["total"] == 5
    assert ada.get("/theatres?limit=101").slug == "validation-error"
    assert ada.get("/theatres?cursor=AAAA").slug == "validation-error"
    assert ada.get("/theatres?states=DRAFT").slug == "validation-error"


def test_a_theatre_that_did_not_change_is_not_sent_again(ada: Client) -> None:
    reply = created(ada, cartograph())
    path = reply.headers["location"]
    etag = ada.get(path).headers["etag"]
    assert ada.get(path, **{"If-None-Match": etag}).status == 304
    assert ada.post(f"{path}/commit", b"").status == 200
    assert ada.get(path, **{"If-None-Match": etag}).status == 200


def test_a_stranger_recomputes_the_commitment_from_what_is_public(
    client: Client, ada: Client
) -> None:
    path = created(ada, cartograph()).headers["location"]
    assert client.get(f"{path}/commitment").slug == "not-found"
    committed = ada.post(f"{path}/commit", b"").document
    receipt = client.get(f"{path}/commitment")
    assert receipt.headers["cache-control"] == "public, max-age=31536000, immutable"
    public = receipt.document
    hashed = rfc8785.dumps(
        {
            "dataset_hashes": public["dataset_hashes"],
            "template": public["template_snapshot"],
            "version_pins": public["version_pins"],
        }
    )
    canonical = client.get(f"{path}/commitment?format=canonical")
    assert canonical.body == hashed
    assert public["template_snapshot"] == cartograph()
    assert (
        hashlib.sha256(hashed).hexdigest()
        == public["commitment_hash"]
        == committed["commitment_hash"]
        == CARTOGRAPH_HASH.read_text().strip()
    )
    assert (
        client.get(f"{path}/commitment", **{"If-None-Match": receipt.headers["etag"]}).status == 304
    )


def test_a_commitment_that_is_not_the_expected_one_is_not_made(ada: Client) -> None:
    path = created(ada, cartograph()).headers["location"]
    refused = ada.post(f"{path}/commit", {"expected_commitment_hash": "ab" * 32})
    assert (refused.status, refused.slug) == (422, "commitment-refused")
    assert ada.get(path).document["state"] == "DRAFT"
    expected = {"expected_commitment_hash": CARTOGRAPH_HASH.read_text().strip()}
    assert ada.post(f"{path}/commit", expected).document["state"] == "COMMITTED"


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"replay_data_path": "ground_truth/none.jsonl"}, "dataset-unavailable"),
        ({"replay_data_path": "ground_truth/product_observer_v1.jsonl"}, "dataset-mismatch"),
        ({"replay_data_path": "dataset:" + "ab" * 32}, "dataset-unavailable"),
    ],
)
def test_ground_truth_that_is_not_there_as_stated_is_not_committed(
    ada: Client, changes: dict[str, str], slug: str
) -> None:
    path = created(ada, with_config(cartograph(), **changes)).headers["location"]
    refused = ada.post(f"{path}/commit", b"")
    assert (refused.status, refused.slug) == (422, slug)
    assert "/work" not in refused.document["detail"]
    assert ada.get(path).document["state"] == "DRAFT"


def test_of_twenty_commits_at_once_one_wins(ada: Client, module_database: Database) -> None:
    path = created(ada, cartograph()).headers["location"]
    replies = at_once(20, lambda: ada.post(f"{path}/commit", b""))
    assert Counter(reply.status for reply in replies) == {200: 1, 409: 19}
    assert {reply.slug for reply in replies if reply.status == 409} <= {
        "invalid-transition",
        "state-conflict",
    }
    assert events(module_database, path) == ["created", "committed"]


def test_of_twenty_creations_with_one_key_one_has_an_effect(ada: Client) -> None:
    keyed = {"Idempotency-Key": "one"}
    body = {"template_json": cartograph()}
    replies = at_once(20, lambda: ada.post("/theatres", body, headers=keyed))
    assert {(reply.status, reply.body) for reply in replies} == {(201, replies[0].body)}
    assert ada.get("/theatres").document["total"] == 1
