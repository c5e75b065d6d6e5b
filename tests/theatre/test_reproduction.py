"""A run with a coin that was public: a bundle, no certificate, and no way to one."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forged_bundle import Effort, Files, changed, check, failed_ids, load, resealed
from tests.theatre.forged_bundle import store as stored
from tests.theatre.runs import COIN, Finished, ScriptedAdapter, checked, episodes, pilot_stage
from theatre.engine.bundle_check import Verdict
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.bundle_check.verifier import verifier_source
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import SchemaRegistry

SCHEMA = "echelon_reproduction_schema.json"
REGISTRY = SchemaRegistry()
ORIGINAL = "0a" * 32
NOW = datetime(2100, 1, 1, tzinfo=UTC)
ENVIRONMENT: JsonObject = {
    "environment_hash": "e0" * 32,
    "interpreter": "cpython 3.11",
    "platform": "linux",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Sixty right answers, which would be BACKTESTED."""
    folder = tmp_path_factory.mktemp("reproduction")
    return pilot_stage(folder, episodes(60), reproduces=ORIGINAL).run(ScriptedAdapter())


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("certified")
    return pilot_stage(folder, episodes(60)).run(ScriptedAdapter())


def test_a_reproduction_ends_without_a_certificate(run: Finished, certified: Finished) -> None:
    assert certified.resolution["outcome"] == "certified"
    assert run.resolution == {
        "outcome": "no_certificate",
        "outcome_reason": "reproduction",
        "results_hash": certified.resolution["results_hash"],
        "statuses": {"success": 60, "timeout": 0, "error": 0, "refused": 0},
        "reasons": [],
    }
    assert not (run.bundle / "certificate.json").exists()


def test_it_says_whose_run_it_is_and_what_that_came_to(run: Finished, certified: Finished) -> None:
    assert run.document("reproduction.json") == {
        "reproduces": ORIGINAL,
        "coin_sha256": COIN.sha256,
        "results_hash": certified.resolution["results_hash"],
        "environment_hash": None,
    }
    assert run.document("commitment_receipt.json")["reproduces"] == ORIGINAL
    assert certified.document("commitment_receipt.json")["reproduces"] is None


def test_its_evidence_has_no_tier(run: Finished, certified: Finished) -> None:
    tiers: list[Any] = [one.document("tier.json")["assessment"] for one in (run, certified)]
    assert [one["tier"] for one in tiers] == ["UNVERIFIED", "BACKTESTED"]
    assert tiers[0]["caps"] == ["reproduction"]


def test_the_best_word_for_it_is_consistent(run: Finished, certified: Finished) -> None:
    assert checked(run.bundle).verdict is Verdict.CONSISTENT
    assert verify(run.bundle, now=NOW).word == "consistent"
    given = (certified.bundle / "certificate.json").read_bytes()
    for kept in (given, (run.bundle / "reproduction.json").read_bytes()):
        assert failed_ids(check(run.bundle, certificate=kept)) == {"certificate-copy"}
        alone = verify(run.bundle, now=NOW, kept=kept)
        assert [name for name, found in alone.problems.items() if found] == ["certificate-copy"]


def test_both_checks_follow_the_environment_of_a_reproduction(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2), reproduces=ORIGINAL)
    files = load(stage.run(ScriptedAdapter()).bundle)

    def elsewhere(whole: JsonObject) -> None:
        whole["environment"] = {**ENVIRONMENT}

    forged = resealed(changed(files, "commitment_receipt.json", elsewhere), Effort.CHAIN)
    assert both(forged, tmp_path / "receipt alone") == {"certificate-fields"}


def both(files: Files, folder: Path) -> set[str]:
    """Return the ids of the checks that fail; those of both readers, which have to agree."""
    bundle = stored(files, folder)
    failed = failed_ids(check(bundle))
    alone = {name for name, found in verify(bundle, now=NOW).problems.items() if found}
    assert bool(failed) is bool(alone)
    return failed | alone


CHANGES: dict[str, JsonObject] = {
    "another run": {"reproduces": "0b" * 32},
    "no run at all": {"reproduces": None},
    "another coin": {"coin_sha256": "0b" * 32},
    "other results": {"results_hash": "0b" * 32},
    "another environment": {"environment_hash": "0b" * 32},
    "a tier": {"verification_tier": "PROVEN"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_says_nothing_that_does_not_follow(
    run: Finished, tmp_path: Path, change: JsonObject
) -> None:
    files = load(run.bundle)
    forged = changed(files, "reproduction.json", lambda whole: whole.update(change))
    assert both(resealed(forged, Effort.CHAIN), tmp_path / "forged")


UNFIT: dict[str, JsonObject] = {
    "no run at all": {"reproduces": None},
    "a hash in capitals": {"results_hash": "0B" * 32},
    "a number for an environment": {"environment_hash": 1},
    "a tier": {"verification_tier": "PROVEN"},
}


def test_it_fits_the_shipped_schema_and_needs_each_member(run: Finished) -> None:
    document = run.document("reproduction.json")
    assert REGISTRY.validate(SCHEMA, document) == []
    for name in document:
        lacking = {key: value for key, value in document.items() if key != name}
        (found,) = REGISTRY.validate(SCHEMA, lacking)
        assert found.detail == f"expected member {name}, got an object without it"


@pytest.mark.parametrize("change", UNFIT.values(), ids=UNFIT)
def test_what_does_not_fit_the_schema_is_found(
    run: Finished, tmp_path: Path, change: JsonObject
) -> None:
    forged = changed(load(run.bundle), "reproduction.json", lambda whole: whole.update(change))
    bundle = stored(resealed(forged, Effort.CHAIN), tmp_path / "forged")
    assert failed_ids(check(bundle)) >= {"certificate-schema", "certificate-fields"}


def test_a_certificate_over_a_receipt_that_reproduces_is_refused(
    run: Finished, certified: Finished, tmp_path: Path
) -> None:
    files = load(certified.bundle)
    receipt = changed(files, "commitment_receipt.json", lambda one: one.update(reproduces=ORIGINAL))
    assert both(resealed(receipt, Effort.CHAIN), tmp_path / "receipt") >= {"commitment"}
    own = load(run.bundle)
    del own["reproduction.json"]
    own["certificate.json"] = files["certificate.json"]
    assert both(resealed(own, Effort.CHAIN), tmp_path / "certificate") >= {"commitment"}
    beside = load(run.bundle) | {"certificate.json": files["certificate.json"]}
    assert both(resealed(beside, Effort.CHAIN), tmp_path / "beside") >= {"commitment", "inventory"}


def test_a_reproduction_that_was_sealed_before_a_crash_stays_one(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(3), reproduces=ORIGINAL)
    first = stage.run(ScriptedAdapter())
    trail = stage.folder / "audit_trail.jsonl"
    lines = trail.read_bytes().splitlines(keepends=True)
    for kept in (len(lines) - 1, len(lines) - 2):
        trail.write_bytes(b"".join(lines[:kept]))
        again = stage.run(ScriptedAdapter())
        assert again.resolution == first.resolution
        assert sorted(path.name for path in again.bundle.glob("*.json")) == [
            "commitment_receipt.json",
            "manifest.json",
            "reproduction.json",
            "resolution.json",
            "template.json",
            "tier.json",
        ]


def test_the_file_that_needs_no_installation_takes_one(run: Finished, tmp_path: Path) -> None:
    program = tmp_path / "verify_bundle.py"
    program.write_text(verifier_source(), encoding="utf-8")
    command = [sys.executable, "-I", "-S", str(program), str(run.bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("consistent (no one vouches for it)")
