"""The verification certificate: it follows from the bundle, and anybody makes it again."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.theatre.forked_echelon import forked
from tests.theatre.rlmf_runs import every_ending
from tests.theatre.verification.confident_oracle import COMMITS, Verified, verified
from theatre.engine.canonical_json import canonical_line
from theatre.engine.rlmf_export import SealedBundle
from theatre.engine.schema_registry import SchemaRegistry, resource_root
from theatre.verification.certificate import (
    SCHEMA,
    ClaimCalibration,
    training_calibration,
    verification_certificate,
)
from theatre.verification.errors import NoVerificationError
from theatre.verification.lexical import JudgedClaim

REFUSED, SILENT, REPEATING, UNPARALLEL, BROKEN = 4, 6, 7, 8, 20


@pytest.fixture(scope="module")
def run(confident: Verified) -> Verified:
    return confident


def test_it_fits_its_schema_and_summarises_the_theatre_certificate(run: Verified) -> None:
    ours = run.certificate
    raw = (run.bundle / "certificate.json").read_bytes()
    theirs = json.loads(raw)
    assert SchemaRegistry().validate(SCHEMA, ours) == []
    assert (
        ours["theatre_certificate"]["sha256"] == hashlib.sha256(raw.removesuffix(b"\n")).hexdigest()
    )
    named = ("certificate_id", "commitment_hash", "evidence_bundle_hash", "results_hash")
    assert {name: ours["theatre_certificate"][name] for name in named} == {
        name: theirs[name] for name in named
    }
    copied = ("precision", "recall", "reply_accuracy", "composite_score", "caps", "findings")
    assert ours["findings"]
    assert {name: ours[name] for name in copied} == {name: theirs[name] for name in copied}
    assert (ours["schema_version"], ours["domain"]) == ("1.0.0", "community_oracle")
    assert ours["verification_tier"] == theirs["verification_tier"] == "UNVERIFIED"
    assert (ours["sample_size"], ours["agent_accuracy"]) == (COMMITS - 2, theirs["precision"])
    assert (ours["ground_truth_source"], ours["minimum_replays"]) == ("local-clone", 5)
    lines = run.lines()
    assert ours["commit_range"] == f"{lines[0]['episode_id']}..{lines[-1]['episode_id']}"


def test_without_a_judge_it_can_read_nothing_above_unverified(run: Verified) -> None:
    higher = {"verification_tier": "BACKTESTED", "expires_at": "2027-02-21T00:00:00.000000Z"}
    violations = SchemaRegistry().validate(SCHEMA, run.certificate | higher)
    assert [(one.pointer, one.rule) for one in violations] == [
        ("/verification_tier", "schema:const")
    ]


def test_each_replay_stands_with_the_counts_behind_its_scores(run: Verified) -> None:
    replays = run.certificate["individual_scores"]
    assert [one["ground_truth_id"] for one in replays] == [x["episode_id"] for x in run.lines()]
    for one in replays:
        if one["claims_total"]:
            assert one["claims_supported"] / one["claims_total"] == pytest.approx(one["precision"])
        if one["changes_total"]:
            assert one["changes_surfaced"] / one["changes_total"] == pytest.approx(one["recall"])
    odd, even = replays[11], replays[12]
    assert (odd["claims_total"], odd["claims_supported"], odd["changes_surfaced"]) == (3, 1, 1)
    assert even["changes_surfaced"] == 0
    counts = ("outcome", "precision", "claims_total", "changes_total")
    assert [replays[REFUSED][name] for name in counts] == ["excluded", None, None, None]
    assert [replays[BROKEN][name] for name in counts] == ["missing", 0, None, None]
    assert [replays[SILENT][name] for name in counts] == ["scored", None, 0, 1]
    assert replays[REPEATING]["claims_total"] == 3


def test_the_brier_score_is_over_the_claims_whose_confidence_is_stated(run: Verified) -> None:
    squares, supported = [], 0
    for place in range(COMMITS):
        if place in {REFUSED, BROKEN, SILENT, UNPARALLEL}:
            continue
        # Of the two claims with the same words the last one is judged, with its confidence.
        sure = [0.5, 0.1] if place == REPEATING else [0.9, 0.2, 0.6]
        squares += [(Fraction(str(p)) - (i == 0)) ** 2 for i, p in enumerate(sure)]
        supported += 1
    calibration = run.certificate["claim_calibration"]
    assert (calibration["stated"], calibration["supported"]) == (len(squares), supported)
    assert calibration["without_confidence"] == 1 + 3
    assert run.certificate["brier"] == pytest.approx(float(sum(squares) / len(squares)), abs=1e-9)
    assert run.certificate["brier_reason"] is None
    assert sum(one["count"] for one in calibration["bins"]) == len(squares)


def test_below_a_hundred_stated_claims_there_is_no_brier_score(tmp_path: Path) -> None:
    run = verified(tmp_path, commits=7)
    few = run.certificate
    assert 0 < few["claim_calibration"]["stated"] < 100
    assert (few["brier"], few["brier_reason"]) == (None, "fewer-than-100-stated-claims")
    # Nor in a training record.
    found = training_calibration(SealedBundle(run.bundle))
    assert found is not None
    assert "brier" not in found
    assert found["sample_size"] == few["replay_count"]
    assert found["agent_accuracy"] == few["precision"]


def test_the_brier_score_is_the_mean_of_passes_and_a_claim_counts_once() -> None:
    calibration = ClaimCalibration(passes=2)
    for number in range(99):
        verdicts = (True, number < 49)
        calibration.add([[JudgedClaim(place=0, supported=held)] for held in verdicts], [0.75])
    assert (calibration.stated, calibration.brier) == (99, None)
    calibration.add([[JudgedClaim(place=0, supported=True)]] * 2, [0.75])
    # 150 of the 200 verdicts hold.
    assert (calibration.stated, calibration.brier) == (100, 0.75 * 0.25**2 + 0.25 * 0.75**2)
    assert calibration.as_document()["supported"] == 75


def test_brier_sample_size_and_accuracy_can_be_lifted_into_a_training_record(run: Verified) -> None:
    path = resource_root() / "docs" / "schemas" / "echelon_rlmf_schema.json"
    schema = json.loads(path.read_bytes())
    part = {**schema["properties"]["calibration"], "$defs": schema["$defs"]}
    names = ("brier", "sample_size", "agent_accuracy", "precision", "recall", "reply_accuracy")
    lifted = {name: run.certificate[name] for name in names}
    assert SchemaRegistry().validate_inline(part, lifted) == []


def test_anybody_makes_it_again_from_the_bundle(run: Verified, tmp_path: Path) -> None:
    written = run.certificate_file.read_bytes()
    assert verification_certificate(run.bundle) == written
    assert (run.bundle.parent / run.certificate_file.name).read_bytes() == written
    same = forked(
        *("check", run.bundle, "--verification", run.certificate_file, "--json"), home=tmp_path
    )
    line = same.document["checks"][-1]
    assert (same.code, line["id"], line["ok"]) == (0, "verification-certificate", True)


@pytest.mark.parametrize("member", ["brier", "precision"])
def test_one_that_says_something_else_fails_the_check(
    run: Verified, tmp_path: Path, member: str
) -> None:
    altered = {**run.certificate, member: 1}
    (tmp_path / "altered.json").write_bytes(canonical_line(altered))
    answer = forked(
        *("check", run.bundle, "--verification", tmp_path / "altered.json"), home=tmp_path
    )
    assert (answer.code, "FAIL         verification-certificate" in answer.stdout) == (10, True)


def test_another_theatre_is_no_verification(tmp_path: Path) -> None:
    with pytest.raises(NoVerificationError, match="expected the template community_oracle_v1, got"):
        verification_certificate(every_ending(tmp_path).bundle)
