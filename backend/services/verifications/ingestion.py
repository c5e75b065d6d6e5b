"""One job's attempt at a verification's ground truth: read, committed to, and the run queued.

Draft, commitment and queued run are one transaction, under the job's number. So a lost attempt
leaves nothing behind, and one that was only paused can hand nothing over (docs/adr/0150).
"""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.errors import BackendError
from backend.evidence_store import ObjectKind
from backend.jobs.queue import queue_ingestion
from backend.repositories.theatres import StoredDataset, find_uploads, insert_upload
from backend.repositories.verifications import (
    StoredVerification,
    change_ingestion,
    claim_ingestion,
    is_over,
    lock_ingestion,
)
from backend.schemas.verifications import (
    CloneSource,
    GitHubSource,
    RecordsSource,
    VerificationRequest,
)
from backend.services.datasets import uploaded_records
from backend.services.resources import TheatreResources
from backend.services.runs.completion import is_transient, strip_paths
from backend.services.runs.runs import accept_run
from backend.services.theatres import commit_theatre, create_theatre, validate_template
from backend.services.verifications.repository_access import GatheredRecords, LongWaitError
from backend.services.verifications.verifications import oracle_under_test, template_of
from backend.settings import Settings
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.errors import DatasetError, StateConflictError, TheatreError
from theatre.engine.scoring.measure_policy import Qualification
from theatre.verification.errors import RateLimitedError, RepositoryError, TooFewReplaysError
from theatre.verification.records import GroundTruthRecord, dataset_lines

# From a request to ground truth, and from ground truth to a theatre whose run is queued.


_UPLOAD = "the upload"


async def gather(
    engine: AsyncEngine,
    resources: TheatreResources,
    stored: StoredVerification,
    source: GitHubSource | CloneSource | RecordsSource,
    gathered: GatheredRecords,
) -> None:
    """Read the requested changes, until all are read or it is stopped.

    Raises RepositoryError, RateLimitedError, LongWaitError, DatasetError for an upload that is
    not the user's or holds no records, and EvidenceStoreError.
    """
    match source:
        case GitHubSource():
            read = resources.repositories.read_pull_requests
            await asyncio.to_thread(read, source, stored.id, gathered)
        case CloneSource():
            await asyncio.to_thread(resources.repositories.read_clone, source, gathered)
        case RecordsSource(sha256=sha256):
            async with engine.connect() as connection:
                uploads = await find_uploads(connection, stored.user_id)
            if sha256 not in uploads:
                raise DatasetError("expected an upload of this user, got another")
            await asyncio.to_thread(_read_upload, resources, sha256, gathered)


async def commit_and_queue(
    engine: AsyncEngine,
    resources: TheatreResources,
    stored: StoredVerification,
    job_id: int,
    request: VerificationRequest,
    records: Sequence[GroundTruthRecord],
) -> None:
    """Make the theatre of a verification, commit it and queue its run: all of it, or nothing.

    Raises RepositoryError for no changes and TooFewReplaysError for fewer than are asked for,
    before any call; StateConflictError where another job has the verification; and what
    `oracle_under_test`, `commit_theatre` and `accept_run` raise.
    """
    if not records:
        raise RepositoryError("expected changes that fit what is asked for, got none")
    if len(records) < request.min_replays:
        raise TooFewReplaysError(
            f"expected at least {request.min_replays} changes (min_replays), got {len(records)}; "
            "no construct was called"
        )
    seconds = request.timeout_seconds
    oracle = await oracle_under_test(request.oracle, resources.constructs, seconds=seconds)
    dataset = await asyncio.to_thread(dataset_lines, records)
    await asyncio.to_thread(_store_dataset, resources, dataset)
    named = template_of(
        request,
        oracle,
        dataset,
        changes=len(records),
        qualification=await asyncio.to_thread(_read_qualification, resources, request),
    )
    template = await validate_template(named, {}, resources)
    now, user_id = resources.clock(), stored.user_id
    upload = StoredDataset(sha256_hex(dataset), len(dataset), len(records), now)
    async with engine.begin() as connection:
        if not await lock_ingestion(connection, stored.id, job_id=job_id, phase="ingesting"):
            raise StateConflictError(f"expected to hold job {job_id}, got it given to another")
        # The template may then name it, and clean-up leaves datasets that a template names.
        await insert_upload(connection, upload, user_id=user_id)
        await create_theatre(
            connection, engine, template, user_id=user_id, resources=resources, theatre_id=stored.id
        )
        await commit_theatre(
            connection,
            engine,
            stored.id,
            user_id=user_id,
            versions=None,
            expected_hash=None,
            resources=resources,
        )
        await accept_run(
            connection,
            stored.id,
            user_id=user_id,
            versions=None,
            is_certificate_run=True,
            resources=resources,
        )
        await change_ingestion(
            connection,
            stored.id,
            job_id=job_id,
            phase="handed_over",
            records=len(records),
            updated_at=now,
        )


