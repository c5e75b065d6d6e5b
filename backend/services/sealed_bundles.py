"""Sealed bundles as archives in the evidence store, packed and unpacked. Everything here blocks."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from pathlib import Path
from typing import cast
from uuid import uuid4

from backend.errors import EvidenceDamagedError, EvidenceStoreError
from backend.evidence_store import EvidenceStore, ObjectKind, sha256_at, sha256_of
from backend.repositories.evidence_views import BundleArchive
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.evidence_bundle import bundle_name

MANIFEST = "manifest.json"
_EPOCH = 0


def pack_bundle(store: EvidenceStore, bundle: Path) -> BundleArchive:
    """Pack a sealed bundle and make the archive durable; the same bundle is the same archive."""
    with store.draft() as draft:
        _pack(bundle, draft)
        kept = store.put(ObjectKind.BUNDLES, draft)
    return BundleArchive(kept.name, kept.size_bytes)


def fetch_bundle(store: EvidenceStore, archive: BundleArchive, bundle: Path) -> None:
    """Put the bundle of an archive at `bundle`, in one step, in place of what is there."""
    draft = bundle.parent / f".{uuid4()}.unpacked"
    old = bundle.parent / f".{uuid4()}.replaced"
    try:
        _unpack(store.fetch(ObjectKind.BUNDLES, archive.sha256), draft)
        if bundle.is_dir():
            # Moved aside first: a rename cannot replace a folder that is not empty.
            bundle.rename(old)
        (draft / bundle.name).rename(bundle)
    except OSError as error:
        raise EvidenceStoreError(
            f"expected room to unpack a sealed bundle, got {error.strerror}"
        ) from error
    finally:
        for folder in (draft, old):
            shutil.rmtree(folder, ignore_errors=True)


def fetch_verified_bundle(store: EvidenceStore, theatre_id: str, archive: BundleArchive) -> Path:
    """Return the folder of a bundle, unpacked on this machine; every file is as its manifest says.

    EvidenceDamagedError where the archive itself disagrees with its manifest.
    """
    manifest, _ = cast("tuple[Path, str]", open_bundle_file(store, theatre_id, archive, MANIFEST))
    document = parse_object(manifest.read_bytes())
    for entry in cast("list[dict[str, str]]", document["file_inventory"]):
        # Brings the archive where a file differs from it.
        open_bundle_file(store, theatre_id, archive, entry["path"])
    return manifest.parent


def open_bundle_file(
    store: EvidenceStore, theatre_id: str, archive: BundleArchive, path: str
) -> tuple[Path, str] | None:
    """Return a verified file of a bundle and its SHA-256; None for what its manifest lacks."""
    bundle = store.unpacked / archive.sha256 / bundle_name(theatre_id)
    found = _file_of(bundle, path) if bundle.is_dir() else None
    if found is None or sha256_at(found[0]) != found[1]:
        # Not unpacked yet, or changed since: the archive decides.
        fetch_bundle(store, archive, bundle)
        found = _file_of(bundle, path)
    if found is not None and (sha256 := sha256_at(found[0])) != found[1]:
        raise EvidenceDamagedError(
            f"expected the sealed bundle of theatre {theatre_id} to agree with its manifest, got "
            "other bytes",
            found=sha256,
        )
    return found


def _file_of(bundle: Path, path: str) -> tuple[Path, str] | None:
    manifest = bundle / MANIFEST
    if not manifest.is_file():
        return None
    if path == MANIFEST:
        return manifest, sha256_of(manifest)
    document: JsonObject = parse_object(manifest.read_bytes())
    inventory = cast("list[dict[str, str]]", document["file_inventory"])
    # Only names in the manifest are joined to a folder: a path must not lead out of it.
    known = {entry["path"]: entry["sha256"] for entry in inventory}
    return (bundle / path, known[path]) if path in known else None


def _pack(bundle: Path, target: Path) -> None:
    """Pack a bundle: names sorted, no times and no owners, so that it is always the same."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=_EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(one for one in bundle.rglob("*") if one.is_file()):
            entry = tarfile.TarInfo(f"{bundle.name}/{path.relative_to(bundle).as_posix()}")
            entry.size, entry.mtime, entry.mode = path.stat().st_size, _EPOCH, 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    with tarfile.open(archive, mode="r:gz") as packed:
        packed.extractall(folder, filter="data")
