"""Re-verifies everything that is stored: bundles, chains, certificates, rows against bytes, data.

What is trusted is the independent check and the certificate; nothing that is only a copy is. What
the store holds and nothing names is no damage (a crash leaves such objects): it is listed apart.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.errors import EvidenceDamagedError
from backend.evidence_store import Shelf
from backend.repositories.forgetting import kept_datasets
from backend.repositories.sealed_bundles import BundleArchive, bundle_of
from backend.repositories.stored_evidence import (
    certificate_of,
    named_bundles,
    one_moment,
    theatre_row,
    theatres_with_evidence,
    uploads,
)
from backend.services.resources import TheatreResources
from backend.services.row_check import Finding, RowCheck, Told
from backend.services.sealed_bundles import bring_bundle
from theatre.engine.bundle_check import check_bundle
from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import BundleError
from theatre.engine.evidence_bundle import bundle_name
from theatre.oracles.input_sanitiser import TextSanitiser


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What was looked at, and everything that differs."""

    theatres: int
    bundles: int
    objects: int
    findings: tuple[Finding, ...]
    unnamed: tuple[str, ...]
    """Keys of objects that no row names."""


class StoreCheck:
    """One pass over database and store. It blocks its loop: it is for a process of its own.

    Raises EvidenceStoreError where the store does not answer: then nothing is known.
    """

    def __init__(self, engine: AsyncEngine, resources: TheatreResources) -> None:
        self._engine = engine
        self._resources = resources
        self._findings: list[Finding] = []
        self._named: set[str] = set()
        self._bundles = 0

    async def run(self) -> StoreReport:
        """Check all of it."""
        async with one_moment(self._engine) as connection:
            theatres = await theatres_with_evidence(connection)
        for theatre_id in theatres:
            async with one_moment(self._engine) as connection:
                await self._check_theatre(connection, theatre_id)
        async with one_moment(self._engine) as connection:
            for sha256 in sorted(await uploads(connection)):
                self._verify(Shelf.DATASETS, sha256, f"upload {sha256}")
            named = await kept_datasets(connection)
            self._named |= {f"{Shelf.DATASETS}/{sha256}" for sha256 in named}
            bundles = await named_bundles(connection)
            self._named |= {f"{Shelf.BUNDLES}/{sha256}" for sha256 in bundles}
        store = self._resources.store
        there = {f"{shelf}/{one.name}" for shelf in Shelf for one in store.kept(shelf)}
        return StoreReport(
            theatres=len(theatres),
            bundles=self._bundles,
            objects=len(there),
            findings=tuple(self._findings),
            unnamed=tuple(sorted(there - self._named)),
        )

    async def _check_theatre(self, connection: AsyncConnection, theatre_id: str) -> None:
        theatre = await theatre_row(connection, theatre_id)
        rows = RowCheck(theatre)
        told = await rows.run(connection)
        certificate = await certificate_of(connection, theatre_id)
        if certificate is not None:
            rows.check_certificate(certificate)
        self._findings += rows.findings
        for sha256 in sorted({*(theatre["dataset_hashes"] or {}).values()}):
            self._verify(Shelf.DATASETS, sha256, f"theatre {theatre_id}")
        if told.export_sha256 is not None:
            self._verify(Shelf.EXPORTS, told.export_sha256, f"theatre {theatre_id}")
        archive = await bundle_of(connection, theatre_id)
        document = None if certificate is None else bytes(certificate["document"])
        if archive is not None:
            self._check_bundle(theatre_id, archive, document, told)
        elif document is not None:
            self._differs("bundle-unnamed", theatre_id, "a sealed bundle", "no row that names one")

    def _verify(self, shelf: Shelf, sha256: str, subject: str) -> bool:
        self._named.add(f"{shelf}/{sha256}")
        try:
            self._resources.store.verify(shelf, sha256)
        except EvidenceDamagedError as error:
            code = f"{shelf.value.removesuffix('s')}-{'damaged' if error.found else 'missing'}"
            expected = f"{shelf}/{sha256}"
            self._findings.append(Finding(code, subject, expected, error.found or "none"))
            return False
        return True

    def _check_bundle(
        self, theatre_id: str, archive: BundleArchive, document: bytes | None, told: Told
    ) -> None:
        self._bundles += 1
        if not self._verify(Shelf.BUNDLES, archive.sha256, f"theatre {theatre_id}"):
            return
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / bundle_name(theatre_id)
            bring_bundle(self._resources.store, archive, bundle)
            self._check_folder(theatre_id, bundle, document)
            sealed = parse_object((bundle / "audit_trail.jsonl").read_bytes().splitlines()[-1])
        if sealed["entry_hash"] not in told.heads:
            expected = f"the bundle's last audit entry {sealed['entry_hash']} in the rows"
            self._differs("chain-of-another-bundle", theatre_id, expected, "other entries")

    def _check_folder(self, theatre_id: str, bundle: Path, document: bytes | None) -> None:
        try:
            report = check_bundle(
                bundle,
                self._resources.scorers,
                registry=self._resources.schemas,
                computations=self._resources.computations,
                runners=self._resources.runners,
                sanitiser=TextSanitiser(),
                certificate=None if document is None else document + b"\n",
            )
        except BundleError as error:
            self._differs("bundle-invalid", theatre_id, "a bundle", str(error))
            return
        for check in (*report.failed, *report.unavailable):
            expected = f"check {check.id}: {check.expected}"
            self._differs("bundle-invalid", theatre_id, expected, str(check.actual))
        sealed = (bundle / "certificate.json").read_bytes()
        if document is not None and document + b"\n" != sealed:
            self._differs(
                "certificate-document", theatre_id, "the sealed certificate's bytes", "other bytes"
            )

    def _differs(self, code: str, theatre_id: str, expected: str, actual: str) -> None:
        self._findings.append(Finding(code, f"theatre {theatre_id}", expected, actual))
