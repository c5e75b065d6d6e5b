"""Tries mutants of a bundle on the independent check, and tells which survive.

Source: docs/contract/evidence.md §6.

Each mutant is checked at four efforts of its forger (see `Effort`). ECHELON_TEST_MUTANTS is how
many mutants there are, or `all` (so with ECHELON_SOAK).
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.theatre.bundle_mutants import Mutant, group_of
from tests.theatre.forged_bundle import Effort, Files, check, failed_ids

SAMPLE = 600

CAUGHT_BY = {
    "SHA256SUMS": {"sums"},
    "audit_trail.jsonl": {"audit-chain"},
    "certificate.json": {"certificate-fields", "certificate-schema"},
    "coin.txt": {"coin"},
    # What it runs in is no part of the commitment: the certificate repeats it.
    "commitment_receipt.json": {"coin", "commitment", "template", "certificate-fields"},
    "ground_truth/dataset.jsonl": {"datasets"},
    "ground_truth/gold_labels.jsonl": {"datasets"},
    "invocations/*": {"audit-episodes", "invocations"},
    "manifest.json": {"manifest", "inventory", "bundle-hash", "commitment"},
    "resolution.json": {"resolution"},
    "scores/aggregate.json": {"aggregate"},
    "scores/baselines.json": {"baselines"},
    "scores/data_audit.json": {"data-audit"},
    "scores/per_episode.jsonl": {"scores"},
    "template.json": {"template"},
    "tier.json": {"tier"},
}
"""File → the checks of which one must name a mutant of it, at every effort but the last.

Who makes the chain anew is found out by what the change contradicts, whatever that is. A form that
is not canonical is named by `canonical-form`, a copy by `inventory`.
"""

PEOPLE = "hitl/*"
CAUGHT_WHERE_PEOPLE_RATE = CAUGHT_BY | {PEOPLE: {"human-scores"}}

UNANCHORED = "tier.json/history/**"
"""What happened around the construct: an outside anchor could settle it, and the report says so.

Who makes anew all but the chain can change it where the tier stays as it is.
"""
NEVER_OF_THE_PAST = {"an item more", "a later time"}
"""What no history can hold: a fact twice, or one from after the run."""

CALL = "invocations/*/calls/*"
ISSUERS_WORD: Mapping[str, str] = {
    UNANCHORED: "what happened around the construct",
    "audit_trail.jsonl/created/at": "when it was created",
    "audit_trail.jsonl/activated/detail/authors/*": "who wrote a construct",
    "audit_trail.jsonl/activated/detail/environment": "what it ran on",
    "audit_trail.jsonl/activated/detail/environment/*": "what it ran on",
    "audit_trail.jsonl/activated/detail/previous_environment": "what it ran on the time before",
    "audit_trail.jsonl/activated/detail/previous_environment/*": "what it ran on the time before",
    "audit_trail.jsonl/episodes_recorded/detail/journal_sha256": "what the journal held",
    "audit_trail.jsonl/human_score/detail/comment": "what somebody remarked",
    "audit_trail.jsonl/human_score/detail/score": "a score that counts nowhere",
    "audit_trail.jsonl/human_score/detail/scorer": "who gave a score that counts nowhere",
    "audit_trail.jsonl/human_score_refused/detail/*": "what was refused, if the rest agrees",
    "audit_trail.jsonl/step_failed/detail/result/error_detail": "how a step failed",
    "certificate.json/issuer": "who the issuer is",
    "commitment_receipt.json/environment": "what it ran on",
    "commitment_receipt.json/environment/*": "what it ran on",
    "commitment_receipt.json/isolation": "what was closed at the commitment",
    "commitment_receipt.json/isolation/*": "what was closed at the commitment",
    "resolution.json/steps/*/result/error_detail": "how a step failed",
    f"{CALL}/attempts/*/raw": "what was sent that was not accepted",
    f"{CALL}/attempts/*/reason": "why an answer was not accepted",
    f"{CALL}/attempts/*/response/construct_id": "what a failed answer reported",
    f"{CALL}/attempts/*/response/construct_version": "what a failed answer reported",
    f"{CALL}/attempts/*/response/error_detail": "how a call failed",
    f"{CALL}/attempts/*/response/latency_ms": "how long it took",
    f"{CALL}/attempts/*/response/output_data": "an answer that scores the same",
    f"{CALL}/attempts/*/response/output_data/**": "an answer that scores the same",
    f"{CALL}/attempts/*/response/status": "how a call ended that scores the same",
    f"{CALL}/attempts/*/stderr": "what a construct wrote beside its answer",
    f"{CALL}/version_source": "how the version became known",
}
"""Places that only a signature could settle (docs/contract/evidence.md) → what stands there.

`*` is one name, `**` any number of them. Who makes even the chain anew can change what stands there
in a way that leaves scores and tier as they are.
"""


def excused(mutant: Mutant) -> set[Effort]:
    """Return with which efforts a change may pass: of the issuer's word, or with none."""
    if fits(mutant.place, UNANCHORED):
        never = mutant.kind in NEVER_OF_THE_PAST
        return set() if never else {Effort.CERTIFIED_HASH, Effort.CHAIN}
    return {Effort.CHAIN} if any(fits(mutant.place, word) for word in ISSUERS_WORD) else set()


def fits(place: str, pattern: str) -> bool:
    """Tell whether a place is one of a pattern; `*` is one name, `**` any number of them."""
    names = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(names, place) is not None


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
    """Return where a mutant of `group` passed unexcused, and with which efforts.

    All others are named.
    """
    survivors: dict[str, set[Effort]] = {}
    misnamed = []
    caught_by = CAUGHT_WHERE_PEOPLE_RATE.get(group, {"datasets"})
    for mutant in tried:
        if group_of(mutant.file) != group:
            continue
        for effort in efforts_for(mutant):
            forged = mutant.forged(files, effort)
            if forged == files and effort >= Effort.CERTIFIED_HASH:
                continue  # the change was in what this forger makes anew
            failed = failed_when(folder, files, forged)
            if not failed:
                if effort not in excused(mutant):
                    survivors.setdefault(mutant.place, set()).add(effort)
            elif effort < Effort.CHAIN and not failed & (caught_by | also_caught_by(mutant)):
                misnamed.append((mutant.name, effort.name, sorted(failed)))
    assert misnamed == [], misnamed
    return survivors


def efforts_for(mutant: Mutant) -> Sequence[Effort]:
    """Return the efforts to try: the strongest, and one of the others in turn; or all."""
    if setting() == "all":
        return list(Effort)
    digest = hashlib.sha256(mutant.name.encode()).digest()
    return [list(Effort)[digest[-1] % 3], Effort.CHAIN]


def also_caught_by(mutant: Mutant) -> set[str]:
    if mutant.kind.startswith("a copy"):
        return {"inventory"}
    if fits(mutant.place, UNANCHORED):
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
