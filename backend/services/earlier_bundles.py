"""Bundles that were sealed before archives were kept: taken into the store, and named.

Releases before revision 0008 of the database left bundle and export in the folder of the run, on
the machine that had sealed them. Whatever machine has one adopts it (docs/adr/0134).
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.evidence_store import ObjectKind, sha256_at
from backend.repositories.evidence_views import export_sha256
from backend.repositories.sealed_bundles import UnnamedBundle, adopt_bundle, unnamed_bundles
from backend.services.resources import TheatreResources
from backend.services.sealed_bundles import pack_bundle
from theatre.engine.bundle_check import check_bundle
from theatre.engine.errors import BundleError
from theatre.engine.evidence_bundle import bundle_name
from theatre.oracles.input_sanitiser import TextSanitiser

EXPORT = "rlmf_export.jsonl"
_log = logging.getLogger(__name__)


async def adopt_earlier_bundles(engine: AsyncEngine, resources: TheatreResources) -> int:
    """Keep and name what lies on this machine, passes its check and is named by no row.

    Return how many. What is not here, or is not what was certified, is left and logged.
    EvidenceStoreError where the store takes nothing now.
    """
    async with engine.connect() as connection:
        unnamed = await unnamed_bundles(connection)
    adopted = 0
    for one in unnamed:
        adopted += await _adopt(engine, resources, one)
    return adopted


async def _adopt(engine: AsyncEngine, resources: TheatreResources, one: UnnamedBundle) -> bool:
    folder = await asyncio.to_thread(_folder_with_bundle, resources, one)
    fields = {"fields": {"theatre_id": one.theatre_id}}
    if folder is None:
        _log.warning(
            "sealed bundle is not on this machine, or not what was certified", extra=fields
        )
        return False
    async with engine.connect() as connection:
        export = await export_sha256(connection, one.theatre_id)
    if export is not None:
        await asyncio.to_thread(_store_export, resources, folder / EXPORT, export)
    # The row is last: a folder of a run that a row names may be cleaned up.
    bundle = folder / bundle_name(one.theatre_id)
    archive = await asyncio.to_thread(pack_bundle, resources.store, bundle)
    async with engine.begin() as connection:
        await adopt_bundle(connection, one, archive)
    _log.info("sealed bundle adopted", extra=fields)
    return True


def _folder_with_bundle(resources: TheatreResources, one: UnnamedBundle) -> Path | None:
    for desk in resources.earlier_desks:
        folder = desk / one.theatre_id
        bundle = folder / bundle_name(one.theatre_id)
        if bundle.is_dir() and _is_what_was_certified(resources, bundle, one.document):
            return folder
    return None


def _is_what_was_certified(resources: TheatreResources, bundle: Path, document: bytes) -> bool:
    try:
        report = check_bundle(
            bundle,
            resources.scorers,
            registry=resources.schemas,
            computations=resources.computations,
            sanitiser=TextSanitiser(),
            now=resources.clock(),
            certificate=document + b"\n",
        )
    except BundleError:
        return False
    return report.consistent


def _store_export(resources: TheatreResources, export: Path, sha256: str) -> None:
    if sha256_at(export) == sha256:
        resources.store.put(ObjectKind.EXPORTS, export)
