"""One key, one effect, one answer."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from backend.database.sessions import APPLICATION, OWNER
from backend.main import create_app
from tests.backend import faults
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, at_once, served, settings_for

AT_ONCE = 20


@pytest.fixture
def anybody(database: Database, tmp_path: Path) -> Iterator[Client]:
    app = create_app(settings_for(database, tmp_path))
    app.include_router(faults.router, prefix="/api/v1")
    app.include_router(faults.router)
    with served(app) as client:
        yield client


@pytest.fixture
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


def claim(client: Client, construct_id: str, key: str, path: str = "/claims") -> Reply:
    return client.post(path, {"construct_id": construct_id}, headers={"Idempotency-Key": key})


def effects(database: Database) -> int:
    return len(database.rows("SELECT 1 FROM registered_constructs"))


def test_twenty_at_once_have_one_effect_and_one_answer(ada: Client, database: Database) -> None:
    replies = at_once(AT_ONCE, lambda: claim(ada, "mine", "k1"))
    assert {reply.status for reply in replies} == {201}
    assert len({reply.body for reply in replies}) == 1
    assert [reply.headers.get("idempotent-replayed") for reply in replies].count(None) == 1
    assert effects(database) == 1


def test_a_replay_is_the_first_answer_under_both_spellings_of_path_and_key(ada: Client) -> None:
    first = claim(ada, "mine", "k1")
    again = claim(ada, "mine", '"k1"', path="/api/v1/claims")
    assert (again.status, again.body) == (201, first.body)
    assert again.headers["location"] == first.headers["location"] == "/claims/4"
    assert again.headers["content-type"] == "application/json"
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


def test_another_body_under_the_key_is_refused(ada: Client, database: Database) -> None:
    claim(ada, "mine", "k1")
    refused = claim(ada, "another", "k1")
    assert (refused.status, refused.slug) == (422, "idempotency-mismatch")
    assert effects(database) == 1


def test_keys_belong_to_their_users(ada: Client, anybody: Client, database: Database) -> None:
    first = claim(ada, "adas", "k1")
    second = claim(anybody.registered("bob"), "bobs", "k1")
    assert (first.status, second.status) == (201, 201)
    assert effects(database) == 2


def test_what_failed_or_was_misshapen_is_not_kept(ada: Client, database: Database) -> None:
    claim(ada, "mine", "k0")
    assert claim(ada, "mine", "k1").slug == "internal-error"  # The construct is taken.
    assert ada.post("/claims", {}, headers={"Idempotency-Key": "k1"}).slug == "validation-error"
    assert claim(ada, "another", "k1").status == 201
    assert effects(database) == 2


def test_after_two_days_a_key_is_new(ada: Client, database: Database) -> None:
    first = claim(ada, "mine", "k1")
    with database.connected(OWNER) as connection:
        connection.execute(
            "UPDATE idempotency_keys SET created_at = created_at - interval '48 hours'"
        )
    second = claim(ada, "another", "k1")
    assert second.status == 201
    assert second.body != first.body
    assert len(database.rows("SELECT 1 FROM idempotency_keys")) == 1


def test_a_first_request_that_does_not_end_is_named(ada: Client, database: Database) -> None:
    (user,) = database.rows("SELECT id FROM users")
    with psycopg.connect(database.application) as connection:
        connection.execute(f"SET ROLE {APPLICATION}".encode())
        connection.execute(
            "INSERT INTO idempotency_keys (user_id, key, method, path, body_sha256, created_at) "
            "VALUES (%s, 'k1', 'POST', '/claims', %s, now())",
            (user["id"], "ab" * 32),
        )
        refused = claim(ada, "mine", "k1")
    assert (refused.status, refused.slug) == (409, "idempotency-in-progress")
    assert refused.headers["retry-after"] == "1"
    assert effects(database) == 0


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "tab\tin it", "\u00e9"])
def test_a_key_is_visible_ascii(ada: Client, key: str) -> None:
    refused = claim(ada, "mine", key)
    assert refused.slug == "validation-error"
    assert refused.document["errors"][0]["pointer"] == "header:Idempotency-Key"
