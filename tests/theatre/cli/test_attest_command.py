"""`echelon attest` signs what the check of a bundle found, and nothing where it found a fault."""

import fcntl
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sealed_evidence import unpacked
from tests.theatre.cli.doubler import run, write_module, write_theatre
from tests.theatre.echelon_process import until
from theatre.cli import attest_command, cli, compare_command
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.engine.clock import parse_rfc3339
from theatre.transparency.errors import MalformedError
from theatre.transparency.statements import SignedStatement
from theatre.transparency.trust import Trust


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test keys of its own."""
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def attest(bundle: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["attest", str(bundle), "--out", str(out), "--json", *options])


def test_what_passed_is_signed_as_a_simple_verification_result(tmp_path: Path, home: Path) -> None:
    bundle, out = unpacked("product_observer_v1", tmp_path), tmp_path / "result.json"
    certificate: dict[str, Any] = json.loads((bundle / "certificate.json").read_bytes())
    kept = tmp_path / "kept.json"
    kept.write_bytes((bundle / "certificate.json").read_bytes())
    ended = attest(bundle, out, "--certificate", str(kept))
    assert ended.exception is None, ended.output
    trust = Trust.parse((home / "trust.json").read_bytes())
    signed = SignedStatement.verify(out.read_bytes(), trust.issuer_keys())
    predicate = signed.document.pop("predicate")
    assert signed.document == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://in-toto.io/attestation/svr/v0.2",
        "subject": [
            {"digest": {"sha256": certificate["evidence_bundle_hash"]}, "name": "SHA256SUMS"}
        ],
    }
    assert isinstance(predicate, dict)
    assert isinstance(predicate["timeCreated"], str)
    assert predicate == {
        "verifier": {
            "id": "urn:echelon:check:0.2.0",
            "policies": [
                {"name": "commitment", "digest": {"sha256": certificate["commitment_hash"]}}
            ],
        },
        "timeCreated": predicate["timeCreated"],
        "properties": properties(certificate, parse_rfc3339(predicate["timeCreated"])),
    }
    assert json.loads(ended.stdout)["properties"] == predicate["properties"]
    with pytest.raises(MalformedError):
        # What one may have signed about another's bundle is no certificate.
        signed.certificate()


def properties(certificate: dict[str, Any], at: datetime) -> list[str]:
    """Return what holds of a sealed bundle on whatever day the test runs."""
    passed = ["ECHELON_EVIDENCE_CONSISTENT", "ECHELON_CERTIFICATE_VALID"]
    if certificate["expires_at"] is not None:
        days = (parse_rfc3339(certificate["expires_at"]) - at).days
        passed += [f"ECHELON_TIER_{certificate['verification_tier']}_{days}"] if days > 0 else []
    return passed


def test_the_tier_of_a_certificate_that_no_one_vouches_for_is_not_signed(tmp_path: Path) -> None:
    bundle = unpacked("product_observer_v1", tmp_path)
    certificate = json.loads((bundle / "certificate.json").read_bytes())
    assert certificate["verification_tier"] == "BACKTESTED"
    ended = attest(bundle, tmp_path / "result.json")
    assert json.loads(ended.stdout)["properties"] == ["ECHELON_EVIDENCE_CONSISTENT"]


def test_a_tier_that_has_lapsed_is_neither_signed_nor_shown(tmp_path: Path) -> None:
    bundle = unpacked("product_observer_v1", tmp_path)
    certificate = json.loads((bundle / "certificate.json").read_bytes())
    lapsed = tmp_path / "lapsed.json"
    lapsed.write_text(json.dumps(certificate | {"expires_at": "2026-11-28T00:00:00Z"}))
    shown = CliRunner().invoke(cli, ["inspect", str(lapsed)]).stdout
    assert "tier         UNVERIFIED (issued as BACKTESTED, which lapsed)\n" in shown
    document = json.loads(CliRunner().invoke(cli, ["inspect", str(lapsed), "--json"]).stdout)
    assert document["effective_tier"] == "UNVERIFIED"
    kept = shutil.copy(bundle / "certificate.json", tmp_path / "kept.json")
    signed = echelon_at(
        parse_rfc3339(certificate["expires_at"]),
        *("attest", str(bundle), "--certificate", str(kept), "--out", str(tmp_path / "out.json")),
    )
    assert signed.splitlines()[:-1] == [
        "property  ECHELON_EVIDENCE_CONSISTENT",
        "property  ECHELON_CERTIFICATE_VALID",
        "no tier   UNVERIFIED (issued as BACKTESTED, which lapsed)",
    ]


def test_runs_are_compared_with_the_tiers_that_they_have_now(tmp_path: Path) -> None:
    bundles = [str(unpacked(name, tmp_path)) for name in ("models_keywords", "models_constant")]
    certificate = json.loads((Path(bundles[0]) / "certificate.json").read_bytes())
    lapses = parse_rfc3339(certificate["expires_at"])
    shown = echelon_at(lapses, "compare", *bundles)
    assert "UNVERIFIED (issued as BACKTESTED, which lapsed)  150 of 150" in shown
    runs = json.loads(echelon_at(lapses, "compare", *bundles, "--json"))["runs"].values()
    tiers = [(one["verification_tier"], one["effective_tier"]) for one in runs]
    assert tiers[0] == ("BACKTESTED", "UNVERIFIED")


def echelon_at(moment: datetime, *arguments: str) -> str:
    """Return what the command prints by a clock that shows `moment`."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Clock":
            return cls.fromtimestamp(moment.timestamp(), tz)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attest_command, "datetime", Clock)
        patched.setattr(compare_command, "datetime", Clock)
        return CliRunner().invoke(cli, [*arguments]).stdout


