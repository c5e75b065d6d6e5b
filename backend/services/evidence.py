"""Evidence as it is handed out: the chain, the episodes, the sealed bundle and its files.

With `disclosure: hashes` ground truth and invocations stay with the owner (contract/template.md).
"""

from __future__ import annotations

import asyncio
import gzip
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.evidence_views import (
    DisclosedTheatre,
    EpisodeView,
    audit_entries,
    count_entries,
    count_episodes,
    disclosed_theatre,
    episode_of,
    episodes_of,
    export_sha256,
)
from backend.services.resources import TheatreResources
from backend.services.theatre_bridge import EXPORT
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import EpisodeResult

_MANIFEST = "manifest.json"
_ARCHIVE = "evidence_bundle.tar.gz"
_WITHHELD = ("ground_truth/", "invocations/")
_EPOCH = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """A file to send; `tag` names its content."""

    path: Path
    name: str
    tag: str
    is_public: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePage:
    """A page of evidence, and where it ends; None where it is the last one."""

    items: Sequence[Any]
    total: int
    last: int | None


async def read_audit(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    reader: str | None,
    limit: int,
    offset: int,
    after: int | None,
) -> EvidencePage:
    """Return a page of the audit chain; NotFoundError for who may not see it."""
    await _disclosed(connection, theatre_id, reader)
    lines = await audit_entries(connection, theatre_id, limit=limit, offset=offset, after=after)
    entries = [parse_object(line) for line in lines]
    last = cast("int", entries[-1]["seq"]) if len(entries) == limit else None
    return EvidencePage(items=entries, total=await count_entries(connection, theatre_id), last=last)


async def read_episodes(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    reader: str | None,
    limit: int,
    offset: int,
    after: int | None,
) -> EvidencePage:
    """Return a page of the episodes' results; NotFoundError for who may not see them."""
    await _disclosed(connection, theatre_id, reader)
    found: Sequence[EpisodeView] = await episodes_of(
        connection, theatre_id, limit=limit, offset=offset, after=after
    )
    last = found[-1].seq if len(found) == limit else None
    return EvidencePage(items=found, total=await count_episodes(connection, theatre_id), last=last)


async def read_episode(
    connection: AsyncConnection, theatre_id: str, episode_id: str, *, reader: str | None
) -> tuple[EpisodeView, JsonObject]:
    """Return an episode and its invocation record; NotFoundError where there is none to be seen."""
    theatre = await _disclosed(connection, theatre_id, reader)
    found = await episode_of(connection, theatre_id, episode_id)
    if found is None or _withholds(theatre):
        raise NotFoundError(f"expected a recorded episode {episode_id[:100]!a}, got none")
    view, line = found
    return view, EpisodeResult.from_line(line).record.document


async def bundle_archive(
    connection: AsyncConnection,
    theatre_id: str,
    *,
    reader: str | None,
    resources: TheatreResources,
) -> EvidenceFile:
    """Return the sealed bundle as one archive, the same bytes every time.

    NotFoundError where there is none, or where parts of it are withheld from the reader.
    """
    theatre = await _sealed(connection, theatre_id, reader)
    if _withholds(theatre):
        raise NotFoundError(f"expected an evidence bundle of theatre {theatre_id}, got none")
    folder = resources.folder_of(theatre_id)
    archive = folder / _ARCHIVE
    if not archive.is_file():
        await asyncio.to_thread(_pack, folder / bundle_name(theatre_id), archive)
    manifest = await asyncio.to_thread(_manifest, folder / bundle_name(theatre_id))
    return EvidenceFile(
        path=archive,
        name=f"{bundle_name(theatre_id)}.tar.gz",
        tag=f"{manifest['bundle_hash']}.tar.gz",
        is_public=reader is None,
    )


async def bundle_file(
    connection: AsyncConnection,
    theatre_id: str,
    path: str,
    *,
    reader: str | None,
    resources: TheatreResources,
) -> EvidenceFile:
    """Return one file of the sealed bundle, looked up in its manifest; else NotFoundError."""
    theatre = await _sealed(connection, theatre_id, reader)
    bundle = resources.folder_of(theatre_id) / bundle_name(theatre_id)
    manifest = await asyncio.to_thread(_manifest, bundle)
    inventory = cast("list[dict[str, str]]", manifest["file_inventory"])
    # Only names that the manifest has are ever joined to a folder.
    known = {entry["path"]: entry["sha256"] for entry in inventory}
    known[_MANIFEST] = f"{manifest['bundle_hash']}.manifest"
    if path not in known or (_withholds(theatre) and path.startswith(_WITHHELD)):
        raise NotFoundError(f"expected a file of the bundle, got {path[:100]!a}")
    return EvidenceFile(
        path=bundle / path, name=Path(path).name, tag=known[path], is_public=reader is None
    )


async def training_export(
    connection: AsyncConnection, theatre_id: str, resources: TheatreResources
) -> EvidenceFile:
    """Return the training records of an archived theatre; NotFoundError before."""
    tag = await export_sha256(connection, theatre_id)
    if tag is None:
        raise NotFoundError(f"expected the export of an archived theatre {theatre_id}, got none")
    return EvidenceFile(
        path=resources.folder_of(theatre_id) / EXPORT, name=EXPORT, tag=tag, is_public=True
    )


async def _disclosed(
    connection: AsyncConnection, theatre_id: str, reader: str | None
) -> DisclosedTheatre:
    theatre = await disclosed_theatre(connection, theatre_id, reader=reader)
    if theatre is None:
        raise NotFoundError(f"expected a theatre that may be seen, got {theatre_id}")
    return theatre


async def _sealed(
    connection: AsyncConnection, theatre_id: str, reader: str | None
) -> DisclosedTheatre:
    theatre = await _disclosed(connection, theatre_id, reader)
    if theatre.certificate_id is None:
        raise NotFoundError(f"expected an evidence bundle of theatre {theatre_id}, got none")
    return theatre


def _withholds(theatre: DisclosedTheatre) -> bool:
    return not theatre.is_owner and theatre.disclosure == "hashes"


def _manifest(bundle: Path) -> JsonObject:
    return parse_object((bundle / _MANIFEST).read_bytes())


def _pack(bundle: Path, target: Path) -> None:
    """Pack a bundle: names sorted, no times and no owners, so that it is always the same."""
    draft = target.with_name(f".{uuid4()}.partial")
    try:
        with (
            draft.open("wb") as raw,
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=_EPOCH) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
        ):
            for path in sorted(one for one in bundle.rglob("*") if one.is_file()):
                entry = tarfile.TarInfo(f"{bundle.name}/{path.relative_to(bundle).as_posix()}")
                entry.size, entry.mtime, entry.mode = path.stat().st_size, _EPOCH, 0o644
                with path.open("rb") as content:
                    archive.addfile(entry, content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