def _read_upload(resources: TheatreResources, sha256: str, gathered: GatheredRecords) -> None:
    dataset = resources.data.open(_UPLOAD, sha256=sha256)
    try:
        gathered.take_all(uploaded_records(dataset))
    finally:
        dataset.close()


def _read_qualification(
    resources: TheatreResources, request: VerificationRequest
) -> Qualification | None:
    """Return the uploaded qualification of a judge; QualificationError for another upload.

    Whose key signed it is looked at when it is committed to.
    """
    named = None if request.judge is None else request.judge.qualification_sha256
    if named is None:
        return None
    with contextlib.closing(resources.data.open(_UPLOAD, sha256=named)) as dataset:
        return Qualification.read(dataset.lines(), sha256=None)


def _store_dataset(resources: TheatreResources, dataset: bytes) -> None:
    with resources.store.draft() as draft:
        draft.write_bytes(dataset)
        resources.store.put(ObjectKind.DATASETS, draft)


MAX_LOST_WORKERS = 5
"""An ingestion that loses so many workers ends as failed."""
LONGEST_INGESTION = timedelta(hours=6)
"""The most time from the request to the commitment; no wait for a limit may end later."""
_RETRY_SECONDS = 5.0
_BEATS_IN_A_LEASE = 4
_log = logging.getLogger(__name__)


