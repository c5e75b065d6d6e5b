"""Audits of certificates: anyone with an account may ask, and the owner of the run answers."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from backend.api.http.access_policy import CurrentUser, for_owner, for_users, resource_router
from backend.api.http.bodies import JSON, describe_body, json_body
from backend.api.http.idempotency import Transaction
from backend.api.http.service import Admission, get_service
from backend.auth.credentials import Scope
from backend.schemas.transparency import (
    AuditAnswer,
    AuditDocument,
    AuditRequestDocument,
    DisclosureDocument,
)
from backend.services import audits
from theatre.engine.coin import Coin

router = resource_router("audits")


@router.post(
    "/certificates/{certificate_id}/audits",
    response_model=AuditDocument,
    openapi_extra=describe_body(AuditRequestDocument),
)
@for_users(Scope.WRITE, "not-found", "audit-refused")
async def request_audit(
    request: Request,
    _user: CurrentUser,
    certificate_id: UUID,
    body: Annotated[AuditRequestDocument, Depends(json_body(AuditRequestDocument))],
    transaction: Transaction,
) -> Response:
    """Have a request logged that the owner opens a sample of the episodes by a day."""
    asked = audits.read_request(body.model_dump())
    now = get_service(request).clock()
    await audits.request_audit(transaction, str(certificate_id), asked, now=now)
    shown = AuditDocument(
        request_sha256=asked.sha256,
        certificate_id=asked.certificate_id,
        statement_sha256=asked.statement_sha256,
        draw=asked.draw,
        open_by=asked.open_by,
    )
    return JSONResponse(shown.model_dump(mode="json"))


@router.post(
    "/certificates/{certificate_id}/audits/answer",
    response_model=DisclosureDocument,
    openapi_extra=describe_body(AuditAnswer),
)
@for_owner(Scope.WRITE, "not-found", "audit-refused")
async def answer_audit(
    request: Request,
    user: CurrentUser,
    certificate_id: UUID,
    body: Annotated[AuditAnswer, Depends(json_body(AuditAnswer))],
    _turn: Admission,
    transaction: Transaction,
) -> Response:
    """Open the episodes that an audit's coin names, in one file, and have the answer logged."""
    opened = await audits.answer_audit(
        transaction,
        str(certificate_id),
        audits.read_request(body.request.model_dump()),
        Coin(bytes.fromhex(body.coin)),
        user_id=user.user_id,
        store=get_service(request).resources.store,
    )
    # The very bytes whose hash the log has.
    return Response(opened, media_type=JSON)
