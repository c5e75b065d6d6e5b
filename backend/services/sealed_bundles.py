"""Sealed bundles as archives in the evidence store, packed and unpacked. Everything here blocks."""

import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple, cast
from uuid import uuid4

from backend.errors import EvidenceDamagedError, EvidenceStoreError
from backend.evidence_store import EvidenceStore, ObjectKind, sha256_at, sha256_of
from backend.repositories.evidence_views import BundleArchive
from theatre.cli.audits import salted_lines
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.published_bundle import EPISODES, publish_bundle, unpack_bundle
from theatre.transparency.errors import DisclosureError

MANIFEST = "manifest.json"
PROOFS = "proofs"
_EPOCH = 0
_PIECE_BYTES = 1024 * 1024


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
        unpack_bundle(store.fetch(ObjectKind.BUNDLES, archive.sha256), draft)
        if bundle.is_dir():
            # Moved aside first: a rename cannot replace a folder that is not empty.
            bundle.rename(old)
        draft.rename(bundle)
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
    found = _intact_file(bundle, path)
    if found is None:
        with _UNPACKING:
            # Another request may have unpacked it meanwhile, and reads what is there now.
            found = _intact_file(bundle, path)
            if found is None:
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


_UNPACKING = Lock()


def _intact_file(bundle: Path, path: str) -> tuple[Path, str] | None:
    found = _file_of(bundle, path) if bundle.is_dir() else None
    return None if found is None or sha256_at(found[0]) != found[1] else found


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


# What others get of a bundle that withholds episodes: made on this machine, never stored.


class PublishedBundle(NamedTuple):
    """The published form of a bundle: its archive, its `episodes.jsonl`, and what is withheld.

    Each file with its SHA-256; `closed` are numbers of episodes, from 1.
    """

    archive: tuple[Path, str]
    episodes: tuple[Path, str]
    closed: frozenset[int]


_PUBLISHED: dict[str, PublishedBundle] = {}
_PUBLISHING = Lock()
_AT_MOST = 200


def published_bundle(
    store: EvidenceStore, theatre_id: str, archive: BundleArchive
) -> PublishedBundle | None:
    """Return the published form of a sealed bundle; None for one that has none.

    A bundle with people's ratings has none: what they wrote would tell what is withheld.
    """
    with _PUBLISHING:
        known = _PUBLISHED.get(archive.sha256)
        if known is not None and all(
            sha256_at(path) == sha256 for path, sha256 in (known.archive, known.episodes)
        ):
            return known
        try:
            made = _publish(store, theatre_id, archive)
        except DisclosureError:
            return None
        while len(_PUBLISHED) >= _AT_MOST:
            del _PUBLISHED[next(iter(_PUBLISHED))]
        _PUBLISHED[archive.sha256] = made
        return made


def _publish(store: EvidenceStore, theatre_id: str, archive: BundleArchive) -> PublishedBundle:
    bundle = fetch_verified_bundle(store, theatre_id, archive)
    opened, lines = salted_lines(bundle)
    folder = store.unpacked / archive.sha256 / "published"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    closed = frozenset(opened.withheld())
    target = folder / bundle.name
    publish_bundle(bundle, target, lines, closed)
    _pack(target, folder / "bundle.tar.gz")
    (target / EPISODES).replace(folder / EPISODES)
    shutil.rmtree(target)
    files = [(folder / name, sha256_of(folder / name)) for name in ("bundle.tar.gz", EPISODES)]
    return PublishedBundle(files[0], files[1], closed)


def archive_with_proofs(
    store: EvidenceStore,
    theatre_id: str,
    archive: BundleArchive,
    proofs: Mapping[str, bytes],
    published: PublishedBundle | None = None,
) -> tuple[Path, str]:
    """Return an archive of a bundle with `proofs/`, on this machine, and its SHA-256.

    Of the sealed bundle, or of what is published of it.
    """
    folder = bundle_name(theatre_id)
    # Entries without an end, in front: of two gzip members the second goes on with the archive.
    front = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=front, mtime=_EPOCH) as packed:
        for name, data in sorted(proofs.items()):
            entry = _entry(f"{folder}/{PROOFS}/{name}", len(data))
            packed.write(entry.tobuf(tarfile.USTAR_FORMAT))
            packed.write(data.ljust(-(-len(data) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE, b"\0"))
    # Verified each time, and so is the whole: a copy on a disk may have been changed.
    if published is None:
        sealed, sha256 = store.fetch(ObjectKind.BUNDLES, archive.sha256), archive.sha256
    else:
        sealed, sha256 = published.archive
    expected = _sha256_of_both(front.getvalue(), sealed, sha256)
    whole = store.unpacked / archive.sha256 / f"{expected}.tar.gz"
    if sha256_at(whole) != expected:
        with store.draft() as draft:
            with draft.open("wb") as target, sealed.open("rb") as source:
                target.write(front.getvalue())
                shutil.copyfileobj(source, target)
            whole.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(whole)
    return whole, expected


@lru_cache(maxsize=256)
def _sha256_of_both(front: bytes, sealed: Path, _sha256: str) -> str:
    """Return the SHA-256 of what is in front and the sealed archive behind it."""
    digest = hashlib.sha256(front)
    with sealed.open("rb") as source:
        while piece := source.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def proof_file(
    store: EvidenceStore, archive: BundleArchive, data: bytes | None
) -> tuple[Path, str] | None:
    """Return a file of `proofs/` on this machine and its SHA-256; None for one that is not there.

    It is named by its hash: a bundle gets no file that its manifest lacks.
    """
    if data is None:
        return None
    sha256 = sha256_hex(data)
    place = store.unpacked / archive.sha256 / sha256
    if sha256_at(place) != sha256:
        with store.draft() as draft:
            draft.write_bytes(data)
            place.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(place)
    return place, sha256


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, _EPOCH, 0o644
    return entry


def _pack(bundle: Path, target: Path) -> None:
    """Pack a bundle: names sorted, no times and no owners, so that it is always the same."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=_EPOCH) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(one for one in bundle.rglob("*") if one.is_file()):
            name = f"{bundle.name}/{path.relative_to(bundle).as_posix()}"
            entry = _entry(name, path.stat().st_size)
            with path.open("rb") as content:
                archive.addfile(entry, content)
