"""Human scores: any user may be asked, who may answer is committed."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request

from backend.api.http.access_policy import CurrentUser, for_users, resource_router
from backend.api.http.bodies import describe_body, json_body
from backend.api.http.idempotency import Transaction
from backend.api.http.pages import NO_NUL
from backend.api.http.service import Admission, get_service
from backend.auth.credentials import Scope
from backend.schemas.evidence import RatedItem, Rating, Scale, Scores, ScoresTaken
from backend.services import ratings
from theatre.engine.replay import SubmittedScore

router = resource_router("ratings")


@router.get("/theatres/{theatre_id}/hitl")
@for_users(Scope.SCORE, "not-found", "invalid-transition")
async def get_rating(
    request: Request,
    user: CurrentUser,
    theatre_id: UUID,
    _turn: Admission,
    transaction: Transaction,
) -> Rating:
    """Return the rubric that a theatre waits at, its scale, and what is to be scored."""
    service = get_service(request)
    found = await ratings.open_rating(
        transaction, service.engine, str(theatre_id), asked_by=user, resources=service.resources
    )
    return rating_document(str(theatre_id), found)


@router.post("/theatres/{theatre_id}/hitl/{step_id}/scores", openapi_extra=describe_body(Scores))
@for_users(
    Scope.SCORE,
    "not-found",
    "invalid-transition",
    "identity-separation",
    "duplicate-submission",
    "human-score-refused",
)
async def submit_scores(
    request: Request,
    user: CurrentUser,
    theatre_id: UUID,
    step_id: Annotated[str, Path(max_length=1000, pattern=NO_NUL)],
    body: Annotated[Scores, Depends(json_body(Scores))],
    _turn: Admission,
    transaction: Transaction,
) -> ScoresTaken:
    """Score all items at once; when enough people have, the run goes on."""
    service = get_service(request)
    desk = await ratings.submit_scores(
        transaction,
        service.engine,
        str(theatre_id),
        step_id,
        scorer=user,
        scores=[
            SubmittedScore(episode_id=one.episode_id, score=one.value, comment=one.rationale)
            for one in body.scores
        ],
        rubric_sha256=body.rubric_sha256,
        resources=service.resources,
    )
    return ScoresTaken(
        theatre_id=str(theatre_id),
        step_id=desk.rating.step_id,
        recorded=len(body.scores),
        complete_scorers=desk.complete_scorers,
        minimum_scorers=desk.rating.minimum_scorers,
        enough=desk.enough,
    )


def rating_document(theatre_id: str, found: ratings.OpenRating) -> Rating:
    """Return what a person is asked, as they get it."""
    desk, rating = found.desk, found.desk.rating
    return Rating(
        theatre_id=theatre_id,
        step_id=rating.step_id,
        rubric=rating.rubric,
        rubric_sha256=found.rubric_sha256,
        scoring_scale=Scale(
            min=float(rating.low), max=float(rating.high), labels=dict(rating.labels)
        ),
        scorer_must_not_be_author=rating.scorer_must_not_be_author,
        minimum_scorers=rating.minimum_scorers,
        complete_scorers=desk.complete_scorers,
        opened_at=desk.rubric.opened_at,
        timeout_seconds=desk.rubric.timeout_seconds,
        items=[
            RatedItem(
                episode_id=item.episode_id, input_data=item.input_data, answers=dict(item.answers)
            )
            for item in found.items
        ],
    )
