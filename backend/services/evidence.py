"""Evidence as it is handed out: the chain, the episodes, the sealed bundle and its files.

With `disclosure: hashes` all but the owner get neither the template nor an episode, and no bundle;
with `withheld` they get the published bundle, which has leaves for the episodes that it withholds.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.evidence_store import ObjectKind
from backend.repositories.evidence_views import (
    BundleArchive,
    DisclosedTheatre,
    EpisodeView,
    export_sha256,
    find_audit_entries,
    find_bundle,
    find_disclosed_theatre,
    find_episode,
    find_episodes,
)
from backend.repositories.pages import NumberedWindow, Page
from backend.schemas.evidence import EpisodeDocument, EpisodeRecord
from backend.services.resources import TheatreResources
from backend.services.runs.execution import EXPORT
from backend.services.sealed_bundles import (
    PROOFS,
    PublishedBundle,
    archive_with_proofs,
    open_bundle_file,
    proof_file,
    published_bundle,
)
from backend.services.transparency.publication import proofs_of
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import EpisodeResult
from theatre.files.published_bundle import EPISODES

_PRIVATE = ("coin.txt", "ground_truth/", "invocations/", "hitl/")
_TEMPLATE = ("template.json", "commitment_receipt.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    """A file to send, and the SHA-256 of its bytes; `is_final` where they never change."""

    path: Path
    name: str
    sha256: str
    is_public: bool
    is_final: bool = True


async def read_audit(
    connection: AsyncConnection, theatre_id: str, window: NumberedWindow, *, reader: str | None
) -> Page[bytes]:
    """Return a page of the audit chain, entry by canonical entry.

    NotFoundError for a reader who may not see it.
    """
    await _disclosed(connection, theatre_id, reader)
    return await find_audit_entries(connection, theatre_id, window)


async def read_episodes(
    connection: AsyncConnection,
    theatre_id: str,
    window: NumberedWindow,
    *,
    reader: str | None,
    resources: TheatreResources,
) -> Page[EpisodeDocument]:
    """Return a page of the episodes' results, those that are withheld among them.

    NotFoundError for a reader who may not see them.
    """
    theatre = await _disclosed(connection, theatre_id, reader)
    page = await find_episodes(connection, theatre_id, window)
    closed = await _closed(connection, theatre, page.rows, resources)
    shown = [
        EpisodeDocument.model_validate({**one._asdict(), "withheld": one.seq in closed})
        for one in page.rows
    ]
    return Page(shown, page.total)


async def read_episode(
    connection: AsyncConnection,
    theatre_id: str,
    episode_id: str,
    *,
    reader: str | None,
    resources: TheatreResources,
) -> EpisodeRecord:
    """Return an episode and its invocation record; NotFoundError where there is none to be seen."""
    theatre = await _disclosed(connection, theatre_id, reader)
    found = await find_episode(connection, theatre_id, episode_id)
    if found is None:
        raise NotFoundError(f"expected a recorded episode {episode_id[:100]!a}, got none")
    view, line = found
    withheld = view.seq in await _closed(connection, theatre, [view], resources)
    record = None if withheld else EpisodeResult.from_line(line).record.document
    return EpisodeRecord.model_validate({**view._asdict(), "withheld": withheld, "record": record})


async def _closed(
    connection: AsyncConnection,
    theatre: DisclosedTheatre,
    episodes: Sequence[EpisodeView],
    resources: TheatreResources,
) -> Collection[int]:
    """Return which episodes are withheld from the reader, by number; some of `episodes` may be."""
    if theatre.is_owner or theatre.disclosure == "public":
        return frozenset()
    published = await _published(connection, theatre, resources)
    return {one.seq for one in episodes} if published is None else published.closed


async def _published(
    connection: AsyncConnection, theatre: DisclosedTheatre, resources: TheatreResources
) -> PublishedBundle | None:
    """Return what others get of a bundle that withholds episodes; None where they get none."""
    archive = await find_bundle(connection, theatre.id)
    if theatre.disclosure != "withheld" or theatre.certificate_id is None or archive is None:
        return None
    return await asyncio.to_thread(published_bundle, resources.store, theatre.id, archive)


async def bundle_archive(
    connection: AsyncConnection, theatre_id: str, *, reader: str | None, resources: TheatreResources
) -> EvidenceFile:
    """Return the sealed bundle as one archive, with what the log shows of it in `proofs/`.

    The same bytes every time, once both entries are logged and the witnesses have signed.
    Who is not its owner gets the published one where episodes are withheld. NotFoundError where
    there is none for the reader.
    """
    theatre, archive = await _sealed(connection, theatre_id, reader)
    published = None
    if _withholds(theatre):
        published = await _published(connection, theatre, resources)
        if published is None:
            raise NotFoundError(f"expected an evidence bundle of theatre {theatre_id}, got none")
    proofs = await proofs_of(connection, theatre_id)
    path, sha256 = await asyncio.to_thread(
        archive_with_proofs, resources.store, theatre_id, archive, proofs, published
    )
    return EvidenceFile(
        path=path,
        name=f"{bundle_name(theatre_id)}.tar.gz",
        sha256=sha256,
        is_public=reader is None,
        is_final=False,
    )


async def bundle_file(
    connection: AsyncConnection,
    theatre_id: str,
    path: str,
    *,
    reader: str | None,
    resources: TheatreResources,
) -> EvidenceFile:
    """Return one file of the sealed bundle, looked up in its manifest, or one of `proofs/`.

    NotFoundError for any other.
    """
    theatre, archive = await _sealed(connection, theatre_id, reader)
    found = None
    is_proof = path.startswith(f"{PROOFS}/")
    if is_proof:
        proofs = await proofs_of(connection, theatre_id)
        found = await asyncio.to_thread(
            proof_file, resources.store, archive, proofs.get(path.removeprefix(f"{PROOFS}/"))
        )
    elif path == EPISODES and _withholds(theatre):
        published = await _published(connection, theatre, resources)
        found = None if published is None else published.episodes
    elif not path.startswith(_hidden(theatre)):
        found = await asyncio.to_thread(
            open_bundle_file, resources.store, theatre_id, archive, path
        )
    if found is None:
        raise NotFoundError(f"expected a file of the bundle, got {path[:100]!a}")
    return EvidenceFile(
        path=found[0],
        name=path.rpartition("/")[2],
        sha256=found[1],
        is_public=reader is None,
        is_final=not is_proof,
    )


async def training_export(
    connection: AsyncConnection, theatre_id: str, resources: TheatreResources
) -> EvidenceFile:
    """Return the training records of an archived theatre; NotFoundError before."""
    sha256 = await export_sha256(connection, theatre_id)
    if sha256 is None:
        raise NotFoundError(f"expected the export of an archived theatre {theatre_id}, got none")
    path = await asyncio.to_thread(resources.store.fetch, ObjectKind.EXPORTS, sha256)
    return EvidenceFile(path=path, name=EXPORT, sha256=sha256, is_public=True)


async def _disclosed(
    connection: AsyncConnection, theatre_id: str, reader: str | None
) -> DisclosedTheatre:
    theatre = await find_disclosed_theatre(connection, theatre_id, reader=reader)
    if theatre is None:
        raise NotFoundError(f"expected a theatre that may be seen, got {theatre_id}")
    return theatre


async def _sealed(
    connection: AsyncConnection, theatre_id: str, reader: str | None
) -> tuple[DisclosedTheatre, BundleArchive]:
    theatre = await _disclosed(connection, theatre_id, reader)
    archive = await find_bundle(connection, theatre_id)
    if theatre.certificate_id is None or archive is None:
        raise NotFoundError(f"expected an evidence bundle of theatre {theatre_id}, got none")
    return theatre, archive


def _withholds(theatre: DisclosedTheatre) -> bool:
    return not theatre.is_owner and theatre.disclosure != "public"


def _hidden(theatre: DisclosedTheatre) -> tuple[str, ...]:
    """Return how the names of files begin that the reader does not get."""
    if not _withholds(theatre):
        return ()
    # Where episodes are withheld, too: the coin salts them, and these files hold all of them.
    return _PRIVATE if theatre.disclosure == "withheld" else _PRIVATE + _TEMPLATE
