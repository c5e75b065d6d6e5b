"""No change of a real bundle goes unnoticed, however much of it is made anew (evidence.md §6).

Each mutant is checked at three efforts of its forger (see `Effort`). ECHELON_TEST_MUTANTS is how
many mutants there are, or `all` (so with ECHELON_SOAK); every place of every document has at
least one in any case.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.bundle_mutants import Mutant, group_of, mutants
from tests.theatre.conftest import run_small_theatre
from tests.theatre.forged_bundle import Effort, Files, check, failed_ids, load, resealed, store
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

SAMPLE = 600

CAUGHT_BY = {
    "SHA256SUMS": {"sums"},
    "audit_trail.jsonl": {"audit-chain"},
    "certificate.json": {"certificate-fields", "certificate-schema"},
    "commitment_receipt.json": {"commitment", "template"},
    "ground_truth/dataset.jsonl": {"datasets"},
    "ground_truth/gold_labels.jsonl": {"datasets"},
    "invocations/*": {"audit-episodes", "invocations"},
    "manifest.json": {"manifest", "inventory", "bundle-hash", "commitment"},
    "resolution.json": {"resolution"},
    "scores/aggregate.json": {"aggregate"},
    "scores/per_episode.jsonl": {"scores"},
    "template.json": {"template"},
    "tier.json": {"tier"},
}
"""File → the checks of which one must name a mutant of it, at every effort.

A form that is not canonical is named by `canonical-form`, a copy by `inventory`.
"""

UNANCHORED = {
    f"tier.json/history/{place}"
    for place in (
        "attestations/*",
        "attestations/*/at",
        "attestations/*/attester",
        "attestations/*/independent",
        "attestations/*/results_hash",
        "disputes/*",
        "disputes/*/at",
        "disputes/*/dispute_id",
        "disputes/*/status",
        "runs/*",
        "runs/*/construct_id",
        "runs/*/construct_version",
        "runs/*/resolved_at",
        "runs/*/results_hash",
        "runs/*/theatre_id",
        "runs/*/tier",
        "signals/*",
        "signals/*/at",
        "signals/*/consistent",
        "signals/*/construct_id",
        "signals/*/construct_version",
        "signals/*/source",
        "telemetry/*",
        "telemetry/*/confirmed_at",
        "telemetry/*/construct_id",
        "telemetry/*/construct_version",
        "telemetry/*/start",
    )
}
"""The places that only an outside anchor could settle: what happened around the construct.

Who makes anew all but the chain can change these where the tier stays as it is, and the report
names them under `history`, unanchored. Nothing else survives.
"""


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


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> Path:
    """The honest bundle, to be changed and put back."""
    return store(files, tmp_path / "bundle")


def setting() -> str:
    default = "all" if os.environ.get("ECHELON_SOAK") == "1" else str(SAMPLE)
    return os.environ.get("ECHELON_TEST_MUTANTS", default)


def chosen(every: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants to try: one for each place, each kind, and more up to the setting."""
    if setting() == "all":
        return list(every)
    in_turn = sorted(every, key=lambda mutant: hashlib.sha256(mutant.name.encode()).digest())
    places = {mutant.place: mutant for mutant in reversed(in_turn)}
    kinds = {mutant.kind: mutant for mutant in reversed(in_turn)}
    needed = {mutant.name: mutant for mutant in (*places.values(), *kinds.values())}
    rest = [mutant for mutant in in_turn if mutant.name not in needed]
    return [*needed.values(), *rest[: max(0, int(setting()) - len(needed))]]


@pytest.mark.no_cover  # tracing would double the time, and shows nothing that others do not
@pytest.mark.parametrize("group", CAUGHT_BY)
def test_no_mutant_survives_unnamed(files: Files, folder: Path, group: str) -> None:
    survivors: dict[str, set[Effort]] = {}
    misnamed = []
    for mutant in chosen(list(mutants(files))):
        if group_of(mutant.file) != group:
            continue
        for effort in Effort:
            forged = mutant.forged(files, effort)
            if forged == files and effort is Effort.CERTIFIED_HASH:
                continue  # the change was in the very hash that this forger makes anew
            failed = failed_when(folder, files, forged)
            if not failed:
                survivors.setdefault(mutant.place, set()).add(effort)
            elif not failed & (CAUGHT_BY[group] | also_caught_by(mutant)):
                misnamed.append((mutant.name, effort.name, sorted(failed)))
    assert misnamed == []
    unanchored = {place for place in UNANCHORED if place.startswith(group)}
    assert survivors.keys() - unanchored == set()
    assert all(efforts == {Effort.CERTIFIED_HASH} for efforts in survivors.values())
    if setting() == "all":
        assert survivors.keys() == unanchored


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


def also_caught_by(mutant: Mutant) -> set[str]:
    if mutant.kind.startswith("a copy"):
        return {"inventory"}
    if mutant.place in UNANCHORED:
        return {"sums", "bundle-hash"}
    whole_file = mutant.place == group_of(mutant.file)
    return {"canonical-form", "inventory"} if whole_file else set()


def failed_when(folder: Path, files: Files, forged: Files) -> set[str]:
    """Check the forged files in place of the honest ones, and put those back."""
    touched = {name for name in files.keys() | forged.keys() if files.get(name) != forged.get(name)}
    assert touched, "a mutant changes something"
    put(folder, forged, touched)
    try:
        return failed_ids(check(folder))
    finally:
        put(folder, files, touched)


def put(folder: Path, files: Files, names: set[str]) -> None:
    for name in names:
        if name in files:
            (folder / name).write_bytes(files[name])
        else:
            (folder / name).unlink()
