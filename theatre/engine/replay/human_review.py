"""Where people's scores come in: the rubric step at which a theatre's programme waits.

Source: docs/contract/template.md §5. The journal's audit chain is the store: a score
is durable once its entry is, and so is a refusal.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Self, cast

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import MAX_SAFE_INTEGER, JsonObject, JsonValue, canonical_json
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.errors import HumanScoreRefusedError, InvalidTransitionError
from theatre.engine.oracle_contract import clean_detail
from theatre.engine.replay.context import RunJournal
from theatre.engine.replay.recording import input_sent
from theatre.engine.replay.trail import (
    HUMAN_SCORE,
    HUMAN_SCORE_REFUSED,
    OpenedRubric,
    ProgrammeTrail,
)
from theatre.engine.schema_registry import Quoted, phrase
from theatre.engine.scoring import CommittedRating, PanelScores, committed_ratings
from theatre.engine.scoring.data_audit import UNSEEN
from theatre.engine.scoring.repeats import outputs_of
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import Theatre

# Who may score what: the identity rules of a rubric step, and the scores that count.
#
# Source: docs/contract/template.md §2; docs/contract/evidence.md §9. Pure.


MAX_NAME = 200
MAX_COMMENT = 2000


class SubmittedScore(NamedTuple):
    """A person's score of one item, as it was received: nothing is checked yet."""

    episode_id: str
    score: JsonValue
    comment: str | None = None


class ScoreRefusal(NamedTuple):
    """Why a score is not taken: a stable code, and what was expected and seen."""

    code: str
    message: str


def identity(name: str) -> str:
    """Return by what two names are the same person: what is seen of them, NFC, case folded."""
    seen = " ".join(UNSEEN.sub("", name).split())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", seen).casefold())


def normalise_name(name: str) -> str:
    """Return a name as it is recorded: trimmed, NFC."""
    return unicodedata.normalize("NFC", name.strip())


def select_complete_scores(rubric: OpenedRubric, rating: CommittedRating) -> PanelScores:
    """Return the scores of those who rated every item, by identity, in [0, 1]."""
    by_scorer: dict[str, dict[str, float]] = {}
    for line in rubric.scores:
        own = by_scorer.setdefault(identity(cast("str", line["scorer"])), {})
        own[cast("str", line["episode_id"])] = cast("float", line["score"])
    return {
        scorer: {item: rating.scaled(scores[item]) for item in rubric.items}
        for scorer, scores in by_scorer.items()
        if len(scores) == len(rubric.items)
    }


class Eligibility:
    """Judges scores for one open rubric step."""

    def __init__(
        self, rating: CommittedRating, rubric: OpenedRubric, authors: Iterable[str]
    ) -> None:
        """Take the step, what it holds so far, and the authors of template and constructs."""
        self._rating = rating
        self._items = frozenset(rubric.items)
        self._authors = frozenset(identity(author) for author in authors)
        self._taken = {
            (identity(cast("str", line["scorer"])), line["episode_id"]) for line in rubric.scores
        }

    def refusals(
        self, scorer: str, submitted: Sequence[SubmittedScore]
    ) -> list[tuple[SubmittedScore, ScoreRefusal]]:
        """Return which scores of one person cannot be taken, each with its first reason."""
        found = []
        taken = set(self._taken)
        for one in submitted:
            place = (identity(scorer), one.episode_id)
            refusal = (
                self._check_person(scorer)
                or self._check_item(one, taken=place in taken)
                or self._check_score(one.score)
                or _check_comment(one.comment)
            )
            taken.add(place)
            if refusal is not None:
                found.append((one, refusal))
        return found

    def _check_person(self, scorer: str) -> ScoreRefusal | None:
        name = normalise_name(scorer)
        if not identity(name):
            return ScoreRefusal("identity-empty", "expected the name of whoever scores, got none")
        if not name.isprintable() or len(name) > MAX_NAME:
            expected = f"expected a name of at most {MAX_NAME} printable characters"
            return ScoreRefusal(
                "identity-unreadable", phrase(f"{expected}, got ", Quoted(name, spelt=_begun))
            )
        if self._rating.scorer_must_not_be_author and identity(name) in self._authors:
            expected = "expected somebody who is no author of the template or of a construct"
            seen = Quoted(name, spelt=str)
            return ScoreRefusal("scorer-is-author", phrase(f"{expected}, got ", seen))
        return None

    def _check_item(self, one: SubmittedScore, *, taken: bool) -> ScoreRefusal | None:
        item = Quoted(one.episode_id[:100], spelt=ascii)
        if one.episode_id not in self._items:
            expected = f"expected one of the {len(self._items)} items of the step"
            return ScoreRefusal("not-an-item", phrase(f"{expected}, got ", item))
        if taken:
            expected = "expected one score a person for each item"
            return ScoreRefusal(
                "item-already-scored", phrase(f"{expected}, got a second one for ", item)
            )
        return None

    def _check_score(self, score: JsonValue) -> ScoreRefusal | None:
        scale = f"from {float(self._rating.low):g} to {float(self._rating.high):g}"
        seen = Quoted(score, spelt=_cut)
        if not _is_number(score):
            expected = f"expected a finite number {scale}"
            return ScoreRefusal("score-not-a-number", phrase(f"{expected}, got ", seen))
        if not self._rating.on_scale(cast("float", score)):
            return ScoreRefusal("score-off-scale", phrase(f"expected a number {scale}, got ", seen))
        return None


