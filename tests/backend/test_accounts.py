"""Users and their keys: who is let in, with what, and to whose things."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg import errors

from backend.database.sessions import APPLICATION, OWNER
from backend.main import create_app
from backend.settings import Settings
from tests.backend import faults
from tests.backend.databases import Database
from tests.backend.operating import administered
from tests.backend.serving import PASSWORD, Client, served, settings_for
from theatre.cli.exits import ExitCode

REGISTER, TOKEN, KEYS = "/api/v1/auth/register", "/api/v1/auth/token", "/api/v1/keys"
CHANGE = "/api/v1/auth/password"
WRONG, NEW = "not the password", "another battery"


@pytest.fixture(scope="module")
def anybody(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("home")
    app = create_app(settings_for(module_database, home, worker_in_api=False))
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


def test_a_disabled_user_is_let_in_by_nothing_of_before(
    anybody: Client, module_database: Database, tmp_path: Path
) -> None:
    dora = anybody.registered("dora")
    tool = anybody.bearing(str(key(dora, "read", "keys")["key"]))
    assert [client.get(KEYS).status for client in (dora, tool)] == [200, 200]
    assert administered(module_database, tmp_path, "user", "disable", "DORA") is ExitCode.OK
    assert [client.get(KEYS).status for client in (dora, tool)] == [401, 401]
    assert anybody.form(TOKEN, username="dora", password=PASSWORD).status == 401
    assert administered(module_database, tmp_path, "user", "enable", "dora") is ExitCode.OK
    # Token and key of before the disabling may be in other hands: they do not come back.
    assert [client.get(KEYS).status for client in (dora, tool)] == [401, 401]
    assert anybody.form(TOKEN, username="dora", password=PASSWORD).status == 200


def test_a_changed_password_ends_the_tokens_of_before(anybody: Client) -> None:
    erin = anybody.registered("erin")
    tool = anybody.bearing(str(key(erin, "keys")["key"]))
    change = {"old_password": PASSWORD, "new_password": NEW}
    wrong = erin.post(CHANGE, {**change, "old_password": WRONG})
    assert (wrong.status, wrong.slug) == (403, "wrong-password")
    assert erin.post(CHANGE, {**change, "new_password": "short"}).slug == "validation-error"
    assert anybody.post(CHANGE, change).slug == "unauthenticated"
    changed = erin.post(CHANGE, change)
    assert changed.status == 200
    assert [client.get(KEYS).status for client in (erin, tool)] == [401, 200]
    assert anybody.bearing(changed.document["access_token"]).get(KEYS).status == 200
    assert anybody.form(TOKEN, username="erin", password=PASSWORD).status == 401
    assert anybody.form(TOKEN, username="erin", password=NEW).status == 200


def test_the_operator_makes_users_and_sets_passwords(
    anybody: Client, module_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def user(*words: str, stdin: str = "") -> ExitCode:
        return administered(module_database, tmp_path, "user", *words, stdin=stdin)

    make = ("create", "olga", "--email", "olga@example.org")
    assert user(*make, "--operator", stdin=f"{PASSWORD}\n") is ExitCode.OK
    assert user(*make, stdin=PASSWORD) is ExitCode.INVALID
    assert user("create", "o p", "--email", "x", stdin="short") is ExitCode.USAGE
    assert user("password", "nobody", stdin=PASSWORD) is ExitCode.NOT_FOUND
    assert user("password", "olga", stdin="short") is ExitCode.USAGE
    said = capsys.readouterr()
    assert "already-registered" in said.err
    assert PASSWORD not in said.out + said.err
    olga = anybody.form(TOKEN, username="olga", password=PASSWORD).document["access_token"]
    assert user("password", "olga", stdin=f"{NEW}\n") is ExitCode.OK
    assert anybody.bearing(olga).get(KEYS).status == 401
    assert anybody.form(TOKEN, username="olga", password=NEW).status == 200
    capsys.readouterr()
    assert user("list", "--json") is ExitCode.OK
    listed = {one["username"]: one for one in json.loads(capsys.readouterr().out)["users"]}
    assert listed["olga"] == {
        "id": listed["olga"]["id"],
        "username": "olga",
        "email": "olga@example.org",
        "is_operator": True,
        "created_at": listed["olga"]["created_at"],
        "disabled_at": None,
    }
    assert user("list") is ExitCode.OK
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["olga", "olga@example.org", "operator", "enabled"] in shown


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO users (username, is_operator) VALUES ('x', true)",
        "UPDATE users SET is_operator = true",
        "UPDATE users SET disabled_at = NULL",
        "INSERT INTO invites (code_sha256) VALUES ('x')",
        "UPDATE invites SET revoked_at = NULL",
        "DELETE FROM invites",
    ],
)
def test_the_service_itself_makes_no_operator_and_no_invite(
    module_database: Database, statement: str
) -> None:
    with (
        module_database.connected(APPLICATION) as connection,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def _door(database: Database, home: Path, registration: str) -> Settings:
    # One process of a database alone writes the log, and has its keys.
    return settings_for(database, home, worker_in_api=False, registration=registration)


@pytest.fixture(scope="module")
def inviting(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("inviting")
    with served(create_app(_door(module_database, home, "invite"))) as client:
        yield client


def test_an_invite_registers_one_user_and_not_one_more(
    inviting: Client, module_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def invited(name: str, code: str | None) -> str | int:
        user = {"username": name, "email": f"{name}@example.org", "password": PASSWORD}
        reply = inviting.post(REGISTER, {**user, **({} if code is None else {"invite": code})})
        return reply.status if reply.status == 201 else reply.slug

    def invite(*words: str) -> Any:  # noqa: ANN401 - JSON
        ended = administered(module_database, tmp_path, "invite", *words)
        assert ended is ExitCode.OK
        said = capsys.readouterr().out
        return json.loads(said) if "--json" in words else said

    first, second, late = (invite("create", "--note", "for i1", "--json") for _ in range(3))
    assert invited("i1", None) == "invite-invalid"
    assert invited("i1", "echelon_invite_" + "x" * 43) == "invite-invalid"
    assert invited("i1", first["code"]) == 201
    assert invited("i2", first["code"]) == "invite-invalid"
    # Without a good invite it is not said which names are taken; a name that is costs no invite.
    assert invited("I1", None) == "invite-invalid"
    assert invited("I1", second["code"]) == "already-registered"
    assert invite("list", "--json")["invites"][-1]["used_by"] == "i1"
    assert "revoked" in invite("revoke", second["id"])
    assert invited("i2", second["code"]) == "invite-invalid"
    with module_database.connected(OWNER) as connection:
        connection.execute("UPDATE invites SET expires_at = now() WHERE id = %s", [late["id"]])
    assert invited("i2", late["code"]) == "invite-invalid"
    assert f"used by i1 {invite('list', '--json')['invites'][-1]['used_at']}" in invite("list")
    assert "used by i1" in invite("revoke", first["id"])
    assert first["code"] not in str(module_database.rows("SELECT * FROM invites"))
    unknown = administered(module_database, tmp_path, "invite", "revoke", str(uuid4()))
    assert unknown is ExitCode.NOT_FOUND


def test_of_two_at_once_with_one_invite_one_is_registered(
    inviting: Client, module_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert administered(module_database, tmp_path, "invite", "create") is ExitCode.OK
    code = capsys.readouterr().out.strip()

    def register(name: str) -> int:
        user = {"username": name, "email": f"{name}@example.org", "password": PASSWORD}
        return inviting.post(REGISTER, {**user, "invite": code}).status

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(register, ("rival-1", "rival-2"))) == [201, 403]


def test_a_closed_service_registers_no_one(
    module_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert administered(module_database, tmp_path, "invite", "create") is ExitCode.OK
    user = {"username": "late", "email": "late@example.org", "password": PASSWORD}
    invite = {"invite": capsys.readouterr().out.strip()}
    with served(create_app(_door(module_database, tmp_path, "closed"))) as client:
        for given in (user, {**user, **invite}):
            refused = client.post(REGISTER, given)
            assert (refused.status, refused.slug) == (403, "registration-closed")
    assert Settings(mode="production").registering == "closed"
    assert Settings().registering == "open"


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
