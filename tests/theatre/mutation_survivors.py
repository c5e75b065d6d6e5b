"""Tries mutants of a bundle on the independent check, and tells which survive (evidence.md §6).

Each mutant is checked at three efforts of its forger (see `Effort`). ECHELON_TEST_MUTANTS is how
many mutants there are, or `all` (so with ECHELON_SOAK).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from tests.theatre.bundle_mutants import Mutant, group_of
from tests.theatre.forged_bundle import Effort, Files, check, failed_ids

SAMPLE = 600

CAUGHT_BY = {
    "SHA256SUMS": {"sums"},
    "audit_trail.jsonl": {"audit-chain"},
    "certificate.json": {"certificate-fields", "certificate-schema"},
    # What it runs in is no part of the commitment: the certificate repeats it.
    "commitment_receipt.json": {"commitment", "template", "certificate-fields"},
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

PEOPLE = "hitl/*"
CAUGHT_WHERE_PEOPLE_RATE = CAUGHT_BY | {PEOPLE: {"human-scores"}}

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


def setting() -> str:
    default = "all" if os.environ.get("ECHELON_SOAK") == "1" else str(SAMPLE)
    return os.environ.get("ECHELON_TEST_MUTANTS", default)


def chosen(every: Sequence[Mutant], *, at_least: int | None = None) -> list[Mutant]:
    """Return the mutants to try: one for each place, each kind, and more up to the setting."""
    if setting() == "all":
        return list(every)
    in_turn = sorted(every, key=lambda mutant: hashlib.sha256(mutant.name.encode()).digest())
    places = {mutant.place: mutant for mutant in reversed(in_turn)}
    kinds = {mutant.kind: mutant for mutant in reversed(in_turn)}
    needed = {mutant.name: mutant for mutant in (*places.values(), *kinds.values())}
    rest = [mutant for mutant in in_turn if mutant.name not in needed]
    wanted = int(setting()) if at_least is None else at_least
    return [*needed.values(), *rest[: max(0, wanted - len(needed))]]


def survivors_of(
    folder: Path, files: Files, group: str, tried: Sequence[Mutant]
) -> dict[str, set[Effort]]:
    """Return where a mutant of `group` passed, and with which efforts; all others are named."""
    survivors: dict[str, set[Effort]] = {}
    misnamed = []
    caught_by = CAUGHT_WHERE_PEOPLE_RATE.get(group, {"datasets"})
    for mutant in tried:
        if group_of(mutant.file) != group:
            continue
        for effort in efforts_for(mutant):
            forged = mutant.forged(files, effort)
            if forged == files and effort is Effort.CERTIFIED_HASH:
                continue  # the change was in the very hash that this forger makes anew
            failed = failed_when(folder, files, forged)
            if not failed:
                survivors.setdefault(mutant.place, set()).add(effort)
            elif not failed & (caught_by | also_caught_by(mutant)):
                misnamed.append((mutant.name, effort.name, sorted(failed)))
    assert misnamed == []
    return survivors


def efforts_for(mutant: Mutant) -> Sequence[Effort]:
    """Return the efforts to try: the strongest, and one of the others in turn; or all."""
    if setting() == "all":
        return list(Effort)
    digest = hashlib.sha256(mutant.name.encode()).digest()
    weaker = (Effort.ALONE, Effort.SUMS_AND_MANIFEST)[digest[-1] % 2]
    return [weaker, Effort.CERTIFIED_HASH]


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
