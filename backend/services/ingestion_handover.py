"""From a request to ground truth, and from ground truth to a theatre whose run is queued."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncEngine

from backend.evidence_store import ObjectKind
from backend.repositories.datasets import StoredDataset, find_uploads, insert_upload
from backend.repositories.verifications import (
    StoredVerification,
    change_ingestion,
    lock_ingestion,
)
from backend.services.repository_access import GatheredRecords
from backend.services.resources import TheatreResources
from backend.services.runs import accept_run
from backend.services.theatres import commit_theatre, create_theatre, validate_template
from backend.services.uploaded_records import uploaded_records
from backend.services.verification_oracles import oracle_under_test, template_of
from backend.services.verification_wishes import (
    CloneRequest,
    GitHubRequest,
    UploadRequest,
    VerificationRequest,
)
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.errors import DatasetError, StateConflictError
from theatre.verification.dataset import dataset_lines
from theatre.verification.errors import RepositoryError, TooFewReplaysError
from theatre.verification.records import GroundTruthRecord

_UPLOAD = "the upload"


async def gather(
    engine: AsyncEngine,
    resources: TheatreResources,
    stored: StoredVerification,
    source: GitHubRequest | CloneRequest | UploadRequest,
    gathered: GatheredRecords,
) -> None:
    """Read the requested changes, until all are read or it is stopped.

    Raises RepositoryError, RateLimitedError, LongWaitError, DatasetError for an upload that is
    not the user's or holds no records, and EvidenceStoreError.
    """
    match source:
        case GitHubRequest():
            read = resources.repositories.read_pull_requests
            await asyncio.to_thread(read, source, stored.id, gathered)
        case CloneRequest():
            await asyncio.to_thread(resources.repositories.read_clone, source, gathered)
        case UploadRequest(sha256=sha256):
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
    template = await validate_template(template_of(request, oracle, dataset), {}, resources)
    now, user_id = resources.clock(), stored.user_id
    upload = StoredDataset(sha256_hex(dataset), len(dataset), len(records), now)
    async with engine.begin() as connection:
        if not await lock_ingestion(connection, stored.id, job_id=job_id, phase="ingesting"):
            raise StateConflictError(f"expected to hold job {job_id}, got it given to another")
        # The template may then name it, and clean-up leaves datasets that a template names.
        await insert_upload(connection, upload, user_id=user_id)
        await create_theatre(
            connection,
            engine,
            template,
            user_id=user_id,
            resources=resources,
            theatre_id=stored.id,
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
            ground_truth_path=None,
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


def _store_dataset(resources: TheatreResources, dataset: bytes) -> None:
    with resources.store.draft() as draft:
        draft.write_bytes(dataset)
        resources.store.put(ObjectKind.DATASETS, draft)
