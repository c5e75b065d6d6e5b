"""A bundle in memory, to be changed as a forger would: alone, or with sums and hashes made anew.

Written from docs/contract/evidence.md with `hashlib` alone: it shares no code with the builder of
bundles or with their check.
"""

import contextlib
import hashlib
import hmac
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid5

from tests.theatre.played_runs import OWN_RUNNER, RUNNER
from tests.theatre.runs import LATE
from theatre.debate.episodes.runner import RUNNER as DEBATE
from theatre.engine.bundle_check import CheckReport
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    canonical_line,
    parse_json,
)
from theatre.engine.errors import ParseError
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.schema_registry import SchemaRegistry
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_scorers

Files = dict[str, bytes]
"""Path in the bundle → bytes."""

REGISTRY = SchemaRegistry()
SCORERS = load_scorers()
COMPUTATIONS = load_computations()
SANITISER = TextSanitiser()
RUNNERS = {one.name: one for one in (RUNNER, OWN_RUNNER, DEBATE)}

_UNSUMMED = frozenset({"manifest.json", "SHA256SUMS", "certificate.json", "reproduction.json"})


class Effort(IntEnum):
    """How far a forger goes after the change itself; each includes the ones before it."""

    ALONE = 1
    SUMS_AND_MANIFEST = 2
    CERTIFIED_HASH = 3
    """The certificate's `evidence_bundle_hash` too: all but the chain is made anew."""
    CHAIN = 4
    """The audit chain too, with its head on the certificate: no hash is left to betray a change."""


def load(bundle: Path) -> Files:
    """Return the files of a bundle that are evidence: what proves who issued it is apart."""
    evidence = (path for path in sorted(bundle.rglob("*")) if path.parent.name != "proofs")
    paths = (path for path in evidence if path.is_file())
    return {path.relative_to(bundle).as_posix(): path.read_bytes() for path in paths}


def store(files: Files, folder: Path) -> Path:
    """Write `files` to the new folder `folder` and return it."""
    for name, raw in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(raw)
    return folder


def document(files: Files, path: str) -> JsonObject:
    """Return a JSON document of the bundle, to be changed at will."""
    return cast("JsonObject", parse_json(files[path]))


def lines(files: Files, path: str) -> list[JsonObject]:
    """Return the documents of a JSON lines file."""
    return [cast("JsonObject", parse_json(line)) for line in files[path].splitlines()]


def with_document(files: Files, path: str, value: JsonValue) -> Files:
    """Return the files with another document at `path`."""
    return files | {path: canonical_line(value)}


def with_lines(files: Files, path: str, values: list[JsonObject]) -> Files:
    """Return the files with other lines at `path`."""
    return files | {path: b"".join(canonical_line(value) for value in values)}


def changed(files: Files, path: str, change: Callable[[JsonObject], object]) -> Files:
    """Return the files after `change` edited the document at `path` in place."""
    edited = document(files, path)
    change(edited)
    return with_document(files, path, edited)


def resealed(files: Files, effort: Effort) -> Files:
    """Return the files with everything made anew that `effort` says."""
    if effort is Effort.ALONE:
        return files
    forged = with_chain(files) if effort is Effort.CHAIN else files
    forged = forged | {"SHA256SUMS": sums(forged)}
    if effort >= Effort.CERTIFIED_HASH:
        forged = with_certified_hash(forged)
    return with_manifest(forged)


def with_chain(files: Files) -> Files:
    """Return the files with the chain made anew, if trail and certificate can be read."""
    raw_lines = files.get("audit_trail.jsonl", b"").splitlines()
    entries = [parse_or_none(raw) for raw in raw_lines]
    certificate = parse_or_none(files.get("certificate.json", b""))
    if not isinstance(certificate, dict) or not all(isinstance(one, dict) for one in entries):
        return files
    return rechained(files, cast("list[JsonObject]", entries))


def rechained(files: Files, entries: list[JsonObject]) -> Files:
    """Return the files with a trail of `entries`, its chain made anew and on the certificate."""
    head = "0" * 64
    chained: list[JsonObject] = []
    for seq, entry in enumerate(entries):
        linked = entry | {"seq": seq, "prev_entry_hash": head}
        linked.pop("entry_hash", None)
        head = hashlib.sha256(canonical_bytes(linked)).hexdigest()
        chained.append(linked | {"entry_hash": head})
    forged = with_lines(files, "audit_trail.jsonl", chained)
    return changed(forged, "certificate.json", lambda whole: whole.update(audit_head=head))


