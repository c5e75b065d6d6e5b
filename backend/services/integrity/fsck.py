"""Re-verifies everything that is stored: bundles, chains, certificates, rows against bytes, data.

Trusted are the independent check and the certificate, never a copy. An object that no row names is
no damage (a crash leaves such objects): it is listed apart.
"""

import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.errors import EvidenceDamagedError
from backend.evidence_store import EvidenceStore, ObjectKind
from backend.repositories.evidence_views import (
    BundleArchive,
    Row,
    certificate_of,
    find_bundle,
    find_named_bundles,
    list_theatre_ids,
    open_snapshot,
    stream_templates,
    theatre_row,
    uploads,
)
from backend.repositories.idempotency import find_referenced_datasets
from backend.repositories.judge_ledger import find_wrong_balances
from backend.repositories.theatres import template_row
from backend.services.integrity.log_check import check_service_log
from backend.services.integrity.row_check import ChainReading, Findings, RowCheck
from backend.services.resources import TheatreResources
from backend.services.sealed_bundles import fetch_bundle
from theatre.engine.bundle_check.check import check_bundle
from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import BundleError, TheatreError
from theatre.engine.evidence_bundle import bundle_name
from theatre.oracles.sanitise import TextSanitiser
from theatre.transparency.fsck import Finding

# Whether an object has the bytes of its name, and how many there are.


class Measured:
    """Counts the bytes and lines of an object; a last line without a line feed counts."""

    def __init__(self) -> None:
        self.size_bytes = self._feeds = 0
        self._last = b""

    def write(self, piece: memoryview, /) -> None:
        """Take the next bytes."""
        content = bytes(piece)
        self.size_bytes += len(content)
        self._feeds += content.count(b"\n")
        self._last = content[-1:] or self._last

    @property
    def lines_total(self) -> int:
        """Return how many lines there were."""
        return self._feeds + (self._last not in (b"", b"\n"))


class ObjectCheck:
    """Reads objects from the store itself and remembers which were asked for.

    Raises EvidenceStoreError where the store does not answer.
    """

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store
        self.named: set[str] = set()
        """The keys of everything that was to be verified."""

    def verify(self, kind: ObjectKind, sha256: str, findings: Findings) -> Measured | None:
        """Return what there is; None, and a finding, where it is missing or has other bytes."""
        key = f"{kind}/{sha256}"
        self.named.add(key)
        counted = Measured()
        try:
            self._store.verify(kind, sha256, counted)
        except EvidenceDamagedError as error:
            code = f"{kind.value.removesuffix('s')}-{'damaged' if error.found else 'missing'}"
            findings.add(code, key, error.found or "none")
            return None
        return counted


