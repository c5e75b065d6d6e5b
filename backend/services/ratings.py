"""Human scores: what people are asked, and what they answer (docs/contract/service.md §2).

A scorer sees the episodes and the answers, and nothing that could influence them: no expectation,
no score of a machine or of another person.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backend.auth.credentials import Principal
from backend.jobs.queue import queue_run
from backend.repositories.theatre_runs import (
    StoredTheatre,
    change_run,
    copy_scores,
    find_stored_theatre,
    lock_scores,
    lock_waiting,
)
from backend.repositories.users import find_user_by_id
from backend.services.resources import TheatreResources
from backend.services.runs.execution import WAITING, journal_of
from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.errors import HumanScoreRefusedError, InvalidTransitionError, NotFoundError
from theatre.engine.replay import HumanReview, RatingItem, SubmittedScore, rating_items


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRating:
    """A rubric step that waits for people."""

    desk: HumanReview
    items: Sequence[RatingItem]

    @property
    def rubric_sha256(self) -> str:
        """Return the hash of the rubric: a scorer sends it back to show that they have read it."""
        return rubric_hash(self.desk)


def rubric_hash(desk: HumanReview) -> str:
    """Return the SHA-256 over the canonical rubric, scale and labels of the open step."""
    rating = desk.rating
    asked: JsonObject = {
        "step_id": rating.step_id,
        "rubric": rating.rubric,
        "min": float(rating.low),
        "max": float(rating.high),
        "labels": dict(rating.labels),
    }
    return canonical_sha256(asked)


async def open_rating(
    connection: AsyncConnection,
    engine: AsyncEngine,
    theatre_id: str,
    *,
    asked_by: Principal,
    resources: TheatreResources,
) -> OpenRating:
    """Return what a waiting theatre asks people.

    NotFoundError for no such theatre, or another user's that does not wait;
    InvalidTransitionError for the user's own that does not.
    """
    stored = await _read_waiting(connection, theatre_id, asked_by)
    journal = journal_of(engine, stored, resources)
    desk = await HumanReview.of(stored.value(), journal, resources.clock)
    return OpenRating(desk=desk, items=await rating_items(journal, desk.rubric))


async def submit_scores(
    connection: AsyncConnection,
    engine: AsyncEngine,
    theatre_id: str,
    step_id: str,
    *,
    scorer: Principal,
    scores: Sequence[SubmittedScore],
    rubric_sha256: str,
    resources: TheatreResources,
) -> HumanReview:
    """Record all scores of one person and return the desk; the last one queues the run.

    Raises as `open_rating`, and HumanScoreRefusedError for a rubric that is not the committed one,
    for items left out, and for every reason of the engine. Each refusal of the engine is recorded.
    """
    await lock_scores(connection, theatre_id)
    stored = await _read_waiting(connection, theatre_id, scorer)
    journal = journal_of(engine, stored, resources)
    desk = await HumanReview.of(stored.value(), journal, resources.clock)
    _require_whole(desk, scores, rubric_sha256)
    owner = await find_user_by_id(connection, stored.user_id)
    if owner is not None:
        desk = desk._replace(authors=(*desk.authors, owner.username))
    desk = await desk.submit(scorer.username, scores, step_id=step_id)
    await copy_scores(connection, theatre_id)
    if desk.enough and await lock_waiting(connection, theatre_id):
        await change_run(connection, theatre_id, pending_step=None, updated_at=resources.clock())
        await queue_run(connection, theatre_id)
    return desk


async def _read_waiting(
    connection: AsyncConnection, theatre_id: str, asked_by: Principal
) -> StoredTheatre:
    """Return a theatre that waits for people; for a stranger there are no others."""
    stored = await find_stored_theatre(connection, theatre_id)
    is_waiting = stored is not None and stored.run_status == WAITING
    if stored is None or not (is_waiting or stored.user_id == asked_by.user_id):
        raise NotFoundError(
            f"expected a theatre {theatre_id} that waits for human scores, got none"
        )
    if not is_waiting:
        raise InvalidTransitionError(
            f"expected a theatre that waits for human scores, got one in {stored.state} whose run "
            f"is {stored.run_status or 'not asked for'}"
        )
    return stored


def _require_whole(desk: HumanReview, scores: Sequence[SubmittedScore], rubric_sha256: str) -> None:
    refusals = []
    if rubric_sha256 != rubric_hash(desk):
        refusals.append(("rubric-mismatch", "expected the hash of the rubric as GET …/hitl has it"))
    missing = set(desk.rubric.items) - {score.episode_id for score in scores}
    if len(scores) > len(desk.rubric.items):
        # Not recorded: every recorded refusal lengthens the audit chain of another user.
        refusals.append(("items-repeated", "expected each item once, got more scores than items"))
    if missing:
        refusals.append(("items-missing", f"expected all items at once, got {len(missing)} less"))
    if refusals:
        raise HumanScoreRefusedError(refusals)