class IngestionAttempts:
    """What one process does with jobs of the queue `ingestions`."""

    def __init__(
        self, engine: AsyncEngine, resources: TheatreResources, settings: Settings
    ) -> None:
        self._engine = engine
        self._resources = resources
        self._beat = settings.lease_seconds / _BEATS_IN_A_LEASE
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Stop every reading, and let no other begin."""
        self._draining.set()

    async def attempt(self, verification_id: str, job_id: int) -> None:
        """Do a job; one that its verification does not wait for does nothing.

        Raises the database's error in a long outage; the rescue goes on from there.
        """
        if self._draining.is_set():
            await self._requeue(verification_id, job_id, phase="queued")
            return
        at = self._resources.clock()
        async with self._engine.begin() as connection:
            stored = await claim_ingestion(connection, verification_id, job_id=job_id, at=at)
        if stored is None:
            await self._clean_up(verification_id)
            return
        try:
            await self._carry(stored, job_id)
        except StateConflictError as error:
            _log.info("ingestion is another's", extra=_fields(stored, detail=str(error)))
            await self._clean_up(stored.id)
        except asyncio.CancelledError:
            await asyncio.shield(self._requeue(stored.id, job_id))
            raise

    async def _carry(self, stored: StoredVerification, job_id: int) -> None:
        try:
            if stored.lost_workers >= MAX_LOST_WORKERS:
                detail = f"expected a worker to outlive it, got {stored.lost_workers} lost"
                await self._fail(stored, job_id, "workers-lost", detail)
                return
            request = VerificationRequest.read(stored.request)
            gathered = GatheredRecords()
            if await self._read(stored, job_id, request, gathered):
                await self._record_progress(stored, job_id, len(gathered.records))
                await commit_and_queue(
                    self._engine, self._resources, stored, job_id, request, gathered.records
                )
                await asyncio.to_thread(self._remove_readings, stored.id)
            else:
                await self._requeue(stored.id, job_id)
        except LongWaitError as wait:
            await self._wait(stored, job_id, wait.seconds)
        except StateConflictError:
            raise
        except Exception as error:  # noqa: BLE001 - every failure must end in the row
            await self._refuse(stored, job_id, error)

    async def _read(
        self,
        stored: StoredVerification,
        job_id: int,
        request: VerificationRequest,
        gathered: GatheredRecords,
    ) -> bool:
        """Gather the ground truth; False where it was stopped before. Errors as `gather`.

        StateConflictError once another job has it: this one must read no further.
        """
        reading = asyncio.create_task(
            gather(self._engine, self._resources, stored, request.source, gathered)
        )
        draining = asyncio.create_task(self._draining.wait())
        try:
            while not (reading.done() or draining.done()):
                await asyncio.wait(
                    [reading, draining], timeout=self._beat, return_when=asyncio.FIRST_COMPLETED
                )
                # A database outage does not mean that the job is lost: try again.
                with contextlib.suppress(SQLAlchemyError, OSError):
                    await self._record_progress(stored, job_id, len(gathered.records))
        finally:
            gathered.stopping.set()
            is_read = reading.done()
            reading.cancel()
            draining.cancel()
            await asyncio.wait([reading, draining])
        if is_read:
            reading.result()
        return is_read

    async def _record_progress(self, stored: StoredVerification, job_id: int, records: int) -> None:
        """Store the progress; StateConflictError where another job has it now."""
        async with self._engine.begin() as connection:
            is_own = await change_ingestion(
                connection,
                stored.id,
                job_id=job_id,
                records=records,
                updated_at=self._resources.clock(),
            )
        if not is_own:
            raise StateConflictError(f"expected to hold job {job_id}, got it given to another")

    async def _refuse(self, stored: StoredVerification, job_id: int, error: Exception) -> None:
        async with self._engine.begin() as connection:
            if not await lock_ingestion(connection, stored.id, job_id=job_id, phase="ingesting"):
                # The job that has it now may have removed what this attempt missed.
                raise StateConflictError(f"expected to hold job {job_id}, got it given to another")
        if is_transient(error):
            _log.warning("ingestion waits for its store", exc_info=error, extra=_fields(stored))
            await self._wait(stored, job_id, _RETRY_SECONDS, error)
        elif isinstance(error, (TheatreError, BackendError)):
            _log.warning("ingestion refused", extra=_fields(stored, code=error.code))
            await self._fail(stored, job_id, error.code, str(error))
        elif isinstance(error, (SQLAlchemyError, OSError)):
            # The database is away, or another passing failure: the rescue finds the row as it
            # is, and counts the losses.
            raise error
        else:
            _log.error("ingestion failed", exc_info=error, extra=_fields(stored))
            await self._fail(stored, job_id, "internal-error", type(error).__name__)

    async def _wait(
        self,
        stored: StoredVerification,
        job_id: int,
        seconds: float,
        error: Exception | None = None,
    ) -> None:
        """Go on in another attempt; fail where that would end too late."""
        until = self._resources.clock() + timedelta(seconds=seconds)
        code = RateLimitedError.code if error is None else getattr(error, "code", "evidence-disk")
        reason = "GitHub's limit is reached" if error is None else strip_paths(str(error))
        if until > stored.created_at + LONGEST_INGESTION:
            await self._fail(stored, job_id, code, f"{reason}, for longer than this may take")
            return
        async with self._engine.begin() as connection:
            if await change_ingestion(
                connection,
                stored.id,
                job_id=job_id,
                waits_until=until,
                error_code=code,
                error=reason,
                updated_at=self._resources.clock(),
            ):
                await queue_ingestion(connection, stored.id, at=until)

    async def _requeue(
        self, verification_id: str, job_id: int, *, phase: str = "ingesting"
    ) -> None:
        """Queue it again for any free worker, unless another job has it."""
        async with self._engine.begin() as connection:
            if await lock_ingestion(connection, verification_id, job_id=job_id, phase=phase):
                await queue_ingestion(connection, verification_id)

    async def _fail(self, stored: StoredVerification, job_id: int, code: str, detail: str) -> None:
        async with self._engine.begin() as connection:
            await change_ingestion(
                connection,
                stored.id,
                job_id=job_id,
                phase="failed",
                error_code=code,
                error=strip_paths(detail),
                updated_at=self._resources.clock(),
            )
        await asyncio.to_thread(self._remove_readings, stored.id)

    async def _clean_up(self, verification_id: str) -> None:
        """Remove what was read for a verification that was cancelled, or that another job ended."""
        async with self._engine.connect() as connection:
            over = await is_over(connection, verification_id)
        if over:
            await asyncio.to_thread(self._remove_readings, verification_id)

    def _remove_readings(self, verification_id: str) -> None:
        """Remove what was cached for a second attempt. Blocks."""
        folder = self._resources.repositories.folder_of(verification_id)
        shutil.rmtree(folder, ignore_errors=True)


def _fields(stored: StoredVerification, **more: str) -> dict[str, dict[str, str]]:
    return {"fields": {"verification_id": stored.id, **more}}
