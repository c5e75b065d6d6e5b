"""Where people's scores come in: the rubric step at which a theatre's programme waits.

Source: docs/contract/template.md §5. The journal's audit chain is the store: a score
is durable once its entry is, and so is a refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_json
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.errors import HumanScoreRefusedError, InvalidTransitionError
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.human_scores import (
    Eligibility,
    ScoreRefusal,
    SubmittedScore,
    identity,
    refused_detail,
    score_detail,
    select_complete_scores,
)
from theatre.engine.replay.journal import RunJournal
from theatre.engine.replay.programme_trail import (
    HUMAN_SCORE,
    HUMAN_SCORE_REFUSED,
    OpenedRubric,
    ProgrammeTrail,
)
from theatre.engine.replay.records import calls_of, outputs_of
from theatre.engine.schema_registry import Quoted, phrase
from theatre.engine.scoring import CommittedRating, committed_ratings
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import Theatre


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanReview:
    """The open rubric step of one theatre. The caller holds the theatre: there is one writer."""

    rating: CommittedRating
    rubric: OpenedRubric
    authors: tuple[str, ...]
    journal: RunJournal
    clock: Clock

    @classmethod
    async def of(cls, theatre: Theatre, journal: RunJournal, clock: Clock) -> Self:
        """Return the desk of a theatre whose programme waits for people.

        Raises InvalidTransitionError for any other: nothing may follow the end of a programme in
        the chain, where a sealed bundle continues.
        """
        trail = await ProgrammeTrail.read(journal)
        for rating in committed_ratings(theatre.template):
            rubric = trail.rubrics.get(rating.step_id)
            if rubric is not None and trail.settled(rating.step_id) is None:
                return cls(
                    rating=rating,
                    rubric=rubric,
                    authors=_authors(theatre.template, trail),
                    journal=journal,
                    clock=clock,
                )
        raise InvalidTransitionError(
            f"expected a theatre that waits for human scores, got {theatre.theatre_id} in "
            f"{theatre.state} without an open rubric: {_advice(theatre.state)}"
        )

    @property
    def answered(self) -> dict[str, int]:
        """Return scorer, as first written → number of items that are rated."""
        names: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for line in self.rubric.scores:
            name = cast("str", line["scorer"])
            counts[names.setdefault(identity(name), name)] += 1
        return dict(counts)

    @property
    def complete_scorers(self) -> int:
        """Return how many people have rated every item."""
        return len(select_complete_scores(self.rubric, self.rating))

    @property
    def enough(self) -> bool:
        """Return whether the programme can continue."""
        return self.complete_scorers >= self.rating.minimum_scorers

    async def submit(
        self, scorer: str, submitted: Sequence[SubmittedScore], *, step_id: str | None = None
    ) -> Self:
        """Record the scores of one person, all or none; return the desk after it.

        Raises HumanScoreRefusedError with every reason; each is in the audit chain then.
        """
        asked = self.rating.step_id if step_id is None else step_id
        # Read the clock once: a score that was accepted in time is also recorded in time.
        now = self.clock()
        refusals = self._refusals(scorer, submitted, asked, now)
        if refusals:
            details = [refused_detail(asked, scorer, refusal) for refusal in refusals]
            await self._note(HUMAN_SCORE_REFUSED, details, now)
            raise HumanScoreRefusedError([(one.code, one.message) for one in refusals])
        details = [score_detail(asked, scorer, one) for one in submitted]
        await self._note(HUMAN_SCORE, details, now)
        trail = await ProgrammeTrail.read(self.journal)
        return type(self)(
            rating=self.rating,
            rubric=trail.rubrics[asked],
            authors=self.authors,
            journal=self.journal,
            clock=self.clock,
        )

    def _refusals(
        self, scorer: str, submitted: Sequence[SubmittedScore], step_id: str, now: datetime
    ) -> tuple[ScoreRefusal, ...]:
        closed = self._check_open(step_id, now)
        if closed is not None:
            return tuple(
                ScoreRefusal(submitted=one, code="step-not-open", message=closed)
                for one in submitted
            )
        return Eligibility(self.rating, self.rubric, self.authors).refusals(scorer, submitted)

    def _check_open(self, step_id: str, now: datetime) -> str | None:
        own = self.rating.step_id
        if step_id != own:
            seen = Quoted(step_id[:100], spelt=ascii)
            return phrase(f"expected a score for the open step {own}, got one for ", seen)
        if self.rubric.is_expired(now):
            return (
                f"expected a score within {canonical_json(self.rubric.timeout_seconds)} s of "
                f"{format_rfc3339(self.rubric.opened_at)}, got one later"
            )
        return None

    async def _note(self, event_type: str, details: Sequence[JsonObject], now: datetime) -> None:
        at = format_rfc3339(now)
        events = [AuditEvent(event_type=event_type, at=at, detail=detail) for detail in details]
        await self.journal.append([], events)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingItem:
    """What a person is shown of one episode: its input as it was sent, and every answer to it."""

    episode_id: str
    input_data: JsonObject
    answers: dict[str, JsonObject]


async def rating_items(journal: RunJournal, rubric: OpenedRubric) -> tuple[RatingItem, ...]:
    """Return the items of a rubric step in the order of the draw, from the recorded calls."""
    wanted = frozenset(rubric.items)
    found = {
        result.episode_id: _item(result)
        async for result in journal.results()
        if result.episode_id in wanted
    }
    return tuple(found[episode_id] for episode_id in rubric.items)


def _item(result: EpisodeResult) -> RatingItem:
    request = cast("JsonObject", calls_of(result.record.document)[0]["request"])
    return RatingItem(
        episode_id=result.episode_id,
        input_data=cast("JsonObject", request["input_data"]),
        answers=outputs_of(result.record.document),
    )


def _authors(template: JsonObject, trail: ProgrammeTrail) -> tuple[str, ...]:
    """Return who wrote the template and the constructs, as far as they are named."""
    metadata = template.get("metadata")
    named = [metadata.get("author")] if isinstance(metadata, dict) else []
    return tuple(a for a in [*named, *trail.authors.values()] if isinstance(a, str) and a.strip())


def _advice(state: TheatreState) -> str:
    if state in {TheatreState.RESOLVED, TheatreState.ARCHIVED}:
        return "its run is over"
    return "run it first, it opens its rubric when it comes to it"
