"""A signature counts by when its key did, and an issuer's keys are his alone."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.files.trust_home import TrustHome, trust_folder
from theatre.oracles.isolation.allowed_paths import allowed_paths
from theatre.transparency.errors import MalformedError, SignatureError, SigningKeyError
from theatre.transparency.statements import SignedStatement, certificate_statement, sign_statement
from theatre.transparency.trust import Trust

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CERTIFICATE: JsonObject = {"evidence_bundle_hash": "ab" * 32}


def signed_in(home: TrustHome, trust: Trust) -> SignedStatement:
    """Return a certificate that the home's issuer signed."""
    bundle = sign_statement(certificate_statement(CERTIFICATE, None), home.signer(trust))
    return SignedStatement.verify(bundle, trust.issuer_keys())


def test_an_issuer_keeps_his_keys_to_himself(tmp_path: Path) -> None:
    home = TrustHome(tmp_path / "echelon")
    trust = home.open(issuer="me", at=NOW)
    assert home.open(issuer="another", at=NOW + DAY) == trust == home.read()
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in home.folder.glob("*.pem")}
    assert modes == {"issuer.pem": "0o600", "log.pem": "0o600"}
    assert home.folder.stat().st_mode & 0o077 == 0
    assert trust.log.name.startswith("echelon.local/")


def test_a_key_counts_in_the_second_in_which_it_is_made_and_the_last_one_to_its_end(
    tmp_path: Path,
) -> None:
    home, at = TrustHome(tmp_path), NOW.replace(microsecond=700_000)
    second = NOW.replace(microsecond=0)
    trust = home.open(issuer="me", at=at)
    old = signed_in(home, trust)
    # A witness that signs at once tells the second, and not its fraction.
    trust.check_signer(old, at=second, index=None)
    rotated = home.rotate(trust, at=at + DAY)
    new = signed_in(home, rotated)
    rotated.check_signer(old, at=at + DAY, index=None)
    rotated.check_signer(new, at=second + DAY, index=None)


def test_a_key_that_was_rotated_counts_for_what_it_signed(tmp_path: Path) -> None:
    home = TrustHome(tmp_path)
    trust = home.open(issuer="me", at=NOW)
    old = signed_in(home, trust)
    rotated = home.rotate(trust, at=NOW + DAY)
    new = signed_in(home, rotated)
    assert [key.key.kid for key in rotated.keys] == [old.kid, new.kid]
    rotated.check_signer(old, at=NOW, index=None)
    rotated.check_signer(new, at=NOW + 2 * DAY, index=None)
    for signed, at in [(old, NOW + 2 * DAY), (new, NOW), (old, NOW - DAY)]:
        with pytest.raises(SignatureError, match="expected a signature from"):
            rotated.check_signer(signed, at=at, index=None)
    assert len(list(tmp_path.glob("issuer-*.pem"))) == 1


def test_a_revoked_key_counts_for_what_the_log_had_before(tmp_path: Path) -> None:
    home = TrustHome(tmp_path)
    trust = home.open(issuer="me", at=NOW)
    signed = signed_in(home, trust)
    revoked = trust.revoked(signed.kid, index=7)
    revoked.check_signer(signed, at=NOW, index=6)
    for index in (7, 8, None):
        with pytest.raises(SignatureError, match="expected a key that is not revoked"):
            revoked.check_signer(signed, at=NOW, index=index)


def test_trust_reads_back_and_another_document_is_refused(tmp_path: Path) -> None:
    trust = TrustHome(tmp_path).open(issuer="me", at=NOW).revoked("no such", index=1)
    data = canonical_line(trust.as_document())
    assert Trust.parse(data) == trust
    document = json.loads(data)
    changed = json.loads(data)
    changed["keys"][0]["kid"] = "0" * 64
    wrong: JsonValue
    for wrong in (
        {**document, "keys": None},
        {**document, "issuer": 3},
        {**document, "log": {}},
        {**document, "policy": "quorum w"},
        changed,
        [],
    ):
        with pytest.raises(MalformedError):
            Trust.parse(canonical_line(wrong))


def test_another_key_in_the_issuers_file_signs_nothing(tmp_path: Path) -> None:
    home, other = TrustHome(tmp_path / "mine"), TrustHome(tmp_path / "other")
    trust = home.open(issuer="me", at=NOW)
    other.open(issuer="other", at=NOW)
    for name in ("issuer.pem", "log.pem"):
        (home.folder / name).write_bytes((other.folder / name).read_bytes())
    with pytest.raises(SigningKeyError, match=r"in issuer\.pem, got another"):
        home.signer(trust)
    with pytest.raises(SigningKeyError, match=r"in log\.pem, got another"):
        home.log_signer(trust)


def test_the_folder_is_the_users_unless_a_variable_names_one() -> None:
    assert trust_folder({"ECHELON_TRUST_HOME": "/keys"}) == Path("/keys")
    assert trust_folder({"XDG_STATE_HOME": "/state"}) == Path("/state/echelon")
    assert trust_folder({}) == Path.home() / ".local" / "state" / "echelon"


def test_a_user_without_a_home_is_asked_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    # A container may run as a user of no name.
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    with pytest.raises(SigningKeyError, match="set ECHELON_TRUST_HOME to a folder that lasts"):
        trust_folder({})
    assert trust_folder({"ECHELON_TRUST_HOME": "/keys"}) == Path("/keys")
    assert Path("/bin/sh").resolve() in allowed_paths(["sh"], []).reading