def records_of(files: Files) -> dict[int, JsonObject]:
    """Return the invocation records of a bundle with a file each, by episode."""
    return {
        int(name[-len("000000.json") : -len(".json")]): document(files, name)
        for name in files
        if name.startswith("invocations/")
    }


def with_records(files: Files, records: Mapping[int, JsonObject]) -> Files:
    """Return the files with exactly these records, and a trail that reports them in one batch.

    So a forger who knows the format leaves no trace but in what the records themselves say.
    """
    kept = {name: raw for name, raw in files.items() if not name.startswith("invocations/")}
    for seq, record in records.items():
        kept[f"invocations/episode_{seq:06d}.json"] = canonical_line(record)
    entries = lines(files, "audit_trail.jsonl")
    first = next(n for n, e in enumerate(entries) if e["event_type"] == "episodes_recorded")
    told = [entry for entry in entries if not str(entry["event_type"]).startswith("episode")]
    blank = entries[first] | {"event_type": "", "detail": None}
    reports = [blank | report for report in batch_reports(dict(sorted(records.items())))]
    return rechained(kept, [*told[:first], *reports, *told[first:]])


def batch_reports(records: Mapping[int, JsonObject]) -> list[JsonObject]:
    """Return the events of one batch: the records, then each failure and refusal."""
    statuses: dict[str, JsonValue] = dict.fromkeys(("success", "timeout", "error", "refused"), 0)
    troubles: list[JsonObject] = []
    for record in records.values():
        call = next(c for c in reversed(cast("list[Any]", record["calls"])) if c["repeat"] == 0)
        attempt = call["attempts"][-1]
        status = attempt["response"]["status"]
        statuses[status] = cast("int", statuses[status]) + 1
        if status != "success":
            detail: JsonObject = {name: record[name] for name in ("seq", "episode_id")}
            detail |= {name: call[name] for name in ("construct_id", "hop")}
            detail |= {name: attempt["response"][name] for name in ("status", "error_detail")}
            event = "episode_refused" if status == "refused" else "episode_failed"
            troubles.append({"event_type": event, "detail": detail | {"reason": attempt["reason"]}})
    raw = b"".join(canonical_line(record) for record in records.values())
    batch: JsonObject = {
        "seqs": [[seq, seq] for seq in records],
        "records_sha256": hashlib.sha256(raw).hexdigest(),
        # Of a journal that nobody else has ever seen.
        "journal_sha256": hashlib.sha256(raw).hexdigest(),
        "statuses": statuses,
    }
    return [{"event_type": "episodes_recorded", "detail": batch}, *troubles]


def sums(files: Files) -> bytes:
    """Return what SHA256SUMS has to be."""
    named = sorted((name.encode(), raw) for name, raw in files.items() if name not in _UNSUMMED)
    return b"".join(
        hashlib.sha256(raw).hexdigest().encode() + b"  " + n + b"\n" for n, raw in named
    )


def with_certified_hash(files: Files) -> Files:
    """Return the files with a certificate that names their bundle hash, if it can name one."""
    if "certificate.json" not in files:
        return files
    certificate = parse_or_none(files["certificate.json"])
    if not isinstance(certificate, dict) or "evidence_bundle_hash" not in certificate:
        return files
    hashes: JsonObject = {"evidence_bundle_hash": hashlib.sha256(files["SHA256SUMS"]).hexdigest()}
    if "episode_root" in certificate:
        with contextlib.suppress(ParseError, KeyError, TypeError, ValueError, IndexError):
            hashes["episode_root"] = episode_root(files)
    return with_document(files, "certificate.json", certificate | hashes)


def episode_root(files: Files) -> str:
    """Return the root over the salted lines of all episodes: with the coin any forger has them."""
    return tree_root([leaf for _, _, leaf in episode_leaves(files)]).hex()


