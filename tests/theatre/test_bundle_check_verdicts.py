"""The one word for a bundle: who vouches for it, and what its tier rests on.

A history holds other runs, each fact once, and none from the future."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import NAMESPACE_OID, uuid5

import pytest

from tests.theatre.conftest import EVERY_OUTCOME, SmallRun, run_small_theatre
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
)
from tests.theatre.runs import LATE
from tests.theatre.test_bundle_check_runs import backtested
from tests.theatre.test_bundle_mutations import full_history
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


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """A run that an invented history makes PROVEN."""
    folder = tmp_path_factory.mktemp("proven")
    return backtested(folder / "run", invented_history(backtested(folder / "earlier")))


def test_proven_by_an_invented_history_is_consistent_at_most(proven: SmallRun) -> None:
    run = proven
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
    run = run_small_theatre(
        tmp_path, episodes=EVERY_OUTCOME[:2], history=TierHistory(disputes=(dispute,))
    )
    kept = (run.sealed / "certificate.json").read_bytes()
    assert check(run.sealed, certificate=kept).verdict is Verdict.CONSISTENT
    assert verify(run.sealed, now=LATE, kept=kept).word == "consistent"


FUTURE = "2034-01-01T00:00:00.000000Z"
Edit = Callable[[Any], object]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run with one record of every sort in its history."""
    folder = tmp_path_factory.mktemp("run")
    run = run_small_theatre(folder, episodes=EVERY_OUTCOME[:2], gold=(), history=full_history())
    return load(run.sealed)


def refused_by(files: Files, edit: Edit, folder: Path) -> tuple[set[str], list[str], str]:
    """Return what both readers refuse of a changed history, all else made anew, and why."""
    forged = changed(files, "tier.json", lambda tier: edit(tier["history"]))
    bundle = store(resealed(forged, Effort.CHAIN), folder)
    report, alone = check(bundle), verify(bundle, now=LATE)
    why = next((f"{line.expected} / {line.actual}" for line in report.failed), "")
    return failed_ids(report), [name for name, found in alone.problems.items() if found], why


def with_record(sort: str, **members: str) -> Edit:
    return lambda history: history[sort][0].update(members)


def twice(sort: str, **members: str) -> Edit:
    return lambda history: history[sort].append(history[sort][0] | members)


ONCE = "facts and a history that a tier follows from / expected each of the {} once"
PAST = "facts and a history that a tier follows from / expected {} not later than "


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (twice("runs", resolved_at="2026-01-01T00:00:00.000000Z"), ONCE.format("runs")),
        (twice("disputes", status="resolved"), ONCE.format("disputes")),
        (twice("telemetry"), ONCE.format("telemetry")),
        (twice("attestations"), ONCE.format("attestations")),
        (twice("signals"), ONCE.format("signals")),
        (with_record("runs", resolved_at=FUTURE), PAST.format("runs")),
        (with_record("disputes", at=FUTURE), PAST.format("disputes")),
        (with_record("telemetry", confirmed_at=FUTURE), PAST.format("telemetry")),
        (with_record("attestations", at=FUTURE), PAST.format("attestations")),
        (with_record("signals", at=FUTURE), PAST.format("signals")),
        (with_record("runs", theatre_id="11111111-1111-4111-8111-111111111111x"), ""),
        (with_record("runs", theatre_id="AAAAAAAA-1111-4111-8111-111111111111"), ""),
    ],
    ids=[
        *("a run twice", "a dispute twice", "a window twice", "an attestation twice"),
        *("a signal twice", "a run to come", "a dispute to come", "a window to come"),
        *("an attestation to come", "a signal to come", "no UUID", "a UUID in capitals"),
    ],
)
def test_a_history_that_cannot_be_is_refused_by_name(
    files: Files, tmp_path: Path, edit: Edit, why: str
) -> None:
    failed, alone, told = refused_by(files, edit, tmp_path / "bundle")
    assert (failed, alone) == ({"tier"}, ["tier"])
    assert told.startswith(why)


def test_a_run_is_not_its_own_past(files: Files, tmp_path: Path) -> None:
    own = str(document(files, "certificate.json")["theatre_id"])
    refused = refused_by(files, with_record("runs", theatre_id=own), tmp_path / "bundle")
    told = "facts and a history that a tier follows from / expected a history of other runs, got "
    assert refused[:2] == ({"tier"}, ["tier"])
    assert refused[2] == f"{told}this run"


def test_what_was_known_at_the_very_moment_counts_and_two_that_differ_are_two(
    files: Files, tmp_path: Path
) -> None:
    moment = str(document(files, "certificate.json")["theatre_resolved_at"])

    def edit(history: Any) -> None:  # noqa: ANN401  # a document to be changed at will
        for sort, at in (("runs", "resolved_at"), ("telemetry", "confirmed_at"), ("signals", "at")):
            with_record(sort, **{at: moment})(history)
        for sort in ("attestations", "disputes"):
            with_record(sort, at=moment)(history)
        twice("attestations", attester="two")(history)
        twice("signals", source="two")(history)
        twice("disputes", dispute_id="d-2")(history)
        twice("runs", theatre_id="22222222-2222-4222-8222-222222222222")(history)

    assert refused_by(files, edit, tmp_path / "bundle") == (set(), [], "")


def test_one_run_told_three_times_makes_nobody_proven(proven: SmallRun, tmp_path: Path) -> None:
    files = load(proven.sealed)
    assert document(files, "certificate.json")["verification_tier"] == "PROVEN"

    def one_theatre(history: Any) -> None:  # noqa: ANN401  # a document to be changed at will
        for run in history["runs"]:
            run["theatre_id"] = history["runs"][0]["theatre_id"]

    failed, alone, why = refused_by(files, one_theatre, tmp_path / "bundle")
    assert (failed, alone) == ({"tier"}, ["tier"])
    assert why.startswith(ONCE.format("runs"))
