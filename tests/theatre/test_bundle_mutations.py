"""No change of a real bundle goes unnoticed, however much of it is made anew (evidence.md §6).

Each mutant is checked at three efforts of its forger (`Effort`). `ECHELON_TEST_MUTANTS` is the
number of mutants, or `all`; every place of every document has at least one in any case.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.conftest import SmallRun, run_small_theatre
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    failed_ids,
    load,
    parse_or_none,
    resealed,
    store,
    sums,
    with_certified_hash,
    with_manifest,
)
from theatre.engine.canonical_json import JsonValue, canonical_line
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

Edit = Callable[[Files], Files]
Path_ = tuple[str | int, ...]

SAMPLE = 700
"""Mutants without a setting: under a minute on one core."""

LATE = frozenset({"manifest.json", "SHA256SUMS"})
"""Files that a forger makes anew: a mutant of one is changed after that, not before."""

CAUGHT_BY: dict[str, set[str]] = {
    "manifest.json": {"manifest", "inventory", "bundle-hash", "commitment", "canonical-form"},
    "SHA256SUMS": {"sums"},
    "certificate.json": {"certificate-fields", "certificate-schema", "canonical-form"},
    "template.json": {"template", "canonical-form", "inventory"},
    "commitment_receipt.json": {"template", "commitment", "canonical-form", "inventory"},
    "ground_truth/dataset.jsonl": {"datasets"},
    "ground_truth/gold_labels.jsonl": {"datasets"},
    "invocations/*": {"audit-episodes", "invocations", "inventory"},
    "scores/per_episode.jsonl": {"scores", "inventory"},
    "scores/aggregate.json": {"aggregate", "canonical-form", "inventory"},
    "resolution.json": {"resolution", "canonical-form", "inventory"},
    "tier.json": {"tier", "canonical-form", "inventory"},
    "audit_trail.jsonl": {"audit-chain", "canonical-form", "inventory"},
}
"""File → the checks of which at least one must catch a mutant of it, at every effort."""

HISTORY = "tier.json/history"
UNANCHORED = {
    f"{HISTORY}/attestations/*",
    f"{HISTORY}/attestations/*/at",
    f"{HISTORY}/attestations/*/attester",
    f"{HISTORY}/attestations/*/independent",
    f"{HISTORY}/attestations/*/results_hash",
    f"{HISTORY}/disputes/*",
    f"{HISTORY}/disputes/*/at",
    f"{HISTORY}/disputes/*/dispute_id",
    f"{HISTORY}/runs/*",
    f"{HISTORY}/runs/*/construct_id",
    f"{HISTORY}/runs/*/construct_version",
    f"{HISTORY}/runs/*/resolved_at",
    f"{HISTORY}/runs/*/results_hash",
    f"{HISTORY}/runs/*/theatre_id",
    f"{HISTORY}/signals/*",
    f"{HISTORY}/signals/*/at",
    f"{HISTORY}/signals/*/consistent",
    f"{HISTORY}/signals/*/construct_id",
    f"{HISTORY}/signals/*/construct_version",
    f"{HISTORY}/signals/*/source",
    f"{HISTORY}/telemetry/*",
    f"{HISTORY}/telemetry/*/confirmed_at",
    f"{HISTORY}/telemetry/*/construct_id",
    f"{HISTORY}/telemetry/*/construct_version",
    f"{HISTORY}/telemetry/*/end",
    f"{HISTORY}/telemetry/*/start",
}
"""The places that only an outside anchor could settle: what happened around the construct.

A forger who makes anew all but the chain can change these where the tier stays as it is; the
report names them as `history`, unanchored. Nothing else survives.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change; `place` is where, with the numbers of items, lines and records left out."""

    file: str
    place: str
    kind: str
    edit: Edit

    @property
    def name(self) -> str:
        return f"{self.kind} at {self.place} of {self.file}"

    def forged(self, files: Files, effort: Effort) -> Files:
        """Return the bundle that a forger makes of this change."""
        if self.file not in LATE:
            return resealed(self.edit(files), effort)
        forged = self.edit(files)
        if self.file == "SHA256SUMS" and effort is not Effort.ALONE:
            certified = effort is Effort.CERTIFIED_HASH and "SHA256SUMS" in forged
            forged = with_certified_hash(forged) if certified else forged
            forged = with_manifest(forged) if "SHA256SUMS" in forged else forged
        return forged


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A run of every outcome, with one record of every sort in its history."""
    run: SmallRun = run_small_theatre(tmp_path_factory.mktemp("mutated"), history=full_history())
    return load(run.sealed)


def full_history() -> TierHistory:
    then = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    about = {"construct_id": "sums", "construct_version": "0123456"}
    return TierHistory(
        runs=(
            RunRecord(
                **about,
                theatre_id="11111111-1111-4111-8111-111111111111",
                tier=VerificationTier.UNVERIFIED,
                resolved_at=then,
                results_hash="1" * 64,
            ),
        ),
        telemetry=(
            TelemetryWindow(
                **about,
                start=then,
                end=datetime(2026, 2, 1, tzinfo=UTC),
                confirmed_at=datetime(2026, 2, 2, tzinfo=UTC),
            ),
        ),
        attestations=(
            Attestation(attester="one", independent=True, results_hash="1" * 64, at=then),
        ),
        disputes=(Dispute(dispute_id="d-1", status=DisputeStatus.FILED, at=then),),
        signals=(BehaviouralSignal(**about, source="one", consistent=True, at=then),),
    )


def test_every_mutant_is_caught_by_name(files: Files, tmp_path: Path) -> None:
    folder = store(files, tmp_path / "bundle")
    assert check(folder).valid
    assert resealed(files, Effort.CERTIFIED_HASH) == files
    survivors, unnamed = set(), []
    for mutant in chosen(list(mutants(files))):
        for effort in Effort:
            failed = failed_when(folder, files, mutant.forged(files, effort))
            if not failed:
                survivors.add((mutant.file + mutant.place, effort))
            elif not failed & expected_catchers(mutant, effort):
                unnamed.append((mutant.name, effort.name, sorted(failed)))
    assert unnamed == []
    assert {effort for _, effort in survivors} <= {Effort.CERTIFIED_HASH}
    assert {place for place, _ in survivors} - UNANCHORED == set()
    if setting() == "all":
        assert {place for place, _ in survivors} == UNANCHORED


def test_there_is_a_mutant_for_every_file_and_place(files: Files) -> None:
    every = list(mutants(files))
    picked = chosen(every)
    assert {m.file for m in picked} == set(files) | {"invocations/*"} - set()
    assert {(m.file, m.place) for m in picked} == {(m.file, m.place) for m in every}
    assert {m.kind for m in picked} == {m.kind for m in every}


def expected_catchers(mutant: Mutant, effort: Effort) -> set[str]:
    group = "invocations/*" if mutant.file.startswith("invocations/") else mutant.file
    if mutant.kind == "copy":
        return {"inventory", "invocations"}
    named = CAUGHT_BY[group]
    return named if effort is not Effort.ALONE else named | {"inventory"}


def failed_when(folder: Path, files: Files, forged: Files) -> set[str]:
    """Check the forged files in place of the honest ones, and put those back."""
    touched = {name for name in files.keys() | forged.keys() if files.get(name) != forged.get(name)}
    assert touched, "a mutant must change something"
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