def _check_comment(comment: str | None) -> ScoreRefusal | None:
    if comment is None or comment == clean_detail(comment, limit=MAX_COMMENT):
        return None
    expected = f"expected a comment of at most {MAX_COMMENT} characters and no invisible ones"
    seen = Quoted(comment, spelt=_begun)
    return ScoreRefusal("comment-unreadable", phrase(f"{expected}, got ", seen))


def _begun(text: object) -> str:
    return ascii(str(text)[:40])


def _cut(score: object) -> str:
    return f"{score!a:.40}"


def _is_number(score: JsonValue) -> bool:
    """Return whether a score has a canonical form as a number."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        return False
    return abs(score) <= MAX_SAFE_INTEGER if isinstance(score, int) else math.isfinite(score)


class HumanReview(NamedTuple):
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
        is_over = theatre.state in {TheatreState.RESOLVED, TheatreState.ARCHIVED}
        opens = "run it first, it opens its rubric when it comes to it"
        advice = "its run is over" if is_over else opens
        raise InvalidTransitionError(
            f"expected a theatre that waits for human scores, got {theatre.theatre_id} in "
            f"{theatre.state} without an open rubric: {advice}"
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

    def has_scored(self, scorer: str) -> bool:
        """Return whether a person has rated anything."""
        return identity(scorer) in map(identity, self.answered)

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
        closed = self._check_open(asked, now)
        if closed is None:
            eligibility = Eligibility(self.rating, self.rubric, self.authors)
            refusals = eligibility.refusals(scorer, submitted)
        else:
            refusals = [(one, ScoreRefusal("step-not-open", closed)) for one in submitted]
        name = normalise_name(scorer)
        if refusals:
            # Cleaned and cut, whatever came in.
            refused: list[JsonObject] = [
                {
                    "step_id": clean_detail(asked, limit=MAX_NAME),
                    "scorer": clean_detail(name, limit=MAX_NAME),
                    "episode_id": clean_detail(one.episode_id, limit=MAX_NAME),
                    "score": one.score
                    if _is_number(one.score)
                    else clean_detail(repr(one.score), limit=MAX_NAME),
                    "code": refusal.code,
                }
                for one, refusal in refusals
            ]
            await self._note(HUMAN_SCORE_REFUSED, refused, now)
            raise HumanScoreRefusedError([refusal for _, refusal in refusals])
        taken: list[JsonObject] = [
            {
                "step_id": asked,
                "scorer": name,
                "episode_id": one.episode_id,
                "score": one.score,
                "comment": one.comment,
            }
            for one in submitted
        ]
        await self._note(HUMAN_SCORE, taken, now)
        trail = await ProgrammeTrail.read(self.journal)
        return self._replace(rubric=trail.rubrics[asked])

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


class RatingItem(NamedTuple):
    """What a person is shown of one episode: its input as it was sent, and every answer to it."""

    episode_id: str
    input_data: JsonObject
    answers: dict[str, JsonObject]


async def rating_items(journal: RunJournal, rubric: OpenedRubric) -> tuple[RatingItem, ...]:
    """Return the items of a rubric step in the order of the draw, from the recorded calls."""
    wanted = frozenset(rubric.items)
    found = {}
    async for result in journal.results():
        if result.episode_id in wanted:
            record = result.record.document
            found[result.episode_id] = RatingItem(
                episode_id=result.episode_id,
                input_data=input_sent(record),
                answers=outputs_of(record),
            )
    return tuple(found[episode_id] for episode_id in rubric.items)


LEFT_OUT = "ratings-left-out"
AUTHORS_MAY_RATE = "authors-may-rate"


def rating_findings(
    template: JsonObject, trail: ProgrammeTrail, aggregate: JsonObject
) -> list[str]:
    """Return what a reader must know of those who rated, a code for each criterion.

    That scores were given which do not count, as who gave them did not rate every answer: a rating
    that goes badly can be left before its last one. That nothing keeps the author from rating: the
    template lets him, or names none.
    """
    counted = cast("dict[str, dict[str, int]]", aggregate["human_scores"] or {})
    is_named = bool(_authors(template, trail))
    found = []
    for rating in committed_ratings(template):
        if rating.criterion_id is None or rating.step_id not in counted:
            continue
        rubric = trail.rubrics.get(rating.step_id)
        lines = [] if rubric is None else rubric.scores
        gave = {identity(cast("str", line["scorer"])) for line in lines}
        if len(gave) > counted[rating.step_id]["scorers"]:
            found.append(f"{LEFT_OUT}:{rating.criterion_id}")
        if not (is_named and rating.scorer_must_not_be_author):
            found.append(f"{AUTHORS_MAY_RATE}:{rating.criterion_id}")
    return found


def _authors(template: JsonObject, trail: ProgrammeTrail) -> tuple[str, ...]:
    """Return who wrote the template and the constructs, as far as they are named."""
    metadata = template.get("metadata")
    named = [metadata.get("author")] if isinstance(metadata, dict) else []
    return tuple(a for a in [*named, *trail.authors.values()] if isinstance(a, str) and identity(a))
