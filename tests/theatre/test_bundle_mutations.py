"""No change of a real bundle goes unnoticed, however much of it is made anew (evidence.md §6).

Each mutant is checked at three efforts of its forger (see `Effort`). ECHELON_TEST_MUTANTS is how
many mutants there are, or `all` (so with ECHELON_SOAK); every place of every document has at
least one in any case.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.bundle_mutants import group_of, mutants
from tests.theatre.conftest import run_small_theatre
from tests.theatre.every_feature import run_every_feature
from tests.theatre.forged_bundle import Effort, Files, check, load, resealed, store
from tests.theatre.mutation_survivors import CAUGHT_BY, UNANCHORED, chosen, setting, survivors_of
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

LOG = "ground_truth/log.jsonl"


def full_history() -> TierHistory:
    """Return one record of every sort, none of which changes the tier of the run."""
    then = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    construct_id, version = "sums", "0123456"
    return TierHistory(
        runs=(
            RunRecord(
                theatre_id="11111111-1111-4111-8111-111111111111",
                construct_id=construct_id,
                construct_version=version,
                tier=VerificationTier.UNVERIFIED,
                resolved_at=then,
                results_hash="1" * 64,
            ),
        ),
        telemetry=(
            TelemetryWindow(
                construct_id=construct_id,
                construct_version=version,
                start=then,
                end=datetime(2026, 2, 1, tzinfo=UTC),
                confirmed_at=datetime(2026, 2, 2, tzinfo=UTC),
            ),
        ),
        attestations=(
            Attestation(attester="one", independent=True, results_hash="1" * 64, at=then),
        ),
        disputes=(Dispute(dispute_id="d-1", status=DisputeStatus.FILED, at=then),),
        signals=(
            BehaviouralSignal(
                source="one",
                construct_id=construct_id,
                construct_version=version,
                consistent=True,
                at=then,
            ),
        ),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run of every outcome, with history."""
    return load(run_small_theatre(tmp_path_factory.mktemp("run"), history=full_history()).sealed)


@pytest.fixture(scope="module")
def feature_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run with everything that a template can commit."""
    return load(run_every_feature(tmp_path_factory.mktemp("features")))


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> Path:
    """The honest bundle, to be changed and put back."""
    return store(files, tmp_path / "bundle")


@pytest.mark.no_cover  # tracing would double the time, and shows nothing that others do not
@pytest.mark.parametrize("group", CAUGHT_BY)
def test_no_mutant_survives_unnamed(files: Files, folder: Path, group: str) -> None:
    survivors = survivors_of(folder, files, group, chosen(list(mutants(files))))
    unanchored = {place for place in UNANCHORED if place.startswith(group)}
    assert survivors.keys() - unanchored == set()
    assert all(efforts == {Effort.CERTIFIED_HASH} for efforts in survivors.values())
    if setting() == "all":
        assert survivors.keys() == unanchored


@pytest.mark.no_cover
@pytest.mark.parametrize("group", [*CAUGHT_BY, LOG])
def test_no_mutant_of_a_run_with_every_feature_survives_unnamed(
    files: Files, feature_files: Files, tmp_path: Path, group: str
) -> None:
    """At the places that the other run has, too, only where all mutants are asked for."""
    known = set() if setting() == "all" else {mutant.place for mutant in mutants(files)}
    new = [mutant for mutant in mutants(feature_files) if mutant.place not in known]
    folder = store(feature_files, tmp_path / "features")
    assert survivors_of(folder, feature_files, group, chosen(new, at_least=0)) == {}


def test_the_sample_has_every_place_and_every_kind(files: Files) -> None:
    every = list(mutants(files))
    picked = chosen(every)
    assert {mutant.place for mutant in picked} == {mutant.place for mutant in every}
    assert {mutant.kind for mutant in picked} == {mutant.kind for mutant in every}
    assert {group_of(mutant.file) for mutant in picked} == set(CAUGHT_BY)
    assert {group_of(name) for name in files} == set(CAUGHT_BY)


def test_making_an_honest_bundle_anew_changes_nothing(files: Files, folder: Path) -> None:
    assert resealed(files, Effort.CERTIFIED_HASH) == files
    assert check(folder).valid
