"""Verifications for their owner, and the public list of their certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.identifiers import new_id
from backend.jobs.queue import queue_ingestion
from backend.repositories.datasets import find_uploads
from backend.repositories.sealed_bundles import find_bundle
from backend.repositories.theatre_views import Place, TheatreView, find_theatre_view
from backend.repositories.verifications import (
    StoredVerification,
    VerifiedView,
    count_verified,
    end_ingestion,
    find_verification,
    find_verified_certificates,
    insert_verification,
)
from backend.services.certificates import CurrentStatus, current_status
from backend.services.resources import TheatreResources
from backend.services.runs import cancel_run
from backend.services.sealed_bundles import fetch_verified_bundle
from backend.services.verification_oracles import draft_of
from backend.services.verification_wishes import UploadRequest, VerificationRequest
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import DatasetError, InvalidTransitionError, NotFoundError
from theatre.verification.certificate import verification_certificate
from theatre.verification.errors import TooFewReplaysError

CANCELLED = "cancelled"
"""The error code of a verification that its owner cancelled before the commitment."""
_ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verification, and its theatre where it has one."""

    stored: StoredVerification
    theatre: TheatreView | None

    @property
    def phase(self) -> str:
        """Return its phase, in the words of the interface."""
        if self.theatre is None:
            return "finished" if self.stored.phase == "failed" else self.stored.phase
        if self.theatre.run_status in _ENDED:
            return "finished"
        return "committed" if self.theatre.run_status == "queued" else "replaying"

    @property
    def ending(self) -> tuple[str | None, str | None]:
        """Return outcome and reason; both None before it is finished, the reason also after.

        A theatre whose certificate is of fewer changes than were asked for is no verification.
        """
        if self.phase != "finished":
            return None, None
        theatre = self.theatre
        if theatre is None:
            code = self.stored.error_code
            return "void" if code == CANCELLED else "failed", code
        if theatre.outcome is None:
            # The run could not begin: the theatre stays COMMITTED.
            return "failed", (theatre.error or "").partition(":")[0] or None
        if theatre.outcome == "certified" and (self.stored.scored or 0) < self.stored.min_replays:
            return "no_certificate", TooFewReplaysError.code
        return theatre.outcome, theatre.outcome_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPage:
    """A page of certificates that verifications have earned, each with what it is worth now."""

    certificates: Sequence[tuple[VerifiedView, CurrentStatus]]
    total: int


async def request_verification(
    connection: AsyncConnection,
    document: JsonObject,
    found: Mapping[str, Sequence[str]],
    *,
    user_id: str,
    resources: TheatreResources,
) -> Verified:
    """Store a valid request, and queue the reading of its ground truth.

    `found` has the addresses of its endpoint. Raises UnknownConstructError, OutboundRefusedError,
    InvalidTemplateError for what could never be committed, and DatasetError for records that the
    user has not uploaded.
    """
    request = VerificationRequest.of(document)
    draft = draft_of(request, resources.constructs, found)
    await asyncio.to_thread(resources.require_valid, draft)
    if isinstance(request.source, UploadRequest):
        await _require_own(connection, request.source, user_id)
    now = resources.clock()
    verification_id = new_id(now)
    await insert_verification(
        connection,
        verification_id=verification_id,
        user_id=user_id,
        request=document,
        min_replays=request.min_replays,
        at=now,
    )
    await queue_ingestion(connection, verification_id)
    return await read_verification(connection, verification_id, user_id=user_id)


async def _require_own(connection: AsyncConnection, request: UploadRequest, user_id: str) -> None:
    if request.sha256 not in await find_uploads(connection, user_id):
        raise DatasetError("expected records that you have uploaded: POST /datasets")


async def read_verification(
    connection: AsyncConnection, verification_id: str, *, user_id: str
) -> Verified:
    """Return a user's verification; NotFoundError where it is not theirs."""
    stored = await find_verification(connection, verification_id, user_id=user_id)
    if stored is None:
        raise NotFoundError(f"expected verification {verification_id}, got none")
    # Read second: the theatre may have been created since the first read.
    theatre = await find_theatre_view(connection, verification_id, user_id=user_id)
    return Verified(stored=stored, theatre=theatre)


async def cancel_verification(
    connection: AsyncConnection,
    engine: AsyncEngine,
    verification_id: str,
    *,
    user_id: str,
    resources: TheatreResources,
) -> Verified:
    """Stop a user's verification: at once before it is committed, after that as any run.

    Raises NotFoundError where it is not theirs, and as `cancel_run` once it has a theatre;
    InvalidTransitionError for one that has ended without.
    """
    ended = await end_ingestion(
        connection,
        verification_id,
        user_id=user_id,
        error_code=CANCELLED,
        error="cancelled by its owner before anything was committed",
        at=resources.clock(),
    )
    verified = await read_verification(connection, verification_id, user_id=user_id)
    if ended:
        return verified
    if verified.theatre is None:
        raise InvalidTransitionError("the verification is finished: it cannot be cancelled")
    await cancel_run(
        connection, engine, verification_id, user_id=user_id, versions=None, resources=resources
    )
    return await read_verification(connection, verification_id, user_id=user_id)


async def read_result(
    connection: AsyncConnection,
    verification_id: str,
    *,
    user_id: str,
    resources: TheatreResources,
) -> bytes:
    """Return the verification certificate, made from the sealed bundle: the same bytes each time.

    Raises NotFoundError where it is not the user's, InvalidTransitionError where it has none.
    """
    verified = await read_verification(connection, verification_id, user_id=user_id)
    archive = await find_bundle(connection, verification_id)
    outcome, reason = verified.ending
    if outcome != "certified" or archive is None:
        ended = f"ended as {outcome} ({reason})" if outcome else f"is {verified.phase}"
        raise InvalidTransitionError(
            f"expected a verification that has earned its certificate, got one that {ended}"
        )
    bundle = await asyncio.to_thread(
        fetch_verified_bundle, resources.store, verification_id, archive
    )
    return await asyncio.to_thread(verification_certificate, bundle)


async def list_verified(
    connection: AsyncConnection,
    *,
    construct_id: str | None,
    accepted: Sequence[str],
    now: datetime,
    limit: int,
    offset: int,
    after: Place | None,
) -> VerifiedPage:
    """Return a page of the certificates that verifications have earned, the newest first."""
    views = await find_verified_certificates(
        connection,
        construct_id=construct_id,
        accepted=accepted,
        limit=limit,
        offset=offset,
        after=after,
    )
    return VerifiedPage(
        certificates=[(view, current_status(view.certificate, now)) for view in views],
        total=await count_verified(connection, construct_id=construct_id),
    )
