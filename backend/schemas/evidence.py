"""The evidence of a run, and the scores that people add to it."""

from datetime import datetime
from typing import Any

from pydantic import Field

from backend.schemas.base import RequestDocument, ResponseDocument


class AuditPage(ResponseDocument):
    """Some entries of an audit chain, as they were hashed, in order."""

    audit_events: list[dict[str, Any]]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class EpisodeDocument(ResponseDocument):
    """The result of one episode."""

    seq: int
    episode_id: str
    invocation_status: str
    outcome: str
    latency_ms: int | None = Field(description="of the last call of the first round")
    scores: dict[str, float | None]
    scored_at: datetime
    withheld: bool = Field(description="its record stays with the owner")


class EpisodeRecord(EpisodeDocument):
    """One episode with its calls, as docs/contract/evidence.md has an invocation record."""

    record: dict[str, Any] | None = Field(description="null where it is withheld")


class EpisodePage(ResponseDocument):
    """Some recorded episodes, in the order of the dataset."""

    episodes: list[EpisodeDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


# Human scores.


MAX_SCORE = 1_000_000_000
"""Far beyond any scale, and within the integers that every reader of JSON holds alike."""


class Scale(ResponseDocument):
    """The committed scale."""

    min: float
    max: float
    labels: dict[str, str]


class RatedItem(ResponseDocument):
    """An episode's input and answers; nothing that could influence the scorer."""

    episode_id: str
    input_data: dict[str, Any]
    answers: dict[str, dict[str, Any]]


class Rating(ResponseDocument):
    """A rubric step that waits for people."""

    theatre_id: str
    step_id: str
    rubric: str
    rubric_sha256: str
    scoring_scale: Scale
    scorer_must_not_be_author: bool
    minimum_scorers: int
    complete_scorers: int
    opened_at: datetime
    timeout_seconds: float | None
    items: list[RatedItem]


class ItemScore(RequestDocument):
    """One person's score of one item."""

    episode_id: str = Field(min_length=1, max_length=1000)
    value: float = Field(ge=-MAX_SCORE, le=MAX_SCORE, description="on the committed scale")
    rationale: str | None = Field(default=None, max_length=5000)


class Scores(RequestDocument):
    """One person's scores of all items, sent at once."""

    scores: list[ItemScore] = Field(min_length=1, max_length=10_000)
    rubric_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ScoresTaken(ResponseDocument):
    """How many people have scored."""

    theatre_id: str
    step_id: str
    recorded: int
    complete_scorers: int
    minimum_scorers: int
    enough: bool
