"""The page of a theatre: for its owner, for the people that it asks, and for strangers.

Who sees what is what the interface for programs gives the same reader: `GET /theatres/{id}` for its
owner, `…/hitl` for who is signed in while it waits, the receipt and the certificate for everyone.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import RedirectResponse, Response

from backend.api.certificate_routes import certificate_view
from backend.api.event_routes import stream_theatre
from backend.api.http.access_policy import Reader, for_visitors
from backend.api.http.html import html_response
from backend.api.http.idempotency import Transaction
from backend.api.http.rate_limits import Rate
from backend.api.http.service import Admission, get_service
from backend.api.http.visitors import (
    SESSION,
    SIGN_IN,
    RefusedForm,
    end_session,
    form_token,
    keep_session,
    keep_sign_in,
    page_router,
    session_form_token,
    sign_in_cookie,
    verified_form,
)
from backend.api.rating_routes import rating_document
from backend.api.theatre_routes import theatre_document
from backend.auth.credentials import Principal, Scope
from backend.errors import UnauthenticatedError
from backend.services import accounts, certificates, ratings, theatres
from theatre.engine.canonical_json import JsonValue, parse_object
from theatre.engine.errors import HumanScoreRefusedError, InvalidTransitionError, NotFoundError
from theatre.engine.replay import SubmittedScore
from theatre.engine.schema_registry import without_values
from theatre.pages import served

router = page_router()
shared = page_router(shared=True)
_SEE_OTHER = 303
_PRIVATE = "private, no-store"
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{0,15}\.?[0-9]{1,15}", re.ASCII)
SessionForm = Annotated[Mapping[str, str], Depends(verified_form(SESSION))]
SignInForm = Annotated[Mapping[str, str], Depends(verified_form(SIGN_IN))]


@shared.get("/theatres/{theatre_id}")
@for_visitors(Scope.READ, "not-found", rate=Rate.PAGE)
async def show_theatre(
    request: Request, reader: Reader, theatre_id: UUID, _turn: Admission, transaction: Transaction
) -> Response:
    """Show a theatre as its reader may see it; where that is nothing, ask for a sign-in."""
    return await _shown(request, reader, transaction, str(theatre_id))


async def _shown(
    request: Request,
    reader: Principal | None,
    connection: AsyncConnection,
    theatre_id: str,
    *,
    given: Mapping[str, str] | None = None,
    errors: Sequence[str] = (),
) -> Response:
    shown = await _documents(request, reader, connection, theatre_id)
    if not any(shown.values()):
        if reader is not None:
            raise NotFoundError("expected a theatre that its reader may see, got none")
        # The same for one that there is not: who is not signed in is told of neither.
        return RedirectResponse(f"/theatres/{theatre_id}/sign-in", _SEE_OTHER)
    asked = shown.pop("rating")
    tokens = {}
    if reader is not None:
        paths = {name: f"/theatres/{theatre_id}/{name}" for name in ("sign-out", "scores")}
        tokens = {name: session_form_token(request, path) for name, path in paths.items()}
    html = served.theatre_page(
        theatre_id,
        user=None if reader is None else reader.username,
        tokens=tokens,
        rating=None if asked is None else served.rubric_form(asked, given, errors),
        **shown,
    )
    return html_response(request, html, status=422 if errors else 200, caching=_PRIVATE)


async def _documents(
    request: Request, reader: Principal | None, connection: AsyncConnection, theatre_id: str
) -> dict[str, dict[str, Any] | None]:
    """Return what the interface for programs answers this reader about a theatre, by kind."""
    service = get_service(request)
    user_id = None if reader is None else reader.user_id
    shown: dict[str, dict[str, Any] | None] = dict.fromkeys(
        ("own", "ending", "receipt", "certificate", "rating")
    )
    try:
        receipt = await theatres.read_receipt(
            connection, theatre_id, reader=user_id, is_hashed=False
        )
        shown["receipt"] = parse_object(receipt)
        read = await certificates.read_certificate(
            connection, theatre_id=theatre_id, resources=service.resources, now=service.clock()
        )
        shown["certificate"] = certificate_view(read)
    except NotFoundError:
        pass  # It is not committed, or has no certificate.
    if reader is None:
        return shown
    try:
        view = await theatres.read_theatre(connection, theatre_id, user_id=reader.user_id)
        own = theatre_document(view, now=service.clock()).model_dump(mode="json")
        shown["own"] = own | {"usage": await theatres.read_usage(connection, view)}
        shown["ending"] = await theatres.read_ending(connection, view)
    except NotFoundError:
        pass  # It is another user's.
    shown["rating"] = await _rating(request, reader, connection, theatre_id)
    return shown


async def _rating(
    request: Request, reader: Principal, connection: AsyncConnection, theatre_id: str
) -> dict[str, Any] | None:
    service = get_service(request)
    if Scope.SCORE not in reader.scopes:
        return None
    try:
        found = await ratings.open_rating(
            connection, service.engine, theatre_id, asked_by=reader, resources=service.resources
        )
    except (NotFoundError, InvalidTransitionError):
        return None
    asked = rating_document(theatre_id, found).model_dump(mode="json")
    return {**asked, "has_scored": found.desk.has_scored(reader.username)}


@router.get("/theatres/{theatre_id}/live")
@for_visitors(Scope.READ, "not-found")
async def watch_page(request: Request, reader: Reader, theatre_id: UUID) -> Response:
    """Send how far a theatre is to the page of its owner."""
    if reader is None:
        raise NotFoundError("expected the owner of a theatre, got nobody who is signed in")
    return await stream_theatre(request, reader, theatre_id)


@router.post("/theatres/{theatre_id}/scores")
@for_visitors(
    Scope.SCORE,
    "not-found",
    "invalid-transition",
    "form-refused",
    "identity-separation",
    "duplicate-submission",
    "human-score-refused",
)
async def send_scores(
    request: Request,
    reader: Reader,
    theatre_id: UUID,
    fields: SessionForm,
    _turn: Admission,
    transaction: Transaction,
) -> Response:
    """Score all items of the form at once; what is refused is shown again with what was given."""
    path = f"/theatres/{theatre_id}"
    if reader is None:
        return RedirectResponse(f"{path}/sign-in", _SEE_OTHER)
    service = get_service(request)
    found = await ratings.open_rating(
        transaction, service.engine, str(theatre_id), asked_by=reader, resources=service.resources
    )
    errors = _doubts(fields)
    if not errors:
        try:
            await ratings.submit_scores(
                transaction,
                service.engine,
                str(theatre_id),
                found.desk.rating.step_id,
                scorer=reader,
                scores=_scores(found, fields),
                rubric_sha256=fields.get("rubric_sha256", ""),
                resources=service.resources,
            )
        except HumanScoreRefusedError as error:
            errors = list(dict.fromkeys(without_values(message) for _, message in error.refusals))
    if errors:
        raise RefusedForm(
            await _shown(request, reader, transaction, str(theatre_id), given=fields, errors=errors)
        )
    return RedirectResponse(path, _SEE_OTHER)


def _doubts(fields: Mapping[str, str]) -> list[str]:
    if fields.get("agreed") == "yes":
        return []
    return ["expected that you say that you have read the rubric and scored each item yourself"]


def _scores(found: ratings.OpenRating, fields: Mapping[str, str]) -> list[SubmittedScore]:
    """Return the scores of a form; its fields are numbered as the items are."""
    scores = []
    for number, item in enumerate(found.items):
        value = fields.get(f"value.{number}", "").strip()
        if value:
            # A browser sends line breaks; a comment in the evidence is one line.
            comment = " ".join(fields.get(f"comment.{number}", "").split())
            scores.append(
                SubmittedScore(
                    episode_id=item.episode_id, score=_number(value), comment=comment or None
                )
            )
    return scores


def _number(value: str) -> JsonValue:
    """Return a number as it was written; what is none stays a text, which is refused."""
    if _WHOLE.fullmatch(value):
        return int(value)
    return float(value) if _NUMBER.fullmatch(value) else value[:100]


# Sign-in: it goes back to the theatre that its address names, and nowhere else.


@router.get("/theatres/{theatre_id}/sign-in")
@for_visitors(Scope.READ)
async def show_sign_in(request: Request, reader: Reader, theatre_id: UUID) -> Response:
    """Show the sign-in form of a theatre, whether there is one of this id or not."""
    if reader is not None:
        return RedirectResponse(f"/theatres/{theatre_id}", _SEE_OTHER)
    return _sign_in_form(request, theatre_id)


@router.post("/theatres/{theatre_id}/sign-in")
@for_visitors(Scope.READ, "form-refused", "not-ready", rate=Rate.LOGIN)
async def sign_in(
    request: Request, reader: Reader, theatre_id: UUID, fields: SignInForm
) -> Response:
    """Sign in with name and password; counted as `POST /auth/token` is."""
    del reader  # Signed in or not: this is a new session.
    service = get_service(request)
    username = fields.get("username", "")[:100]
    service.rates.admit_log_in(username)
    try:
        token = await accounts.log_in(
            service.engine,
            service.passwords,
            service.tokens,
            username=username,
            password=fields.get("password", "")[:1000],
        )
    except UnauthenticatedError:
        raise RefusedForm(
            _sign_in_form(
                request,
                theatre_id,
                error="Name and password do not belong together. Try again.",
                username=username,
            )
        ) from None
    response = RedirectResponse(f"/theatres/{theatre_id}", _SEE_OTHER)
    keep_session(response, token)
    return response


@router.post("/theatres/{theatre_id}/sign-out")
@for_visitors(Scope.READ, "form-refused")
async def sign_out(
    request: Request, reader: Reader, theatre_id: UUID, fields: SessionForm
) -> Response:
    """End the sessions and tokens of who is signed in, in other browsers, too."""
    del fields
    if reader is not None:
        await accounts.sign_out(get_service(request).engine, reader.user_id)
    response = RedirectResponse(f"/theatres/{theatre_id}/sign-in", _SEE_OTHER)
    end_session(response)
    return response


def _sign_in_form(
    request: Request, theatre_id: UUID, *, error: str | None = None, username: str = ""
) -> Response:
    kept = sign_in_cookie(request)
    html = served.sign_in_page(
        str(theatre_id),
        token=form_token(kept, f"/theatres/{theatre_id}/sign-in"),
        error=error,
        username=username,
    )
    # 422, not 401: a browser without the password asks again on the page.
    response = html_response(request, html, status=422 if error else 200, caching=_PRIVATE)
    keep_sign_in(response, kept)
    return response
