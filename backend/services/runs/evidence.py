"""A run's evidence in the store: fetched before the run goes on, stored before rows name it.

Order of effects (docs/adr/0051): the archive of the sealed bundle is durable in the store, then the
event `sealed` is noted together with the row that names it, then the certificate. Whichever
machine goes on, it goes on from what was named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.evidence_store import ObjectKind
from backend.repositories.certificate_views import store_certificate
from backend.repositories.evidence_views import BundleArchive, find_bundle, insert_bundle
from backend.repositories.human_scores import copy_scores
from backend.services.resources import TheatreResources
from backend.services.sealed_bundles import fetch_bundle, pack_bundle
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import StateConflictError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.rlmf_export import RlmfExport

CERTIFIED = "certified"


class RunEvidence:
    """The evidence of one theatre's run, for the process that has claimed it.

    Everything raises EvidenceStoreError where store or disk take or give nothing now.
    """

    def __init__(self, theatre_id: str, resources: TheatreResources) -> None:
        self._theatre_id = theatre_id
        self._resources = resources
        self._archive: BundleArchive | None = None
        self.bundle = resources.folder_of(theatre_id) / bundle_name(theatre_id)
        """The sealed bundle on the desk of this machine, once there is one."""

    async def fetch(self, engine: AsyncEngine, datasets: Collection[str]) -> None:
        """Fetch to this machine what the run reads, and the bundle that was noted as sealed.

        A bundle that another machine has sealed replaces one that was sealed here and that no
        row names.
        """
        await asyncio.to_thread(self._resources.data.fetch, datasets)
        async with engine.connect() as connection:
            archive = await find_bundle(connection, self._theatre_id)
        if archive is not None:
            await asyncio.to_thread(fetch_bundle, self._resources.store, archive, self.bundle)

    async def store_bundle(self) -> None:
        """Make the sealed bundle durable, before the event that names it."""
        self._archive = await asyncio.to_thread(pack_bundle, self._resources.store, self.bundle)

    async def note(self, connection: AsyncConnection, event: AuditEvent) -> None:
        """Name what was kept, in the transaction of the event `sealed`."""
        if self._archive is None:
            raise StateConflictError("expected a bundle that was kept before it is noted, got none")
        at = parse_rfc3339(event.at)
        await insert_bundle(connection, self._theatre_id, self._archive, at=at)

    async def certify(self, connection: AsyncConnection, event: AuditEvent) -> None:
        """Store the certificate of the sealed bundle, in the transaction of `resolved`.

        It also adds copies of human scores that a crash after their entries has left out.
        """
        await copy_scores(connection, self._theatre_id)
        if event.detail["outcome"] == CERTIFIED:
            document = await asyncio.to_thread((self.bundle / "certificate.json").read_bytes)
            await store_certificate(connection, parse_object(document))

    async def store_export(self, export: RlmfExport) -> None:
        """Make the training records durable, before the event that names them."""
        await asyncio.to_thread(self._store_export, export)

    def _store_export(self, export: RlmfExport) -> None:
        with self._resources.store.draft() as draft:
            with draft.open("wb") as handle:
                for line in export.lines():
                    handle.write(line)
            self._resources.store.put(ObjectKind.EXPORTS, draft)
