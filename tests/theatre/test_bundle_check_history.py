"""What the check holds a recorded history to: other runs, each fact once, none from the future."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.conftest import EVERY_OUTCOME, run_small_theatre
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
from tests.theatre.test_bundle_check_verdicts import invented_history
from tests.theatre.test_bundle_mutations import full_history
from theatre.engine.bundle_check.standalone import verify

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


def test_one_run_told_three_times_makes_nobody_proven(tmp_path: Path) -> None:
    earlier = backtested(tmp_path / "earlier")
    files = load(backtested(tmp_path / "run", invented_history(earlier)).sealed)
    assert document(files, "certificate.json")["verification_tier"] == "PROVEN"

    def one_theatre(history: Any) -> None:  # noqa: ANN401  # a document to be changed at will
        for run in history["runs"]:
            run["theatre_id"] = history["runs"][0]["theatre_id"]

    failed, alone, why = refused_by(files, one_theatre, tmp_path / "bundle")
    assert (failed, alone) == ({"tier"}, ["tier"])
    assert why.startswith(ONCE.format("runs"))
