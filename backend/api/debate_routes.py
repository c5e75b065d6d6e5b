"""Debates: submit, extend, read as of any event, evaluate."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request
from starlette.responses import JSONResponse, Response

from backend.api.http.access_policy import CurrentUser, for_owner, for_users, resource_router
from backend.api.http.bodies import (
    JSON,
    describe_body,
    json_body,
    require_media_type,
    strict_object,
)
from backend.api.http.conditional import (
    WantedVersions,
    answer_not_modified,
    repr_digest,
    version_etag,
)
from backend.api.http.idempotency import Reading, Transaction
from backend.api.http.openapi import (
    DEBATE_LOCATION,
    ETAG,
    describe_immutable,
    describe_links,
    describe_tagged,
)
from backend.api.http.pages import ChainPaging, FilterText, Listing, Paging, chain_page
from backend.api.http.service import Admission, get_service
from backend.auth.credentials import Scope
from backend.repositories.debates import StoredEvaluation, find_runs
from backend.repositories.pages import Place
from backend.schemas.debates import (
    DebateDocument,
    DebateEventPage,
    DebatePage,
    EvaluationDocument,
    EvaluationRequest,
    Evaluations,
    EventsRequest,
)
from backend.services import debates
from theatre.engine.canonical_json import MAX_INPUT_DEPTH, parse_object, sha256_hex


def evaluation_document(one: StoredEvaluation) -> EvaluationDocument:
    """Return the document of what an evaluator said."""
    columns = {name: value for name, value in one._asdict().items() if name != "document"}
    return EvaluationDocument(**columns, evaluation=parse_object(one.document))


router = resource_router("debates")
RUN = "/debates/{debate_run_id}"
"""Where a run is, and below it what belongs to it."""
_ARTEFACT = {
    "required": True,
    "content": {
        JSON: {"schema": {"type": "object", "description": "an artefact, as docs/debate.md has it"}}
    },
}
Events = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="as of so many events")]


async def artefact_body(request: Request) -> bytes:
    """Return the body of a submission: its very bytes, which are strict JSON."""
    require_media_type(request, JSON)
    body = await request.body()
    strict_object(body, max_depth=MAX_INPUT_DEPTH)
    return body


@router.post(
    "/debates",
    status_code=201,
    response_model=DebateDocument,
    responses={
        200: {"model": DebateDocument, "description": "These bytes were submitted before"},
        201: {
            "headers": {**DEBATE_LOCATION, **ETAG},
            "links": describe_links("get_debate", "evaluate_debate", named="debate_run_id"),
        },
    },
    openapi_extra={"requestBody": _ARTEFACT},
)
@for_users(Scope.WRITE, "debate-invalid", "debate-exists")
async def submit_debate(
    request: Request,
    user: CurrentUser,
    body: Annotated[bytes, Depends(artefact_body)],
    _turn: Admission,
    transaction: Transaction,
    *,
    goes_on: Annotated[bool, Query(description="leave the run open for further events")] = False,
) -> Response:
    """Store a run of a debate by its artefact; its bytes are kept as they came."""
    view, is_new = await debates.submit_debate(
        transaction, body, goes_on=goes_on, user_id=user.user_id, clock=get_service(request).clock
    )
    headers = {"Location": f"/api/v1/debates/{view.id}", "ETag": version_etag(view.version)}
    shown = DebateDocument.model_validate(view).model_dump(mode="json")
    return JSONResponse(shown, 201 if is_new else 200, headers=headers)


@router.get("/debates")
@for_owner(Scope.READ)
async def list_debates(
    user: CurrentUser,
    transaction: Transaction,
    asked: Paging,
    *,
    debate_id: FilterText = None,
    run_id: FilterText = None,
) -> DebatePage:
    """List your runs of debates, the newest first."""
    listing = Listing("debates", (user.user_id, debate_id, run_id))
    page = await find_runs(
        transaction,
        asked.window(listing),
        user_id=user.user_id,
        debate_id=debate_id,
        run_id=run_id,
    )
    return DebatePage(
        debates=[DebateDocument.model_validate(view) for view in page.rows],
        **asked.shown(listing, page, lambda last: Place(last.created_at, last.id)),
    )


@router.get(RUN, response_model=DebateDocument, **describe_tagged())
@for_owner(Scope.READ, "not-found")
async def get_debate(
    request: Request, user: CurrentUser, debate_run_id: UUID, reading: Reading
) -> Response:
    """Return a run of yours, and the hashes of what it is now."""
    view = await debates.read_run(reading, str(debate_run_id), user_id=user.user_id)
    etag = version_etag(view.version)
    return answer_not_modified(request, etag) or JSONResponse(
        DebateDocument.model_validate(view).model_dump(mode="json"), headers={"ETag": etag}
    )


@router.get(
    f"{RUN}/artefact", response_class=Response, **describe_immutable(dict[str, Any], "The artefact")
)
@for_owner(Scope.READ, "not-found")
async def get_debate_artefact(
    request: Request,
    user: CurrentUser,
    debate_run_id: UUID,
    _turn: Admission,
    transaction: Transaction,
    events: Events = None,
) -> Response:
    """Return the artefact: as it was submitted, or as its first `events` show it."""
    body = await debates.read_artefact(
        transaction, str(debate_run_id), user_id=user.user_id, events=events
    )
    sha256 = sha256_hex(body)
    etag = f'"{sha256}"'
    headers = {"ETag": etag, "Repr-Digest": repr_digest(sha256)}
    return answer_not_modified(request, etag) or Response(body, media_type=JSON, headers=headers)


# Additions to debates: events of open runs, and evaluations.


Artefact = Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$", description="an earlier one")]


@router.get(f"{RUN}/events", response_model=DebateEventPage)
@for_owner(Scope.READ, "not-found")
async def list_debate_events(
    user: CurrentUser, debate_run_id: UUID, transaction: Transaction, asked: ChainPaging
) -> Response:
    """List the entries of a run's log, as they were hashed."""
    listing = Listing("debate-events", (str(debate_run_id),))
    page = await debates.read_entries(
        transaction, str(debate_run_id), asked.numbered(listing), user_id=user.user_id
    )
    return chain_page(asked, listing, page, member="events")