class Verdict(StrEnum):
    """What a pass says in one word."""

    INTACT = "intact"
    EMPTY = "empty"
    """No row was there to be held against anything: a database that was not restored, say."""
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What was checked, and every difference."""

    theatres: int
    templates: int
    uploads: int
    entries: int
    """Of the log."""
    bundles: int
    objects: int
    findings: tuple[Finding, ...]
    unnamed: tuple[str, ...]
    """Keys of objects that no row names."""

    @property
    def verdict(self) -> Verdict:
        """Return what it comes to; nothing checked is nothing found intact."""
        if self.findings:
            return Verdict.DAMAGED
        checked = self.theatres + self.templates + self.uploads + self.entries
        return Verdict.INTACT if checked else Verdict.EMPTY


class StoreCheck:
    """One pass over database and store. It blocks its event loop: run it in a separate process.

    Raises EvidenceStoreError where the store does not answer: the result is then unknown.
    """

    def __init__(self, engine: AsyncEngine, resources: TheatreResources) -> None:
        self._engine = engine
        self._resources = resources
        self._objects = ObjectCheck(resources.store)
        self._findings: list[Finding] = []
        self._bundles = 0

    async def run(self) -> StoreReport:
        """Check all of it."""
        async with open_snapshot(self._engine) as connection:
            theatres = await list_theatre_ids(connection)
        for theatre_id in theatres:
            async with open_snapshot(self._engine) as connection:
                await self._check_theatre(connection, theatre_id)
        async with open_snapshot(self._engine) as connection:
            templates = sent = 0
            async for row in stream_templates(connection):
                self._check_template(row)
                templates += 1
            async for row in uploads(connection):
                self._check_upload(row)
                sent += 1
            named = {
                f"{ObjectKind.DATASETS}/{one}" for one in await find_referenced_datasets(connection)
            }
            named |= {f"{ObjectKind.BUNDLES}/{one}" for one in await find_named_bundles(connection)}
        async with open_snapshot(self._engine) as connection:
            await self._check_balances(connection)
            logged = await check_service_log(connection)
        self._findings += logged.findings
        store = self._resources.store
        there = {f"{kind}/{one.name}" for kind in ObjectKind for one in store.list_objects(kind)}
        return StoreReport(
            theatres=len(theatres),
            templates=templates,
            uploads=sent,
            entries=len(logged.leaves),
            bundles=self._bundles,
            objects=len(there),
            findings=tuple(self._findings),
            unnamed=tuple(sorted(there - named - self._objects.named)),
        )

    async def _check_balances(self, connection: AsyncConnection) -> None:
        for one in await find_wrong_balances(connection):
            findings = Findings(f"budget {one.whose}")
            expected = f"reserved {one.reserved} and spent {one.spent}, the sums of its calls"
            actual = f"reserved {one.actual_reserved} and spent {one.actual_spent}"
            findings.add("judge-balance", expected, actual)
            self._findings += findings.all

    async def _check_theatre(self, connection: AsyncConnection, theatre_id: str) -> None:
        theatre = await theatre_row(connection, theatre_id)
        certificate = await certificate_of(connection, theatre_id)
        rows = RowCheck(theatre, certificate)
        chain = await rows.run(connection)
        findings = rows.findings
        for sha256 in sorted({*(theatre["dataset_hashes"] or {}).values()}):
            self._objects.verify(ObjectKind.DATASETS, sha256, findings)
        if chain.export_sha256 is not None:
            self._objects.verify(ObjectKind.EXPORTS, chain.export_sha256, findings)
        archive = await find_bundle(connection, theatre_id)
        document = None if certificate is None else bytes(certificate["document"])
        if archive is not None:
            self._check_bundle(theatre_id, archive, document, chain, findings)
        elif document is not None or chain.is_sealed:
            findings.add("bundle-unnamed", "a sealed bundle", "no row that names one")
        self._findings += findings.all

    def _check_template(self, row: Row) -> None:
        findings = Findings(f"template {row['sha256']}")
        try:
            expected = template_row(parse_object(bytes(row["document"])))
        except (TheatreError, KeyError) as error:
            findings.add("template-unreadable", "a template document", str(error))
        else:
            findings.compare("template-columns", "the template", expected, row)
        self._findings += findings.all

    def _check_upload(self, row: Row) -> None:
        findings = Findings(f"upload {row['sha256']}")
        measured = self._objects.verify(ObjectKind.DATASETS, str(row["sha256"]), findings)
        if measured is not None:
            lines = {"size_bytes": measured.size_bytes, "lines_total": measured.lines_total}
            findings.compare("upload-columns", "the upload", lines, row)
        self._findings += findings.all

    def _check_bundle(
        self,
        theatre_id: str,
        archive: BundleArchive,
        document: bytes | None,
        chain: ChainReading,
        findings: Findings,
    ) -> None:
        self._bundles += 1
        measured = self._objects.verify(ObjectKind.BUNDLES, archive.sha256, findings)
        if measured is None:
            return
        sizes = {"size_bytes": measured.size_bytes}
        findings.compare("bundle-columns", "the archive", sizes, archive._asdict())
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / bundle_name(theatre_id)
            fetch_bundle(self._resources.store, archive, bundle)
            self._check_folder(bundle, document, findings)
            sealed = parse_object((bundle / "audit_trail.jsonl").read_bytes().splitlines()[-1])
        if sealed["entry_hash"] not in chain.heads:
            expected = f"the bundle's last audit entry {sealed['entry_hash']} in the rows"
            findings.add("chain-of-another-bundle", expected, "other entries")

    def _check_folder(self, bundle: Path, document: bytes | None, findings: Findings) -> None:
        try:
            report = check_bundle(
                bundle,
                self._resources.scorers,
                registry=self._resources.schemas,
                computations=self._resources.computations,
                runners=self._resources.runners,
                sanitiser=TextSanitiser(),
                now=self._resources.clock(),
                certificate=None if document is None else document + b"\n",
            )
        except BundleError as error:
            findings.add("bundle-invalid", "a bundle", str(error))
            return
        for check in (*report.failed, *report.unavailable):
            expected = f"check {check.id}: {check.expected}"
            findings.add("bundle-invalid", expected, str(check.actual))
        sealed = (bundle / "certificate.json").read_bytes()
        if document is not None and document + b"\n" != sealed:
            findings.add("certificate-document", "the sealed certificate's bytes", "other bytes")