def test_what_is_signed_is_the_certificate_that_was_checked(tmp_path: Path, home: Path) -> None:
    """Another one takes its place between check and signature, while the key is waited for."""
    bundle, out = unpacked("product_cartograph_v1", tmp_path), tmp_path / "result.json"
    path, lock = bundle / "certificate.json", home / ".lock"
    kept = shutil.copy(path, tmp_path / "kept.json")
    home.mkdir()
    with ThreadPoolExecutor(1) as threads, lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        attesting = threads.submit(attest, bundle, out, "--certificate", str(kept))
        waits = re.compile(rf"-> FLOCK .*:{lock.stat().st_ino} ")
        until(lambda: waits.search(Path("/proc/locks").read_text()), "it to want the key")
        other = json.loads(path.read_bytes())
        other |= {"verification_tier": "PROVEN", "expires_at": "2040-01-01T00:00:00.000000Z"}
        path.write_text(json.dumps(other))
    signed = json.loads(attesting.result().stdout)["properties"]
    assert signed == ["ECHELON_EVIDENCE_CONSISTENT", "ECHELON_CERTIFICATE_VALID"]


def test_nothing_is_signed_about_a_bundle_with_a_fault(tmp_path: Path) -> None:
    bundle, out = unpacked("product_cartograph_v1", tmp_path), tmp_path / "result.json"
    scores = bundle / "scores" / "aggregate.json"
    scores.write_bytes(scores.read_bytes().replace(b"0.5", b"0.9", 1))
    ended = attest(bundle, out)
    assert isinstance(ended.exception, CommandEndedError)
    assert (ended.exception.code, out.exists()) == (ExitCode.CHECK_FAILED, False)


def test_the_keys_that_came_with_a_bundle_are_not_taken_for_its_issuers(tmp_path: Path) -> None:
    bundle, out = unpacked("product_cartograph_v1", tmp_path), tmp_path / "result.json"
    (bundle / "proofs").mkdir()
    (bundle / "proofs" / "trust.json").write_text("{}")
    ended = attest(bundle, out, "--trust", str(bundle / "proofs" / "trust.json"))
    assert "which vouches for itself alone" in ended.output
    assert (ended.exit_code, out.exists()) == (2, False)


def test_a_run_that_its_issuers_log_has_is_attested_as_logged(tmp_path: Path) -> None:
    version = write_module(tmp_path)
    template = write_theatre(
        tmp_path, adapter_type="python", endpoint="doubling:double", version=version
    )
    bundle = Path(run(template).document["bundle_path"])
    trust = shutil.copy(bundle / "proofs" / "trust.json", tmp_path / "from-the-issuer.json")
    ended = attest(bundle, tmp_path / "result.json", "--trust", str(trust))
    assert json.loads(ended.stdout)["properties"] == [
        "ECHELON_EVIDENCE_CONSISTENT",
        "ECHELON_CERTIFICATE_VALID",
        "ECHELON_COMMITMENT_LOGGED",
    ]
