"""The keys that sign certificates and log: made, named, refused, rotated."""

from __future__ import annotations

import asyncio
import json
import shlex
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, Key, SecretsHandler, Signature, Signer
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.auth.signing_keys import KeyFile, make_key_file, new_key
from backend.cli.key_group import key
from backend.errors import SettingsError, SigningKeysError
from backend.services.transparency.keys import IssuerKeys, open_keys, publish_trust
from backend.settings import Settings
from tests.backend.databases import Database
from theatre.engine.canonical_json import canonical_line
from theatre.files.trust_home import TrustHome
from theatre.transparency.entries import decode_entry
from theatre.transparency.statements import SignedStatement, certificate_statement, sign_statement
from theatre.transparency.trust import Trust

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)


def production(folder: Path, **changes: str | None) -> Settings:
    """Return the settings that `echelon key trust` prints, some of them changed."""
    made = CliRunner().invoke(key, ["trust", str(folder), "--issuer", "An operator"])
    assert made.exit_code == 0, made.output
    named = dict(word.partition("=")[::2] for word in shlex.split(made.stdout))
    settings = {name.removeprefix("ECHELON_").lower(): value for name, value in named.items()}
    given = {name: value for name, value in {**settings, **changes}.items() if value is not None}
    return Settings.model_validate({"mode": "production", "home": folder / "home", **given})


def assert_signs(keys: IssuerKeys) -> None:
    """Both keys sign as what readers have."""
    trust = Trust.parse(canonical_line(keys.trust.as_document()))
    statement = certificate_statement({"evidence_bundle_hash": "ab" * 32}, None)
    signed = SignedStatement.verify(sign_statement(statement, keys.signer), [trust.keys[-1].key])
    assert signed.kid == trust.keys[-1].key.kid
    trust.log.check(b"a text", keys.sign_log(b"a text"))


def test_an_embedded_service_makes_its_keys_once_and_for_itself(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    first = open_keys(settings, at=AT)
    assert_signs(first)
    assert open_keys(settings, at=AT + timedelta(days=1)).trust == first.trust
    modes = {
        one.name: stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "trust").glob("*.pem")
    }
    assert modes == {"issuer.pem": 0o600, "log.pem": 0o600}


def test_production_signs_with_the_keys_that_are_named(tmp_path: Path) -> None:
    keys = open_keys(production(tmp_path / "our keys"), at=AT)
    assert keys.trust.issuer == "An operator"
    assert_signs(keys)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"trust": None, "issuer_key": None, "log_key": None},
            "expected ECHELON_TRUST and ECHELON_ISSUER_KEY and ECHELON_LOG_KEY, got none",
        ),
        ({"log_key": None}, "expected ECHELON_LOG_KEY, got none"),
        ({"trust": "/nowhere/trust.json"}, r"in ECHELON_TRUST, got: .*No such file"),
        ({"issuer_key": "file2:/nowhere/issuer.pem"}, "in ECHELON_ISSUER_KEY the URI of the key"),
        ({"log_key": "unheard:of"}, "in ECHELON_LOG_KEY the URI of the key"),
    ],
)
def test_production_does_not_start_without_its_keys(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        open_keys(production(tmp_path, **changes), at=AT)


def test_a_key_that_readers_do_not_have_is_refused(tmp_path: Path) -> None:
    production(tmp_path / "other")
    for name in ("issuer", "log"):
        uri = f"file2:{tmp_path / 'other' / name}.pem"
        with pytest.raises(SettingsError, match="signs with another key"):
            open_keys(production(tmp_path / "own", **{f"{name}_key": uri}), at=AT)


SIGN = """
import sys
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
private = load_pem_private_key(Path(sys.argv[1]).read_bytes(), None)
how = () if isinstance(private, Ed25519PrivateKey) else (ECDSA(SHA256()),)
sys.stdout.buffer.write(private.sign(sys.stdin.buffer.read(), *how))
"""


class OtherProcess(Signer):
    """Signs in another process, as a KMS does: whose key that has shows in its signatures alone."""

    def __init__(self, public: Key, pem: str) -> None:
        self._public, self._pem = public, pem

    @property
    def public_key(self) -> Key:
        return self._public

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> OtherProcess:
        assert secrets_handler is None
        return cls(public_key, priv_key_uri.partition(":")[2])

    def sign(self, payload: bytes) -> Signature:
        command = [sys.executable, "-c", SIGN, self._pem]
        signed = subprocess.run(command, input=payload, capture_output=True, check=False)
        if signed.returncode:
            raise KeyServiceError("the key service does not answer")
        return Signature(self._public.keyid, signed.stdout.hex())


class KeyServiceError(Exception):
    """What a library of a KMS raises: no class that the service knows."""


@pytest.fixture
def _key_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIGNER_FOR_URI_SCHEME, "other", OtherProcess)


