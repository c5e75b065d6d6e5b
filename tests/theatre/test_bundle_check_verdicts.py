"""The one word for a bundle: who vouches for it, and what its tier rests on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast
from uuid import NAMESPACE_OID, uuid5

from tests.theatre.conftest import SmallRun, run_small_theatre
from tests.theatre.forged_bundle import check
from tests.theatre.runs import LATE
from tests.theatre.test_bundle_check_runs import backtested
from theatre.engine.bundle_check import Verdict
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.tier_assigner import (
    Attestation,
    BehaviouralSignal,
    Dispute,
    DisputeStatus,
    RunRecord,
    TelemetryWindow,
    TierHistory,
    VerificationTier,
)

SETTLED_BY = {
    "certificate-copy": "the one that its issuer publishes settles it, or `signer-trusted`",
    "issuer-identity": "`signer-trusted` settles it",
    "times-and-latencies": "`order` and `witnesses` settle what came first",
    "history": "`closure` settles its runs, nothing the rest",
}
"""Check that nothing in a bundle can settle → the line of its proofs that does."""


def test_a_bundle_alone_is_consistent_and_says_what_settles_the_rest(real_run: SmallRun) -> None:
    report = check(real_run.sealed)
    assert (report.verdict, report.valid) == (Verdict.CONSISTENT, False)
    assert report.because == "no one vouches for it"
    unanchored = {c.id: c.actual.split("; ")[-1] for c in report.checks if c.ok is None}
    assert unanchored == SETTLED_BY


def test_a_bundle_is_valid_by_the_certificate_that_its_reader_kept(real_run: SmallRun) -> None:
    kept = (real_run.sealed / "certificate.json").read_bytes()
    report = check(real_run.sealed, certificate=kept)
    assert (report.verdict, report.valid) == (Verdict.VALID, True)
    assert report.because == "equal to the certificate you gave"
    document = report.as_document()
    assert (document["verdict"], document["valid"]) == ("valid", True)


def test_a_bundle_is_not_valid_by_another_certificate(real_run: SmallRun) -> None:
    report = check(real_run.sealed, certificate=b"{}")
    assert (report.verdict, report.valid) == (Verdict.NOT_VALID, False)
    assert report.because == "1 failed, 0 could not be made"


def invented_history(run: SmallRun) -> TierHistory:
    """Return all that PROVEN asks for, none of which ever happened."""
    now = datetime.now(UTC)
    about = {
        "construct_id": cast("str", run.certificate["construct_id"]),
        "construct_version": cast("str", run.certificate["construct_version"]),
    }
    results_hash = cast("str", run.certificate["results_hash"])
    return TierHistory(
        runs=tuple(
            RunRecord(
                **about,
                theatre_id=str(uuid5(NAMESPACE_OID, f"invented-{age}")),
                tier=VerificationTier.BACKTESTED,
                resolved_at=now - timedelta(days=age),
                results_hash=results_hash,
            )
            for age in (120, 80, 40)
        ),
        telemetry=(
            TelemetryWindow(
                **about,
                start=now - timedelta(days=20),
                end=now - timedelta(days=10),
                confirmed_at=now - timedelta(days=9),
            ),
        ),
        attestations=(
            Attestation(
                attester="a friend",
                independent=True,
                results_hash=results_hash,
                at=now - timedelta(days=5),
            ),
        ),
        signals=(
            BehaviouralSignal(
                **about, source="a dream", consistent=True, at=now - timedelta(days=1)
            ),
        ),
    )


def test_proven_by_an_invented_history_is_consistent_at_most(tmp_path: Path) -> None:
    earlier = backtested(tmp_path / "earlier")
    run = backtested(tmp_path / "run", invented_history(earlier))
    assert run.certificate["verification_tier"] == "PROVEN"
    kept = (run.sealed / "certificate.json").read_bytes()
    report = check(run.sealed, certificate=kept)
    assert report.failed == ()
    assert (report.verdict, report.valid) == (Verdict.CONSISTENT, False)
    assert report.because == "PROVEN by a history that only a log would settle"
    alone = verify(run.sealed, now=LATE, kept=kept)
    assert (alone.word, alone.because) == (report.verdict, report.because)


def test_a_history_with_a_dispute_is_consistent_at_most(tmp_path: Path) -> None:
    dispute = Dispute(
        dispute_id="d-1", status=DisputeStatus.RESOLVED, at=datetime.now(UTC) - timedelta(days=1)
    )
    run = run_small_theatre(tmp_path, history=TierHistory(disputes=(dispute,)))
    kept = (run.sealed / "certificate.json").read_bytes()
    assert check(run.sealed, certificate=kept).verdict is Verdict.CONSISTENT
    assert verify(run.sealed, now=LATE, kept=kept).word == "consistent"