def episode_leaves(files: Files) -> list[tuple[bytes, bytes, bytes]]:
    """Return salt, line and leaf of each episode, in the order of the dataset."""
    template: dict[str, Any] = document(files, "template.json")
    committed = {name: template[name] for name in ("dataset_hashes", "version_pins")}
    commitment = hashlib.sha256(canonical_bytes(committed | {"template": template})).hexdigest()
    entries: list[dict[str, Any]] = lines(files, "audit_trail.jsonl")
    nonce = bytes.fromhex(entries[2]["detail"].get("run_nonce", ""))
    key = hmac.digest(bytes.fromhex(files["coin.txt"].decode()), nonce, "sha256")
    labels: dict[Any, Any] = {}
    if "ground_truth/gold_labels.jsonl" in files:
        gold: list[dict[str, Any]] = lines(files, "ground_truth/gold_labels.jsonl")
        labels = {one["episode_id"]: one["label"] for one in gold}
    questions = files["ground_truth/dataset.jsonl"].removesuffix(b"\n").split(b"\n")
    results = files["scores/per_episode.jsonl"].split(b"\n")[: len(questions)]
    found = []
    for seq, (question, result) in enumerate(zip(questions, results, strict=True), 1):
        name = cast("Any", parse_json(question))["episode_id"]
        salt = hmac.digest(key, canonical_bytes(["salt", commitment, name]), "sha256")
        parts = (
            canonical_bytes(question.decode()),
            canonical_bytes(labels.get(name)),
            record_line(files, seq, len(questions)),
            result,
        )
        line = b'{"dataset_line":%b,"label":%b,"record":%b,"result":%b}' % parts
        found.append((salt, line, hashlib.sha256(b"\0" + salt + line).digest()))
    return found


def record_line(files: Files, seq: int, total: int) -> bytes:
    """Return the line of an episode's record, `null` where it has none."""
    if total <= 1000:
        raw = files.get(f"invocations/episode_{seq:06d}.json")
        return b"null" if raw is None else raw.removesuffix(b"\n")
    part, place = divmod(seq - 1, 1000)
    found = files.get(f"invocations/part-{part + 1:05d}.jsonl", b"").split(b"\n")[:-1]
    return found[place] if place < len(found) else b"null"


def tree_root(leaves: list[bytes]) -> bytes:
    """Return the root over leaf hashes as RFC 6962, 2.1, defines it."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = tree_root(leaves[:half]), tree_root(leaves[half:])
    return hashlib.sha256(b"\1" + left + right).digest()


def with_manifest(files: Files) -> Files:
    """Return the files with a manifest whose inventory, hash and id are right."""
    manifest = parse_or_none(files.get("manifest.json", b""))
    if not isinstance(manifest, dict):
        return files
    bundle_hash = hashlib.sha256(files["SHA256SUMS"]).hexdigest()
    inventory: list[JsonValue] = [
        {"path": name, "size_bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        for name, raw in sorted(files.items(), key=lambda item: item[0].encode())
        if name != "manifest.json"
    ]
    theatre = UUID(cast("str", manifest["theatre_id"]))
    derived: JsonObject = {
        "file_inventory": inventory,
        "bundle_hash": bundle_hash,
        "bundle_id": str(uuid5(theatre, bundle_hash)),
    }
    return with_document(files, "manifest.json", manifest | derived)


def parse_or_none(raw: bytes) -> JsonValue:
    """Return the value of strict JSON, None for anything else."""
    try:
        return parse_json(raw)
    except ParseError:
        return None


def check(
    folder: Path,
    *,
    scorers: Mapping[str, Scorer] = SCORERS,
    computations: Mapping[str, Computation] = COMPUTATIONS,
    runners: Mapping[str, EpisodeRunner] = RUNNERS,
    certificate: bytes | None = None,
    progress: Callable[[int], None] | None = None,
) -> CheckReport:
    """Check a folder with what is installed, or with what is given."""
    return check_bundle(
        folder,
        scorers,
        registry=REGISTRY,
        computations=computations,
        sanitiser=SANITISER,
        runners=runners,
        now=LATE,
        certificate=certificate,
        progress=progress,
    )


def failed_ids(report: CheckReport) -> set[str]:
    """Return the ids of the checks that failed."""
    return {line.id for line in report.failed}