@pytest.mark.usefixtures("_key_service")
def test_a_key_service_signs_where_it_has_the_keys_that_readers_have(tmp_path: Path) -> None:
    uris = {f"{name}_key": f"other:{tmp_path / name}.pem" for name in ("issuer", "log")}
    assert_signs(open_keys(production(tmp_path, **uris), at=AT))


@pytest.mark.usefixtures("_key_service")
@pytest.mark.parametrize("name", ["issuer", "log"])
def test_a_key_service_with_another_key_is_refused_at_the_start(tmp_path: Path, name: str) -> None:
    """It does not compare its key with the one it is given: its first signature tells."""
    production(tmp_path / "other")
    uri = f"other:{tmp_path / 'other' / name}.pem"
    wanted = f"ECHELON_{name.upper()}_KEY the URI of the key .* signs with another key"
    with pytest.raises(SettingsError, match=wanted):
        open_keys(production(tmp_path / "own", **{f"{name}_key": uri}), at=AT)


@pytest.mark.usefixtures("_key_service")
def test_a_key_service_that_does_not_answer_is_an_error_of_its_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ECHELON_LOG_KEY.*KeyServiceError"):
        open_keys(production(tmp_path, log_key="other:/nowhere.pem"), at=AT)


def test_a_revoked_key_signs_nothing_more(tmp_path: Path) -> None:
    settings = production(tmp_path)
    home = TrustHome(tmp_path)
    trust = home.open(issuer="An operator", at=AT)
    home.write(trust.revoked(trust.keys[-1].key.kid, index=7))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "trust").symlink_to(tmp_path)
    for refused in (settings, Settings(home=tmp_path / "home")):
        with pytest.raises(SettingsError, match="which is revoked: `echelon key trust FOLDER"):
            open_keys(refused, at=AT)


def test_all_processes_of_a_database_have_one_log_and_drop_no_key(
    database: Database, tmp_path: Path
) -> None:
    home = TrustHome(tmp_path / "one")
    first = home.open(issuer="An operator", at=AT)
    rotated = home.rotate(first, at=AT + timedelta(days=1))
    revoked = rotated.revoked(first.keys[0].key.kid, index=5)
    other = TrustHome(tmp_path / "two").open(issuer="An operator", at=AT)

    async def scene(engine: AsyncEngine) -> None:
        # Two processes that start at once, and one that starts again.
        await asyncio.gather(*(publish_trust(engine, first, at=AT) for _ in range(2)))
        await publish_trust(engine, first, at=AT)
        await publish_trust(engine, rotated, at=AT)
        for refused in (first, other):
            with pytest.raises(SettingsError, match="expected the keys of the log echelon"):
                await publish_trust(engine, refused, at=AT)
        await publish_trust(engine, revoked, at=AT)
        with pytest.raises(SettingsError, match="is revoked at entry 5 of the log, got an older"):
            await publish_trust(engine, rotated, at=AT)

    database.play(scene)
    rows = database.rows("SELECT document FROM trust_documents ORDER BY seq")
    assert [Trust.parse(row["document"]) for row in rows] == [first, rotated, revoked]
    queued = database.rows("SELECT entry FROM log_queue ORDER BY id")
    entries = [decode_entry(bytes(row["entry"])) for row in queued]
    assert [(kind, members["kid"], members["valid_until"]) for kind, members in entries] == [
        ("key/v1", first.keys[0].key.kid, "2026-11-24T12:00:00.000000Z"),
        ("key/v1", rotated.keys[1].key.kid, None),
    ]


def test_a_key_file_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "tokens.json"
    make_key_file(file)
    made = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    make_key_file(file)
    assert file.read_bytes() == made
    assert list(file.parent.iterdir()) == [file]
    assert KeyFile(file).current().signing_id == json.loads(made)["keys"][0]["kid"]


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    make_key_file(file)
    file.chmod(0o640)
    with pytest.raises(SigningKeysError, match="got mode 640: chmod 600"):
        KeyFile(file)


PUBLIC_ONLY = {name: value for name, value in new_key().items() if name != "d"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": {}}',
        '{"keys": ["secret"]}',
        json.dumps({"keys": [PUBLIC_ONLY]}),
        json.dumps({"keys": [{**new_key(), "kid": ""}]}),
        json.dumps({"keys": [{**new_key(), "kid": "k"}, {**new_key(), "kid": "k"}]}),
        json.dumps({"keys": [{**new_key(), "crv": "P-384"}]}),
        json.dumps({"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}]}),
    ],
)
def test_a_file_that_holds_no_key_set_is_refused_without_being_quoted(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "tokens.json"
    file.touch(mode=0o600)
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SigningKeysError, match=r"^expected a JSON Web Key Set") as caught:
        KeyFile(file)
    assert "secret" not in str(caught.value)
    assert not any(key in str(caught.value) for key in ('"d"', "c2VjcmV0"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SigningKeysError, match="No such file"):
        KeyFile(tmp_path / "tokens.json")
