"""Verifications of summaries of changes: asked for, watched, and their certificates."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from backend.api.certificate_routes import certificate_summary
from backend.api.http.access_policy import (
    CurrentUser,
    for_owner,
    for_users,
    public,
    resource_router,
)
from backend.api.http.bodies import JSON, describe_body, json_body
from backend.api.http.conditional import FRESH, answer_not_modified, repr_digest
from backend.api.http.idempotency import Reading, Transaction
from backend.api.http.openapi import (
    DIGEST,
    ETAG,
    IF_NONE_MATCH,
    JOB_LOCATION,
    NOT_MODIFIED,
    describe_headers,
)
from backend.api.http.pages import FilterText, Listing, Paging
from backend.api.http.service import Admission, get_service
from backend.auth.credentials import Scope
from backend.schemas.verifications import (
    ReplayProgress,
    VerificationPage,
    VerificationRequest,
    VerificationStatus,
    VerifiedCertificate,
)
from backend.services.verifications import verifications

router = resource_router("verification")
_request_body = json_body(VerificationRequest)


async def addresses_of_endpoint(
    request: Request, body: Annotated[VerificationRequest, Depends(_request_body)]
) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the host that a request names, before a transaction begins."""
    places = [] if body.oracle.endpoint is None else [body.oracle.endpoint]
    return await get_service(request).resources.constructs.resolve_addresses(places)


_JOB = "/verification/status/{job_id}"
_GOES_ON = {
    operation: {"operationId": operation, "parameters": {"job_id": "$response.body#/job_id"}}
    for operation in ("get_verification_status", "cancel_verification", "get_verification_result")
}


@router.post(
    "/verification/run",
    status_code=202,
    response_model=VerificationStatus,
    responses={202: {"headers": JOB_LOCATION, "links": _GOES_ON}},
    openapi_extra=describe_body(VerificationRequest),
)
@for_users(
    Scope.WRITE,
    "construct-unknown",
    "endpoint-not-allowed",
    "address-not-allowed",
    "template-invalid",
    "dataset-unavailable",
)
async def run_verification(
    request: Request,
    user: CurrentUser,
    body: Annotated[VerificationRequest, Depends(_request_body)],
    found: Annotated[Mapping[str, Sequence[str]], Depends(addresses_of_endpoint)],
    transaction: Transaction,
) -> Response:
    """Read ground truth, commit to it, and score a construct that summarises changes against it."""
    verified = await verifications.request_verification(
        transaction,
        body,
        found,
        user_id=user.user_id,
        resources=get_service(request).resources,
    )
    job = f"/api/v1/verification/status/{verified.stored.id}"
    headers = {"Location": job, "Retry-After": "1"}
    return JSONResponse(_status(verified).model_dump(mode="json"), 202, headers=headers)


@router.get(_JOB)
@for_owner(Scope.READ, "not-found")
async def get_verification_status(
    user: CurrentUser, job_id: UUID, reading: Reading
) -> VerificationStatus:
    """Return how far a verification of yours is."""
    return _status(
        await verifications.read_verification(reading, str(job_id), user_id=user.user_id)
    )


@router.post("/verification/cancel/{job_id}", status_code=202)
@for_owner(Scope.WRITE, "not-found", "state-conflict", "invalid-transition")
async def cancel_verification(
    request: Request, user: CurrentUser, job_id: UUID, transaction: Transaction
) -> VerificationStatus:
    """Stop a verification of yours: at once before it is committed, after that as any run."""
    return _status(
        await verifications.cancel_verification(
            transaction,
            get_service(request).engine,
            str(job_id),
            user_id=user.user_id,
            resources=get_service(request).resources,
        )
    )


@router.get(
    "/verification/result/{job_id}",
    response_class=Response,
    responses={
        200: {
            "description": "The verification certificate, the same bytes as made of the bundle",
            "headers": {**ETAG, **DIGEST},
            "content": {JSON: {"schema": {"type": "object"}}},
        },
        **NOT_MODIFIED,
    },
    openapi_extra=describe_headers(IF_NONE_MATCH),
)
@for_owner(Scope.READ, "not-found", "invalid-transition")
async def get_verification_result(
    request: Request, user: CurrentUser, job_id: UUID, _turn: Admission, transaction: Transaction
) -> Response:
    """Return the verification certificate of a finished verification of yours."""
    document = await verifications.read_result(
        transaction, str(job_id), user_id=user.user_id, resources=get_service(request).resources
    )
    sha256 = hashlib.sha256(document).hexdigest()
    headers = {"ETag": f'"{sha256}"', "Repr-Digest": repr_digest(sha256)}
    return answer_not_modified(request, headers["ETag"]) or Response(
        document, media_type=JSON, headers=headers
    )


@router.get("/verification/certificates", response_model=VerificationPage)
@public()
async def list_verification_certificates(
    request: Request, reading: Reading, asked: Paging, *, construct_id: FilterText = None
) -> Response:
    """List the certificates that verifications have earned, the newest first."""
    service = get_service(request)
    listing = Listing("verification-certificates", (construct_id,))
    page = await verifications.list_verified(
        reading,
        asked.window(listing),
        construct_id=construct_id,
        resources=service.resources,
        now=service.clock(),
    )
    shown = VerificationPage(
        certificates=[
            VerifiedCertificate(
                **certificate_summary(view, worth).model_dump(),
                precision=view.stored.precision,
                recall=view.stored.recall,
                reply_accuracy=view.stored.reply_accuracy,
            )
            for view, worth in page.rows
        ],
        **asked.shown(listing, page, lambda last: last[0].place),
    )
    return JSONResponse(shown.model_dump(mode="json"), headers={"Cache-Control": FRESH})


def _status(verified: verifications.Verified) -> VerificationStatus:
    stored, theatre = verified.stored, verified.theatre
    outcome, reason = verified.ending
    replays = ReplayProgress(
        completed=theatre.progress if theatre else 0,
        total=theatre.total_episodes if theatre else 0,
        failures=theatre.failure_count if theatre else 0,
        refused=theatre.refused_count if theatre else 0,
    )
    return VerificationStatus.model_validate(
        {
            "job_id": stored.id,
            "phase": verified.phase,
            "records": stored.records,
            "replays": replays,
            "min_replays": stored.min_replays,
            "waits_until": None if theatre else stored.waits_until,
            "state": theatre.state if theatre else None,
            "outcome": outcome,
            "outcome_reason": reason,
            "error": theatre.error if theatre else stored.error,
            "commitment_hash": theatre.commitment_hash if theatre else None,
            "certificate_id": theatre.certificate_id if theatre else None,
            "created_at": stored.created_at,
            "updated_at": theatre.updated_at if theatre else stored.updated_at,
        }
    )
