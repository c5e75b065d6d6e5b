"""Runs: asked for, waited for, cancelled."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from backend.api.event_routes import DeferredResponse, seconds_to_wait
from backend.api.http.access_policy import CurrentUser, for_owner, resource_router
from backend.api.http.conditional import WantedVersions, version_etag
from backend.api.http.idempotency import Transaction
from backend.api.http.openapi import ETAG, LOCATION, PREFER, describe_headers, describe_links
from backend.api.http.service import Admission, Service, get_service
from backend.api.theatre_routes import describe_optional_body, optional_json_body, theatre_document
from backend.auth.credentials import Scope
from backend.repositories.theatre_runs import UNFINISHED
from backend.repositories.theatres import TheatreView
from backend.schemas.theatres import RunRequest, TheatreDocument
from backend.services.runs import runs

router = resource_router("runs")
_ACCEPTED = 202


@router.post(
    "/theatres/{theatre_id}/run",
    status_code=_ACCEPTED,
    response_model=TheatreDocument,
    responses={
        200: {
            "model": TheatreDocument,
            "description": "Over, or waiting for people or for its budget",
            "headers": {**LOCATION, **ETAG},
            "links": describe_links(
                "get_theatre_certificate",
                "list_audit_events",
                "list_episodes",
                "get_evidence_bundle",
                "get_replay",
                "get_rating",
            ),
        },
        202: {
            "headers": {**LOCATION, **ETAG},
            "links": describe_links("get_theatre", "cancel_theatre"),
        },
    },
    openapi_extra={**describe_optional_body(RunRequest), **describe_headers(PREFER)},
)
@for_owner(
    Scope.WRITE,
    "not-found",
    "state-conflict",
    "precondition-failed",
    "invalid-transition",
    "execution-path-unavailable",
    "programme-refused",
    "dataset-unavailable",
    "dataset-mismatch",
)
async def run_theatre(
    request: Request,
    user: CurrentUser,
    theatre_id: UUID,
    body: Annotated[RunRequest, Depends(optional_json_body(RunRequest))],
    versions: WantedVersions,
    _turn: Admission,
    transaction: Transaction,
) -> Response:
    """Run a COMMITTED theatre to its end; with `Prefer: wait=N` the answer waits for that.

    A run that is `waiting_budget` goes on as it began: nothing that was answered is asked again.
    """
    service = get_service(request)
    view = await runs.accept_run(
        transaction,
        str(theatre_id),
        user_id=user.user_id,
        versions=versions,
        is_certificate_run=(
            body.is_certificate_run if "is_certificate_run" in body.model_fields_set else None
        ),
        ground_truth_path=body.ground_truth_path,
        answers_path=body.answers_path,
        resources=service.resources,
    )
    return _accept_run(request, service, view, user_id=user.user_id)


@router.post(
    "/theatres/{theatre_id}/cancel",
    status_code=_ACCEPTED,
    response_model=TheatreDocument,
    responses={
        200: {
            "model": TheatreDocument,
            "description": "Cancelled",
            "headers": {**LOCATION, **ETAG},
        },
        202: {"headers": {**LOCATION, **ETAG}},
    },
    openapi_extra=describe_headers(PREFER),
)
@for_owner(Scope.WRITE, "not-found", "state-conflict", "precondition-failed", "invalid-transition")
async def cancel_theatre(
    request: Request,
    user: CurrentUser,
    theatre_id: UUID,
    versions: WantedVersions,
    transaction: Transaction,
) -> Response:
    """Resolve a theatre as void: at once before it has begun, else after what the run is doing."""
    service = get_service(request)
    view = await runs.cancel_run(
        transaction,
        service.engine,
        str(theatre_id),
        user_id=user.user_id,
        versions=versions,
        resources=service.resources,
    )
    return _accept_run(request, service, view, user_id=user.user_id)


@router.post("/theatres/{theatre_id}/settle", response_model=TheatreDocument)
@for_owner(
    Scope.WRITE, "not-found", "state-conflict", "invalid-transition", "execution-path-unavailable"
)
async def settle_theatre(
    user: CurrentUser, theatre_id: UUID, transaction: Transaction
) -> TheatreDocument:
    """Settle a market by hand: no release can do that yet."""
    return await runs.refuse_settling(transaction, str(theatre_id), user_id=user.user_id)


def _accept_run(request: Request, service: Service, view: TheatreView, *, user_id: str) -> Response:
    seconds = seconds_to_wait(request)
    shown = _shown(service, view)
    headers = {"Location": f"/api/v1/theatres/{view.id}", "ETag": version_etag(view.version)}
    if view.outcome is not None:
        return JSONResponse(shown, headers=headers)
    if not seconds:
        return JSONResponse(shown, _ACCEPTED, headers={**headers, "Retry-After": "1"})

    async def later() -> Response:
        now = await runs.until_idle(
            service.engine,
            service.change_listener,
            view.id,
            user_id=user_id,
            seconds=float(seconds),
            stopping=service.stopping,
        )
        is_over = now.run_status not in UNFINISHED
        applied = {"ETag": version_etag(now.version), "Preference-Applied": f"wait={seconds}"}
        return JSONResponse(_shown(service, now), 200 if is_over else _ACCEPTED, headers=applied)

    held = DeferredResponse(shown, later)
    held.headers.update({"Location": headers["Location"], "Retry-After": "1"})
    return held


def _shown(service: Service, view: TheatreView) -> object:
    return theatre_document(view, now=service.clock()).model_dump(mode="json")
