"""Tokens: which are taken, and every forgery that is not."""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import HMACAlgorithm

from backend.auth.signing_keys import new_key
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for

KEYS = "/api/v1/keys"
HEADER = {"typ": "at+jwt"}


class Forge:
    """Makes tokens with the service's own key, or one like it."""

    def __init__(self, file: Path, user_id: str) -> None:
        self.file = file
        self.user_id = user_id

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(json.loads(self.file.read_text(encoding="utf-8"))["keys"])

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        key = jwt.PyJWK(self.entries[-1], algorithm="ES256").key
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def claims(self, **changes: object) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "aud": "echelon-theatre",
            "iss": "local",
            "sub": self.user_id,
            "typ": "access",
            "gen": 0,
            "iat": now,
            "exp": now + 60,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, header: Mapping[str, Any] | None = None, **changes: object) -> str:
        headers = {**HEADER, "kid": self.entries[-1]["kid"], **(header or {})}
        return jwt.encode(self.claims(**changes), self.private, "ES256", headers=headers)

    def keep(self, *entries: Mapping[str, Any]) -> None:
        """Replace the file, as an operator who rotates keys does."""
        draft = self.file.with_name("draft")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps({"keys": entries}), encoding="utf-8")
        draft.replace(self.file)


@pytest.fixture(scope="module")
def anybody(
    module_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Client, Path]]:
    home = tmp_path_factory.mktemp("home")
    with served(create_app(settings_for(module_database, home, worker_in_api=False))) as client:
        yield client, home / "keys" / "tokens.json"


@pytest.fixture
def client(anybody: tuple[Client, Path]) -> Client:
    return anybody[0]


@pytest.fixture
def forge(anybody: tuple[Client, Path]) -> Forge:
    client, file = anybody
    name = f"u{uuid4().hex}"
    return Forge(file, client.add_user(name))


def status(client: Client, token: str) -> int:
    reply = client.bearing(token).get(KEYS)
    assert reply.status == 200 or reply.slug == "unauthenticated"
    return reply.status


def test_a_token_as_the_service_makes_it_is_taken(client: Client, forge: Forge) -> None:
    assert status(client, forge.token()) == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("aud", "another-service"),
        ("aud", None),
        ("aud", ["echelon", "theatre"]),
        ("iss", "somebody else"),
        ("iss", None),
        ("sub", None),
        ("gen", None),
        ("gen", "0"),
        ("gen", 0.0),
        ("gen", True),
        ("gen", 1),
        ("gen", -1),
        ("sub", "ada"),
        ("sub", "018f0000-0000-7000-8000-00000000000f"),
        ("typ", "refresh"),
        ("typ", None),
        ("exp", None),
        ("exp", 1),
        ("exp", "4102444800"),
        ("exp", True),
        ("iat", None),
        ("iat", 4102444800),
        ("nbf", 4102444800),
    ],
)
def test_a_token_with_a_wrong_claim_is_not(
    client: Client, forge: Forge, name: str, value: object
) -> None:
    assert status(client, forge.token(None, **{name: value})) == 401


@pytest.mark.parametrize(
    "header", [{"typ": "JWT"}, {"typ": "rt+jwt"}, {"kid": "another"}, {"kid": "../../etc/passwd"}]
)
def test_a_token_with_a_wrong_header_is_not(
    client: Client, forge: Forge, header: Mapping[str, str]
) -> None:
    assert status(client, forge.token(header)) == 401


def test_a_token_without_a_key_id_is_not(client: Client, forge: Forge) -> None:
    token = jwt.encode(forge.claims(), forge.private, "ES256", headers=HEADER)
    assert status(client, token) == 401


def test_an_unsigned_token_is_not(client: Client, forge: Forge) -> None:
    headers = {**HEADER, "kid": forge.entries[-1]["kid"]}
    unsigned = jwt.encode(forge.claims(), "", "none", headers=headers)
    assert status(client, unsigned) == 401
    stripped = forge.token().rpartition(".")[0] + "."
    assert status(client, stripped) == 401


def test_the_public_key_is_no_shared_secret(
    client: Client, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = forge.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    # The library would not sign so; a forger's does.
    monkeypatch.setattr(HMACAlgorithm, "prepare_key", lambda _self, key: key)
    headers = {**HEADER, "kid": forge.entries[-1]["kid"]}
    assert status(client, jwt.encode(forge.claims(), public, "HS256", headers=headers)) == 401


def test_a_strangers_key_under_our_key_id_is_not_ours(client: Client, forge: Forge) -> None:
    headers = {**HEADER, "kid": forge.entries[-1]["kid"]}
    stranger = ec.generate_private_key(ec.SECP256R1())
    assert status(client, jwt.encode(forge.claims(), stranger, "ES256", headers=headers)) == 401


@pytest.mark.parametrize(
    "credential", ["", "x", "a.b.c", "eyJhbGciOiJub25lIn0..", "x" * 9000, "echelon_key_" + "A" * 43]
)
def test_what_is_no_token_is_not(client: Client, credential: str) -> None:
    assert status(client, credential) == 401


@pytest.mark.parametrize("kind", ["Basic", "bearer", "Token"])
def test_only_bearer_credentials_are_read(client: Client, forge: Forge, kind: str) -> None:
    reply = client.get(KEYS, Authorization=f"{kind} {forge.token()}")
    assert reply.status == (200 if kind == "bearer" else 401)


def test_where_nobody_is_asked_a_credential_does_not_matter(client: Client) -> None:
    for credential in ("Basic YTpi", "Bearer x"):
        assert client.get("/livez", Authorization=credential).status == 200


@pytest.mark.parametrize("kid", [["a"], {}, 1, None, True])
def test_a_key_id_that_is_no_text_is_not(client: Client, forge: Forge, kid: object) -> None:
    header = json.dumps({"alg": "ES256", "typ": "at+jwt", "kid": kid}).encode()
    encoded = base64.urlsafe_b64encode(header).rstrip(b"=").decode()
    assert status(client, encoded + "." + forge.token().partition(".")[2]) == 401


def test_keys_are_rotated_without_a_restart(client: Client, forge: Forge) -> None:
    old, new = forge.entries[-1], new_key()
    first = forge.token()
    assert status(client, first) == 200
    forge.keep(old, new)
    second = forge.token()
    assert [status(client, token) for token in (first, second)] == [200, 200]
    forge.keep(new)
    # The first was verified before, and remembered.
    assert [status(client, token) for token in (first, second)] == [401, 200]
    forge.keep({name: value for name, value in old.items() if name != "d"}, new)
    assert [status(client, token) for token in (first, second)] == [200, 200]


def test_keys_that_cannot_be_used_any_more_are_the_services_fault(
    client: Client, forge: Forge
) -> None:
    token = forge.token()
    forge.file.chmod(0o644)
    assert client.bearing(token).get(KEYS).slug == "internal-error"
    forge.file.chmod(0o600)
    assert client.bearing(token).get(KEYS).status == 200