@router.post(f"{RUN}/events", openapi_extra=describe_body(EventsRequest))
@for_owner(Scope.WRITE, "not-found", "precondition-failed", "debate-closed", "debate-invalid")
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
        body.events,
        user_id=user.user_id,
        versions=versions,
        clock=get_service(request).clock,
    )
    return DebateDocument.model_validate(view)


@router.post(f"{RUN}/evaluations", openapi_extra=describe_body(EvaluationRequest))
@for_owner(Scope.WRITE, "not-found")
async def evaluate_debate(
    request: Request,
    user: CurrentUser,
    debate_run_id: UUID,
    body: Annotated[EvaluationRequest, Depends(json_body(EvaluationRequest))],
    _turn: Admission,
    transaction: Transaction,
) -> Evaluations:
    """Evaluate a run as it is now; the results are stored apart from the debate."""
    found = await debates.run_evaluators(
        transaction,
        str(debate_run_id),
        body.evaluators,
        labels=body.labels,
        user_id=user.user_id,
        clock=get_service(request).clock,
    )
    return Evaluations(evaluations=[evaluation_document(one) for one in found])


@router.get(f"{RUN}/evaluations")
@for_owner(Scope.READ, "not-found")
async def list_debate_evaluations(
    user: CurrentUser,
    debate_run_id: UUID,
    transaction: Transaction,
    artefact_sha256: Artefact = None,
) -> Evaluations:
    """List what evaluators said of a run as it is now, or as an earlier artefact."""
    found = await debates.read_evaluations(
        transaction, str(debate_run_id), user_id=user.user_id, artefact_sha256=artefact_sha256
    )
    return Evaluations(evaluations=[evaluation_document(one) for one in found])
