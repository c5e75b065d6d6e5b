"""Additions to debates: events of open runs, and evaluations."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request
from starlette.responses import Response

from backend.api.bodies import describe_body, json_body
from backend.api.conditional import WantedVersions
from backend.api.debate_documents import debate_document, evaluation_document
from backend.api.debate_routes import RUN
from backend.api.declared_routes import CurrentUser, for_owner, resource_router
from backend.api.pages import Cursor, Limit, Listing, Offset, chain_page, parse_sequence
from backend.api.service import get_service
from backend.api.transactions import Transaction
from backend.api.turns import Admission
from backend.auth.principals import Scope
from backend.schemas.debates import (
    DebateDocument,
    DebateEventPage,
    EvaluationRequest,
    Evaluations,
    EventsRequest,
)
from backend.services import debate_evaluations, debates

DECLARED = {
    "list_debate_events": for_owner(Scope.READ, "not-found"),
    "append_debate_events": for_owner(
        Scope.WRITE, "not-found", "precondition-failed", "debate-closed", "debate-invalid"
    ),
    "evaluate_debate": for_owner(Scope.WRITE, "not-found"),
    "list_debate_evaluations": for_owner(Scope.READ, "not-found"),
}
router = resource_router("debates", DECLARED)
Artefact = Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$", description="an earlier one")]


@router.get(f"{RUN}/events", operation_id="list_debate_events", response_model=DebateEventPage)
async def list_debate_events(
    user: CurrentUser,
    debate_run_id: UUID,
    transaction: Transaction,
    *,
    limit: Limit = 100,
    offset: Offset = 0,
    cursor: Cursor = None,
) -> Response:
    """List the entries of a run's log, as they were hashed."""
    listing = Listing("debate-events", (str(debate_run_id),))
    lines, total = await debates.read_entries(
        transaction,
        str(debate_run_id),
        user_id=user.user_id,
        limit=limit,
        offset=offset,
        after=parse_sequence(cursor, listing),
    )
    return chain_page(
        lines, member="events", listing=listing, total=total, limit=limit, offset=offset
    )


@router.post(
    f"{RUN}/events",
    operation_id="append_debate_events",
    openapi_extra=describe_body(EventsRequest),
)
async def append_debate_events(
    request: Request,
    user: CurrentUser,
    debate_run_id: UUID,
    body: Annotated[EventsRequest, Depends(json_body(EventsRequest))],
    versions: WantedVersions,
    _turn: Admission,
    transaction: Transaction,
) -> DebateDocument:
    """Append events to a run that goes on, all or none; the log is never rewritten."""
    view = await debates.append_events(
        transaction,
        str(debate_run_id),
        [debates.NewEvent(one.event_type, one.detail) for one in body.events],
        user_id=user.user_id,
        versions=versions,
        clock=get_service(request).clock,
    )
    return debate_document(view)


@router.post(
    f"{RUN}/evaluations",
    operation_id="evaluate_debate",
    openapi_extra=describe_body(EvaluationRequest),
)
async def evaluate_debate(
    request: Request,
    user: CurrentUser,
    debate_run_id: UUID,
    body: Annotated[EvaluationRequest, Depends(json_body(EvaluationRequest))],
    _turn: Admission,
    transaction: Transaction,
) -> Evaluations:
    """Evaluate a run as it is now; the results are stored apart from the debate."""
    found = await debate_evaluations.run_evaluators(
        transaction,
        str(debate_run_id),
        body.evaluators,
        labels=body.labels,
        user_id=user.user_id,
        clock=get_service(request).clock,
    )
    return Evaluations(evaluations=[evaluation_document(one) for one in found])


@router.get(f"{RUN}/evaluations", operation_id="list_debate_evaluations")
async def list_debate_evaluations(
    user: CurrentUser,
    debate_run_id: UUID,
    transaction: Transaction,
    artefact_sha256: Artefact = None,
) -> Evaluations:
    """List what evaluators said of a run as it is now, or as an earlier artefact."""
    found = await debate_evaluations.read_evaluations(
        transaction, str(debate_run_id), user_id=user.user_id, artefact_sha256=artefact_sha256
    )
    return Evaluations(evaluations=[evaluation_document(one) for one in found])
