"""Whether the folder holds exactly the files of the evidence, and the sums and manifest say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import UUID, uuid5

from theatre.engine.bundle_check.arithmetic import REQUIRED, UNSUMMED
from theatre.engine.bundle_check.evidence import Evidence
from theatre.engine.bundle_check.folder import CERTIFICATE, MANIFEST, SUMS, BundleFolder, Documents
from theatre.engine.bundle_check.plan import GOLD_LABELS, REPLAY_DATASET
from theatre.engine.bundle_check.report import (
    NOTHING,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    require_members,
)
from theatre.engine.canonical_json import JsonValue, sha256_hex

INVOCATION_PATH = re.compile(r"invocations/(?:episode_\d{6,}\.json|part-\d{5,}\.jsonl)", re.ASCII)

_SUMS_LINE = re.compile(rb"([0-9a-f]{64})  ([^\n]+)\n")
_ENTRY_MEMBERS = frozenset({"path", "size_bytes", "sha256"})
_MANIFEST_MEMBERS = frozenset(
    {
        "bundle_id",
        "theatre_id",
        "commitment_hash",
        "bundle_hash",
        "file_inventory",
        "created_at",
        "methodology_version",
        "construct_version",
        "scorer_version",
    }
)


def check_inventory(evidence: Evidence) -> bool:
    """Make the check `inventory`; return whether the bundle is complete and holds nothing else.

    A file that is there and listed, but with other bytes, leaves it complete. Which invocation
    records there must be is for the check `invocations` to say.
    """
    folder, plan, ledger, check = (
        evidence.folder,
        evidence.plan,
        evidence.ledger,
        CheckId.INVENTORY,
    )
    for odd, what in folder.oddities:
        ledger.wrong(check, "plain files only", f"{what} at {odd!r}")
    datasets = set(plan.datasets) if plan is not None else {REPLAY_DATASET, GOLD_LABELS}
    opened = [rating.step_id for rating in evidence.trail.ratings]
    rubrics = () if plan is None else plan.rubrics.values()
    rated = {rubric.path for rubric in rubrics if rubric.step_id in opened}
    fixed = {*REQUIRED} | {evidence.documents.conclusion}
    required = fixed | rated | (set(plan.datasets) if plan is not None else set())
    for path in sorted(required - folder.files.keys()):
        ledger.wrong(check, f"the file {path}", "none")
    # A file that nothing calls for could be shown as evidence without being any.
    for path in folder.files:
        if path not in fixed | datasets | rated and not INVOCATION_PATH.fullmatch(path):
            ledger.wrong(check, "only files that the evidence calls for", f"also {path!r}")
    try:
        listed = read_inventory(evidence.documents)
    except DefectError as defect:
        ledger.wrong(check, defect.expected, defect.actual)
        return False
    held = folder.files.keys() - {MANIFEST}
    for path in sorted(listed.keys() ^ held):
        expected = f"{path!r} listed in the manifest" if path in held else f"the file {path!r}"
        ledger.wrong(check, expected, "none")
    ledger.completed(check, f"{len(folder.files)} files")
    complete = ledger.passed(check)
    for path in sorted(listed.keys() & held):
        with ledger.noting(check):
            seen: JsonValue = {
                "path": path,
                "size_bytes": folder.files[path],
                "sha256": folder.digest(path).sha256,
            }
            ledger.compare(check, f"the listed {path}, ", listed[path], seen)
    return complete


def read_inventory(documents: Documents) -> Mapping[str, JsonValue]:
    """Return path → entry of the manifest's inventory; DefectError for another form."""
    inventory = documents.at(MANIFEST, "file_inventory")
    if not isinstance(inventory, list):
        raise DefectError("file_inventory of the manifest as an array", render(inventory))
    listed: dict[str, JsonValue] = {}
    for index, entry in enumerate(inventory):
        require_members(entry, _ENTRY_MEMBERS, f"file_inventory/{index}")
        path = at(entry, "path")
        if not isinstance(path, str) or path in listed:
            raise DefectError(f"file_inventory/{index} with a path of its own", render(path))
        listed[path] = entry
    if list(listed) != sorted(listed, key=lambda path: path.encode("utf-8")):
        raise DefectError("file_inventory sorted by the bytes of the path", "another order")
    return listed


