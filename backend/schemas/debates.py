"""Debates: what is sent to extend and evaluate one, and how one looks."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from backend.schemas.base import RequestDocument, ResponseDocument
from theatre.debate.models import Action

EvaluatorName = Literal["crit", "rca", "t3", "pid", "raudit"]
Speaker = Annotated[str, Field(min_length=1, max_length=200)]
MAX_EVENTS = 1000


def _each_once(names: list[EvaluatorName]) -> list[EvaluatorName]:
    if len(set(names)) < len(names):
        raise ValueError("expected each evaluator once")
    return names


class EventRequest(RequestDocument):
    """One event of a run that goes on, as docs/debate.md has them."""

    event_type: Annotated[str, Field(min_length=1, max_length=50)]
    detail: dict[str, Any]


class EventsRequest(RequestDocument):
    """Events that are appended together or not at all."""

    events: Annotated[list[EventRequest], Field(min_length=1, max_length=MAX_EVENTS)]


class EvaluationRequest(RequestDocument):
    """The evaluators of a run, and the labels for `raudit`."""

    evaluators: Annotated[
        list[EvaluatorName],
        Field(min_length=1, max_length=5, json_schema_extra={"uniqueItems": True}),
        AfterValidator(_each_once),
    ]
    labels: Annotated[
        dict[Speaker, Action],
        Field(
            default_factory=dict,
            max_length=1000,
            description="the true action by speaker, or by `*` for all others; for `raudit`, "
            "which compares answers with them, and for no other evaluator",
        ),
    ]

    @model_validator(mode="after")
    def _labels_need_raudit(self) -> Self:
        if ("raudit" in self.evaluators) != bool(self.labels):
            raise ValueError("expected labels where raudit evaluates, and only there")
        return self


class DebateDocument(ResponseDocument):
    """A run of a debate."""

    id: str
    debate_id: str
    run_id: str
    evaluation_mode: str
    artefact_sha256: str = Field(description="of the artefact as it is now")
    head_hash: str = Field(description="of the last entry of its log")
    events: int
    turns: int
    is_closed: bool
    created_at: datetime
    updated_at: datetime


class DebatePage(ResponseDocument):
    """Some runs of a user, the newest first."""

    debates: list[DebateDocument]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class DebateEventPage(ResponseDocument):
    """Some entries of a run's log, as they were hashed, in order."""

    events: list[dict[str, Any]]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class EvaluationDocument(ResponseDocument):
    """What one evaluator said of one artefact; `sha256` is of its canonical form."""

    artefact_sha256: str
    evaluator: str
    sha256: str
    created_at: datetime
    evaluation: dict[str, Any]


class Evaluations(ResponseDocument):
    """What evaluators said of a run."""

    evaluations: list[EvaluationDocument]
