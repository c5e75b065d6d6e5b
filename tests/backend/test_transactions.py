"""A commit that fails never answers 2xx, and leaves nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.database.sessions import OWNER
from backend.main import create_app
from tests.backend import faults
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for

REFUSED = "refused-at-commit"
FAILS_AT_COMMIT = f"""
CREATE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the commit failed'; END $$;
CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON registered_constructs
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.construct_id = '{REFUSED}') EXECUTE FUNCTION fail_at_commit()
"""


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[Client]:
    with database.connected(OWNER) as connection:
        connection.execute(FAILS_AT_COMMIT.encode())
    app = create_app(settings_for(database, tmp_path))
    app.include_router(faults.router)
    with served(app) as client:
        yield client.registered("ada")


def claimed(database: Database) -> list[object]:
    return [row["construct_id"] for row in database.rows("SELECT * FROM registered_constructs")]


def test_a_commit_that_fails_is_not_answered_as_a_success(
    client: Client, database: Database
) -> None:
    keyed = {"Idempotency-Key": "first"}
    reply = client.post("/claims", {"construct_id": REFUSED}, headers=keyed)
    assert (reply.status, reply.slug) == (500, "internal-error")
    assert "location" not in reply.headers
    assert claimed(database) == []
    assert database.rows("SELECT * FROM idempotency_keys") == []


def test_a_commit_that_succeeds_has_happened_when_it_is_answered(
    client: Client, database: Database
) -> None:
    assert client.post("/claims", {"construct_id": "mine"}).status == 201
    assert claimed(database) == ["mine"]


def test_what_a_route_raises_after_its_effect_undoes_the_effect(
    client: Client, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("after the effect")

    monkeypatch.setattr(faults.faults, "after_effect", fail)
    assert client.post("/claims", {"construct_id": "mine"}).slug == "internal-error"
    assert claimed(database) == []