def check_sums(evidence: Evidence) -> str | Nothing:
    """Make the checks `sums` and `bundle-hash`; return the bundle hash."""
    folder, documents, ledger, raw = evidence.folder, evidence.documents, evidence.ledger, None
    with ledger.noting(CheckId.SUMS, CheckId.BUNDLE_HASH):
        raw = folder.read(SUMS)
    if raw is None:
        return NOTHING
    _check_sums(folder, raw, ledger)
    ledger.completed(CheckId.SUMS, f"{len(folder.files.keys() - UNSUMMED)} digests")
    bundle_hash = sha256_hex(raw)
    named = [(MANIFEST, "bundle_hash")]
    if not documents.is_reproduction:
        named.append((CERTIFICATE, "evidence_bundle_hash"))
    for path, name in named:
        seen = documents.at(path, name)
        ledger.compare(CheckId.BUNDLE_HASH, f"{name} of {path}", bundle_hash, seen)
    ledger.completed(CheckId.BUNDLE_HASH, bundle_hash)
    return bundle_hash


def read_sums(raw: bytes, ledger: Ledger) -> dict[bytes, str]:
    """Return path → digest; what is wrong with a line or their order goes to `sums`."""
    check = CheckId.SUMS
    sums: dict[bytes, str] = {}
    for number, line in enumerate(raw.splitlines(keepends=True), start=1):
        match = _SUMS_LINE.fullmatch(line)
        if match is None:
            expected = f"SHA256SUMS line {number} as digest, two spaces, path"
            ledger.wrong(check, expected, repr(line[:100]))
        elif match[2] in sums:
            expected = f"SHA256SUMS line {number} with a path of its own"
            ledger.wrong(check, expected, f"{match[2]!r} again")
        else:
            sums[match[2]] = match[1].decode("ascii")
    if list(sums) != sorted(sums):
        ledger.wrong(check, "SHA256SUMS sorted by the bytes of the path", "another order")
    return sums


def _check_sums(folder: BundleFolder, raw: bytes, ledger: Ledger) -> None:
    check, sums = CheckId.SUMS, read_sums(raw, ledger)
    summed = (folder.files.keys() | {*REQUIRED}) - UNSUMMED
    required = {path.encode("utf-8"): path for path in summed}
    for name in sorted(sums.keys() ^ required.keys()):
        pair = ("a digest of", "none") if name in required else ("no digest of", "one")
        ledger.wrong(check, f"{pair[0]} {name!r}", pair[1])
    for name in sorted(sums.keys() & required.keys()):
        with ledger.noting(check):
            seen = folder.digest(required[name]).sha256
            if seen != sums[name]:
                ledger.wrong(check, f"{required[name]} with SHA-256 {sums[name]}", seen)


def check_manifest(evidence: Evidence, bundle_hash: str | Nothing) -> None:
    """Make the check `manifest`: every field but hash and inventory, which have their own."""
    documents, plan, ledger = evidence.documents, evidence.plan, evidence.ledger
    theatre_id = evidence.theatre_id
    with ledger.noting(CheckId.MANIFEST):
        require_members(documents.at(MANIFEST), _MANIFEST_MEMBERS, MANIFEST)
    bundle_id: str | Nothing = NOTHING
    if isinstance(theatre_id, str) and isinstance(bundle_hash, str):
        bundle_id = str(uuid5(UUID(theatre_id), bundle_hash))
    expectations: dict[str, JsonValue | Nothing] = {
        "bundle_id": bundle_id,
        "theatre_id": theatre_id,
        "created_at": evidence.sealed_at,
        "methodology_version": NOTHING if plan is None else plan.methodology_version,
        "construct_version": NOTHING if plan is None else plan.construct_version,
        "scorer_version": NOTHING if plan is None else plan.scorer_version,
    }
    for name, expected in expectations.items():
        ledger.compare(CheckId.MANIFEST, name, expected, documents.at(MANIFEST, name))
    ledger.completed(CheckId.MANIFEST, f"bundle_id {render(documents.at(MANIFEST, 'bundle_id'))}")
