"""Users and their keys: who is let in, with what, and to whose things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.database.sessions import OWNER
from backend.main import create_app
from tests.backend import faults
from tests.backend.databases import Database
from tests.backend.serving import PASSWORD, Client, served, settings_for

REGISTER, TOKEN, KEYS = "/api/v1/auth/register", "/api/v1/auth/token", "/api/v1/keys"
WRONG = "not the password"


@pytest.fixture(scope="module")
def anybody(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    app = create_app(settings_for(module_database, tmp_path_factory.mktemp("home")))
    app.include_router(faults.router)
    with served(app) as client:
        yield client


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


@pytest.fixture(scope="module")
def bob(anybody: Client) -> Client:
    return anybody.registered("bob")


def key(client: Client, *scopes: str) -> dict[str, object]:
    made = client.post(KEYS, {"name": "a tool", "scopes": scopes, "expires_in_days": 1})
    assert made.status == 201
    return dict(made.document)


def test_a_user_registers_and_logs_in(anybody: Client, module_database: Database) -> None:
    user = {"username": "Grace.H-1", "email": "grace@example.org", "password": PASSWORD}
    made = anybody.post(REGISTER, user)
    assert made.status == 201
    (row,) = module_database.rows("SELECT * FROM users WHERE username = 'Grace.H-1'")
    assert made.document == {
        "id": str(row["id"]),
        "username": "Grace.H-1",
        "email": "grace@example.org",
    }
    assert row["password_hash"].startswith("$argon2id$")
    token = anybody.form(TOKEN, grant_type="password", username="grace.h-1", password=PASSWORD)
    assert token.headers["cache-control"] == "no-store"
    assert token.document == {
        "access_token": token.document["access_token"],
        "token_type": "bearer",
        "expires_in": 3600,
    }
    assert anybody.bearing(token.document["access_token"]).get(KEYS).document["keys"] == []


@pytest.mark.parametrize(
    ("username", "email"), [("ada", "new@example.org"), ("ADA", "x@b.c"), ("x", "Ada@Example.org")]
)
@pytest.mark.usefixtures("ada")
def test_names_and_addresses_are_taken_whatever_their_case(
    anybody: Client, username: str, email: str
) -> None:
    user = {"username": username, "email": email, "password": PASSWORD}
    refused = anybody.post(REGISTER, user)
    assert (refused.status, refused.slug) == (409, "already-registered")


@pytest.mark.parametrize(
    "change",
    [
        {"username": ""},
        {"username": "a b"},
        {"username": "<script>"},
        {"username": "x" * 101},
        {"username": "tr\u00fcdi"},
        {"username": "x\n"},
        {"email": "x"},
        {"email": "a b@c.d"},
        {"email": "x" * 251 + "@b.c"},
        {"password": "short"},
        {"password": "x" * 1001},
        {"password": 12345678},
        {"is_admin": True},
        {"id": "018f0000-0000-7000-8000-000000000001"},
    ],
)
def test_a_registration_has_its_shape(anybody: Client, change: dict[str, object]) -> None:
    user = {"username": "carol", "email": "carol@example.org", "password": PASSWORD, **change}
    assert anybody.post(REGISTER, user).slug == "validation-error"


@pytest.mark.usefixtures("ada")
def test_a_wrong_name_and_a_wrong_password_are_refused_alike(anybody: Client) -> None:
    refusals = [
        anybody.form(TOKEN, username=username, password=WRONG).document
        for username in ("ada", "nobody", "x" * 100)
    ]
    assert {refusal["title"] for refusal in refusals} == {"Authentication required"}
    assert len({refusal["detail"] for refusal in refusals}) == 1


def test_a_disabled_user_is_nobody(anybody: Client, module_database: Database) -> None:
    dora = anybody.registered("dora")
    tool = anybody.bearing(str(key(dora, "read", "keys")["key"]))
    assert [client.get(KEYS).status for client in (dora, tool)] == [200, 200]
    with module_database.connected(OWNER) as connection:
        connection.execute("UPDATE users SET disabled_at = now() WHERE username = 'dora'")
    assert [client.get(KEYS).status for client in (dora, tool)] == [401, 401]
    assert anybody.form(TOKEN, username="dora", password=PASSWORD).status == 401


def test_a_key_is_shown_once_and_kept_as_a_hash(ada: Client, module_database: Database) -> None:
    made = key(ada, "read", "write")
    secret = str(made.pop("key"))
    assert secret.startswith("echelon_key_")
    assert len(secret) == len("echelon_key_") + 43
    assert made in ada.get(KEYS).document["keys"]
    assert secret not in str(module_database.rows("SELECT * FROM api_keys"))


def test_a_key_does_what_its_scopes_say(anybody: Client, ada: Client) -> None:
    keeper = anybody.bearing(str(key(ada, "keys")["key"]))
    writer = anybody.bearing(str(key(ada, "write")["key"]))
    claim = {"construct_id": "by a key"}
    refused = writer.get(KEYS)
    assert (refused.status, refused.slug) == (403, "out-of-scope")
    assert keeper.post("/claims", claim).slug == "out-of-scope"
    assert writer.post("/claims", claim).status == 201
    assert keeper.get(KEYS).status == 200


def test_a_key_makes_no_key_that_can_do_more(anybody: Client, ada: Client) -> None:
    keeper = anybody.bearing(str(key(ada, "keys")["key"]))
    more = {"name": "more", "scopes": ["keys", "write"], "expires_in_days": 1}
    assert keeper.post(KEYS, more).slug == "out-of-scope"
    assert keeper.post(KEYS, {**more, "scopes": ["keys"]}).status == 201


def test_a_key_ends_on_its_day_or_when_it_is_revoked(
    anybody: Client, ada: Client, module_database: Database
) -> None:
    first, second = key(ada, "keys"), key(ada, "keys")
    tools = [anybody.bearing(str(made["key"])) for made in (first, second)]
    revoked = ada.ask("DELETE", f"{KEYS}/{first['id']}")
    assert revoked.document["revoked_at"] is not None
    assert ada.ask("DELETE", f"{KEYS}/{first['id']}").document == revoked.document
    assert [tool.get(KEYS).status for tool in tools] == [401, 200]
    with module_database.connected(OWNER) as connection:
        connection.execute("UPDATE api_keys SET expires_at = now() WHERE id = %s", [second["id"]])
    assert [tool.get(KEYS).status for tool in tools] == [401, 401]


def test_the_use_of_a_key_is_noted(anybody: Client, bob: Client) -> None:
    made = key(bob, "keys")
    assert made["last_used_at"] is None
    anybody.bearing(str(made["key"])).get(KEYS)
    (noted,) = bob.get(KEYS).document["keys"]
    assert noted["last_used_at"] > noted["created_at"]


def test_a_character_that_no_text_of_the_database_has_is_refused(anybody: Client) -> None:
    refused = anybody.form(TOKEN, username="a\0b", password=PASSWORD)
    assert (refused.status, refused.slug) == (422, "validation-error")


def test_nobody_sees_or_revokes_the_key_of_another(ada: Client, bob: Client) -> None:
    made = key(ada, "read")
    assert str(made["id"]) not in str(bob.get(KEYS).document)
    refused = bob.ask("DELETE", f"{KEYS}/{made['id']}")
    assert (refused.status, refused.slug) == (404, "not-found")
    assert [one for one in ada.get(KEYS).document["keys"] if one["id"] == made["id"]] == [
        {name: value for name, value in made.items() if name != "key"}
    ]


def test_an_id_that_is_none_is_refused(ada: Client) -> None:
    reply = ada.ask("DELETE", f"{KEYS}/..%2F..%2Fetc")
    assert reply.status in (404, 422)
    reply = ada.ask("DELETE", f"{KEYS}/1")
    assert reply.document["errors"][0]["pointer"] == "path:key_id"
