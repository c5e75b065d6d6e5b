"""Whether the folder holds exactly the files of the evidence, and the sums and manifest say so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from uuid import UUID, uuid5

from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    AUDIT_TRAIL,
    BASELINES,
    CERTIFICATE,
    COIN,
    DATA_AUDIT,
    MANIFEST,
    PER_EPISODE,
    RECEIPT,
    REPRODUCTION,
    RESOLUTION,
    SUMS,
    TEMPLATE,
    TIER,
    BundleFolder,
    Documents,
)
from theatre.engine.bundle_check.plan import GOLD_LABELS, REPLAY_DATASET, CommittedPlan
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

UNSUMMED = frozenset({MANIFEST, SUMS, CERTIFICATE, REPRODUCTION})
"""The files that SHA256SUMS leaves out, so that the certificate can name its bundle."""

INVOCATION_PATH = re.compile(r"invocations/(?:episode_\d{6,}\.json|part-\d{5,}\.jsonl)", re.ASCII)

_FIXED = frozenset(
    {
        MANIFEST,
        SUMS,
        TEMPLATE,
        RECEIPT,
        COIN,
        PER_EPISODE,
        AGGREGATE,
        DATA_AUDIT,
        BASELINES,
        RESOLUTION,
        TIER,
        AUDIT_TRAIL,
        REPLAY_DATASET,
    }
)
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


def check_inventory(
    folder: BundleFolder,
    documents: Documents,
    plan: CommittedPlan | None,
    rated: frozenset[str],
    ledger: Ledger,
) -> bool:
    """Make the check `inventory`; return whether the bundle is complete and holds nothing else.

    `rated` are the files of people's scores that there must be.
    A file that is there and listed, but with other bytes, leaves it complete. Which invocation
    records there must be is for the check `invocations` to say.
    """
    check = CheckId.INVENTORY
    for oddity in folder.oddities:
        ledger.wrong(check, "plain files only", f"{oddity.what} at {oddity.path!r}")
    datasets = set(plan.datasets) if plan is not None else {REPLAY_DATASET, GOLD_LABELS}
    fixed = _FIXED | {documents.conclusion}
    required = fixed | rated | (set(plan.datasets) if plan is not None else set())
    for path in sorted(required - folder.files.keys()):
        ledger.wrong(check, f"the file {path}", "none")
    for path in folder.files:
        if path not in fixed | datasets | rated and not INVOCATION_PATH.fullmatch(path):
            ledger.wrong(check, "only files that the evidence calls for", f"also {path!r}")
    try:
        listed = _read_inventory(documents)
    except DefectError as defect:
        ledger.wrong(check, defect.expected, defect.actual)
        return False
    held = folder.files.keys() - {MANIFEST}
    for path in sorted(listed.keys() ^ held):
        expected = f"{path!r} listed in the manifest" if path in held else f"the file {path!r}"
        ledger.wrong(check, expected, "none")
    ledger.completed(check, f"{len(folder.files)} files")
    complete = ledger.passed(check)
    _compare_bytes(folder, {path: listed[path] for path in sorted(listed.keys() & held)}, ledger)
    return complete


def _read_inventory(documents: Documents) -> Mapping[str, JsonValue]:
    """Return path → entry of the manifest's inventory."""
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


def _compare_bytes(folder: BundleFolder, listed: Mapping[str, JsonValue], ledger: Ledger) -> None:
    for path, entry in listed.items():
        try:
            seen: JsonValue = {
                "path": path,
                "size_bytes": folder.files[path],
                "sha256": folder.digest(path).sha256,
            }
        except DefectError as defect:
            ledger.wrong(CheckId.INVENTORY, defect.expected, defect.actual)
        else:
            ledger.compare(CheckId.INVENTORY, f"the listed {path}, ", entry, seen)


def check_sums(folder: BundleFolder, documents: Documents, ledger: Ledger) -> str | Nothing:
    """Make the checks `sums` and `bundle-hash`; return the bundle hash."""
    try:
        raw = folder.read(SUMS)
    except DefectError as defect:
        ledger.wrong(CheckId.SUMS, defect.expected, defect.actual)
        ledger.wrong(CheckId.BUNDLE_HASH, defect.expected, defect.actual)
        return NOTHING
    for expected, actual in _wrong_sums(folder, raw):
        ledger.wrong(CheckId.SUMS, expected, actual)
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


def _wrong_sums(folder: BundleFolder, raw: bytes) -> Iterator[tuple[str, str]]:
    sums: dict[bytes, str] = {}
    for number, line in enumerate(raw.splitlines(keepends=True), start=1):
        match = _SUMS_LINE.fullmatch(line)
        if match is None:
            yield f"SHA256SUMS line {number} as digest, two spaces, path", repr(line[:100])
        elif match[2] in sums:
            yield f"SHA256SUMS line {number} with a path of its own", f"{match[2]!r} again"
        else:
            sums[match[2]] = match[1].decode("ascii")
    if list(sums) != sorted(sums):
        yield "SHA256SUMS sorted by the bytes of the path", "another order"
    summed = (folder.files.keys() | _FIXED) - UNSUMMED
    required = {path.encode("utf-8"): path for path in summed}
    for name in sorted(sums.keys() ^ required.keys()):
        wanted = name in required
        yield (
            ("a digest of" if wanted else "no digest of") + f" {name!r}",
            "none" if wanted else "one",
        )
    for name in sorted(sums.keys() & required.keys()):
        try:
            seen = folder.digest(required[name]).sha256
        except DefectError as defect:
            yield defect.expected, defect.actual
        else:
            if seen != sums[name]:
                yield f"{required[name]} with SHA-256 {sums[name]}", seen


def check_manifest(
    documents: Documents,
    plan: CommittedPlan | None,
    *,
    theatre_id: str | Nothing,
    bundle_hash: str | Nothing,
    sealed_at: JsonValue | Nothing,
    ledger: Ledger,
) -> None:
    """Make the check `manifest`: every field but hash and inventory, which have their own."""
    try:
        require_members(documents.at(MANIFEST), _MANIFEST_MEMBERS, MANIFEST)
    except DefectError as defect:
        ledger.wrong(CheckId.MANIFEST, defect.expected, defect.actual)
    bundle_id: str | Nothing = NOTHING
    if isinstance(theatre_id, str) and isinstance(bundle_hash, str):
        bundle_id = str(uuid5(UUID(theatre_id), bundle_hash))
    expectations: dict[str, JsonValue | Nothing] = {
        "bundle_id": bundle_id,
        "theatre_id": theatre_id,
        "created_at": sealed_at,
        "methodology_version": NOTHING if plan is None else plan.methodology_version,
        "construct_version": NOTHING if plan is None else plan.construct_version,
        "scorer_version": NOTHING if plan is None else plan.scorer_version,
    }
    for name, expected in expectations.items():
        ledger.compare(CheckId.MANIFEST, name, expected, documents.at(MANIFEST, name))
    ledger.completed(CheckId.MANIFEST, f"bundle_id {render(documents.at(MANIFEST, 'bundle_id'))}")
