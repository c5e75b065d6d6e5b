"""What people gave, checked against what they were asked: the check `human-scores`.

Source: docs/contract/evidence.md §9. Everything is taken from the audit trail; the files in
`hitl/` must repeat it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from theatre.engine.bundle_check.audit_trail import AuditTrail, SubmittedRating
from theatre.engine.bundle_check.folder import BundleFolder, canonical_object
from theatre.engine.bundle_check.json_values import (
    NOTHING,
    DefectError,
    Nothing,
    at,
    render,
    require_same,
    text_members,
)
from theatre.engine.bundle_check.panels import Panel, RatedColumns
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.steps import CommittedRubric
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ClockError

OFF_SCALE = "score-off-scale"
NO_NUMBER = "score-not-a-number"
IS_AUTHOR = "scorer-is-author"
REFUSALS = frozenset(
    {
        OFF_SCALE,
        NO_NUMBER,
        IS_AUTHOR,
        "not-an-item",
        "item-already-scored",
        "identity-empty",
        "identity-unreadable",
        "comment-unreadable",
        "step-not-open",
    }
)
"""Why a score may be refused (docs/contract/evidence.md)."""

Panels = Mapping[str, Panel]
"""step_id → what its rating came to, for every committed rubric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRequest:
    """What one rating asks of whom; `authors` are identities, `opened_at` as the trail has it."""

    rubric: CommittedRubric
    items: Sequence[str]
    authors: frozenset[str]
    opened_at: JsonValue | Nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedScoreRecord:
    """A score that may stand: whose, for what, and the number as it was written."""

    identity: str
    episode_id: str
    score: float


def identity(name: str) -> str:
    """Return whose name it is: names of the same person in any case and Unicode form are one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name.strip()).casefold())


def seconds_between(earlier: JsonValue | Nothing, later: JsonValue | Nothing) -> float:
    """Return the seconds from one time to another. Raises DefectError for what is no time."""
    try:
        moments = [parse_rfc3339(one if isinstance(one, str) else "") for one in (earlier, later)]
    except ClockError as error:
        raise DefectError("two times in RFC 3339", f"{render(earlier)}, {render(later)}") from error
    return (moments[1] - moments[0]).total_seconds()


def given_score(entry: JsonObject, asked: RatingRequest) -> SubmittedScoreRecord:
    """Return the score in an entry `human_score`. Raises DefectError for one that may not count."""
    detail, rubric = at(entry, "detail"), asked.rubric
    scorer, score = at(detail, "scorer"), at(detail, "score")
    require_same("step_id", rubric.step_id, at(detail, "step_id"))
    if not isinstance(scorer, str) or not scorer or scorer != _normalise_name(scorer):
        raise DefectError("scorer as a name, trimmed and in NFC", render(scorer))
    if rubric.scorer_must_not_be_author and identity(scorer) in asked.authors:
        raise DefectError("no scorer who is an author", render(scorer))
    item = at(detail, "episode_id")
    if item not in asked.items:
        raise DefectError("a score for an item of the step", render(item))
    if not _on_scale(score, rubric):
        ends = f"{canonical_json(float(rubric.low))} to {canonical_json(float(rubric.high))}"
        raise DefectError(f"score as a number from {ends}", render(score))
    comment = at(detail, "comment")
    if comment is not None and not isinstance(comment, str):
        raise DefectError("comment as text or null", render(comment))
    if rubric.timeout_seconds is not None:
        waited = seconds_between(asked.opened_at, at(entry, "at"))
        if waited >= rubric.timeout_seconds:
            raise DefectError(
                f"a score within {rubric.timeout_seconds} s of the opening", f"{waited} s"
            )
    return SubmittedScoreRecord(
        identity=identity(scorer), episode_id=cast("str", item), score=cast("float", score)
    )


def check_refused(entry: JsonObject, asked: RatingRequest) -> None:
    """Raise DefectError for a refusal that has no reason, or one that the score itself denies.

    An episode_id denies nothing: that of no item may be one once it was cleaned.
    """
    detail = at(entry, "detail")
    code, score, scorer = at(detail, "code"), at(detail, "score"), at(detail, "scorer")
    if not isinstance(code, str) or code not in REFUSALS:
        raise DefectError(f"code as one of {', '.join(sorted(REFUSALS))}", render(code))
    if not _is_number(score) and not isinstance(score, str):
        raise DefectError("score as a number or a text", render(score))
    for name in ("step_id", "scorer", "episode_id"):
        if not isinstance(at(detail, name), str):
            raise DefectError(f"{name} of a refused score as text", render(at(detail, name)))
    denied = {
        OFF_SCALE: not _is_number(score) or _on_scale(score, asked.rubric),
        NO_NUMBER: _is_number(score),
        IS_AUTHOR: not asked.rubric.scorer_must_not_be_author
        or identity(cast("str", scorer)) not in asked.authors,
    }
    if denied.get(code, False):
        raise DefectError(f"a score that is refused as {code} for that", render(detail))


def _normalise_name(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip())


def _is_number(value: JsonValue | Nothing) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _on_scale(score: JsonValue | Nothing, rubric: CommittedRubric) -> bool:
    return _is_number(score) and 0 <= rubric.scaled(cast("float", score)) <= 1


def rated_files(plan: CommittedPlan | None, trail: AuditTrail) -> frozenset[str]:
    """Return the files that there must be: one for each committed rating that was opened."""
    opened = [rating.step_id for rating in trail.ratings]
    rubrics = () if plan is None else plan.rubrics.values()
    return frozenset(rubric.path for rubric in rubrics if rubric.step_id in opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSources:
    """What the scores are checked against.

    `columns` is a Cause where nothing was scored again, None where no rating is committed.
    """

    plan: CommittedPlan
    folder: BundleFolder
    trail: AuditTrail
    columns: RatedColumns | Cause | None


def check_human_scores(sources: RatingSources, ledger: Ledger) -> Panels:
    """Make the check `human-scores`; return the result of each rating.

    Where the items cannot be drawn, those that the trail names serve, and the check fails, or
    is unavailable, for that.
    """
    rubrics = sources.plan.rubrics
    if rubrics and isinstance(sources.columns, Cause):
        ledger.cannot(CheckId.HUMAN_SCORES, sources.columns)
    panels = {
        step_id: _RatingCheck(rubric, sources, ledger).run() for step_id, rubric in rubrics.items()
    }
    ledger.completed(CheckId.HUMAN_SCORES, _summary(panels))
    return panels


def _summary(panels: Panels) -> str:
    if not panels:
        return "no rating was committed"
    counts = (f"{name}: {len(panel.counting)} scorers" for name, panel in panels.items())
    return ", ".join(counts)


class _RatingCheck:
    """One rating: its opening, the scores one by one, and its file."""

    def __init__(self, rubric: CommittedRubric, sources: RatingSources, ledger: Ledger) -> None:
        self._rubric = rubric
        self._sources = sources
        self._ledger = ledger
        submitted = [one for one in sources.trail.ratings if one.step_id == rubric.step_id]
        self._submitted = submitted[0] if submitted else None

    def run(self) -> Panel:
        items = self._items()
        values: dict[str, dict[str, Fraction]] = {}
        if self._submitted is not None:
            self._check_opening(self._submitted, items)
            values = self._values(self._submitted, items)
            self._check_end(self._submitted)
            self._check_file(self._submitted)
        complete = {name: given for name, given in values.items() if len(given) == len(items)}
        return Panel(rubric=self._rubric, items=items, complete=complete if items else {})

    def _items(self) -> Sequence[str]:
        columns = self._sources.columns
        if isinstance(columns, RatedColumns):
            return [item.episode_id for item in columns.items(self._rubric.items)]
        submitted = (
            NOTHING if self._submitted is None else at(self._submitted.opened, "detail", "items")
        )
        return (
            [item for item in submitted if isinstance(item, str)]
            if isinstance(submitted, list)
            else []
        )

    def _check_opening(self, submitted: SubmittedRating, items: Sequence[str]) -> None:
        rubric = self._rubric
        expected: JsonObject = {
            "step_id": rubric.step_id,
            "items": list(items),
            "minimum_scorers": rubric.minimum_scorers,
            "scorer_must_not_be_author": rubric.scorer_must_not_be_author,
            "timeout_seconds": rubric.timeout_seconds,
        }
        what = f"hitl_opened of {rubric.step_id}"
        self._ledger.compare(CheckId.HUMAN_SCORES, what, expected, at(submitted.opened, "detail"))

    def _values(
        self, submitted: SubmittedRating, items: Sequence[str]
    ) -> dict[str, dict[str, Fraction]]:
        """Return identity → item → value of every score that may stand, the first of each."""
        asked = RatingRequest(
            rubric=self._rubric,
            items=items,
            authors=_authors(self._sources.plan, self._sources.trail),
            opened_at=at(submitted.opened, "at"),
        )
        values: dict[str, dict[str, Fraction]] = {}
        for entry in submitted.scores:
            try:
                self._count(given_score(entry, asked), values)
            except DefectError as defect:
                self._wrong(entry, defect)
        for entry in submitted.refused:
            try:
                check_refused(entry, asked)
            except DefectError as defect:
                self._wrong(entry, defect)
        return values

    def _count(self, given: SubmittedScoreRecord, values: dict[str, dict[str, Fraction]]) -> None:
        of_person = values.setdefault(given.identity, {})
        if given.episode_id in of_person:
            wanted = f"one score of each person for {render(given.episode_id)}"
            raise DefectError(wanted, f"another one of {render(given.identity)}")
        of_person[given.episode_id] = self._rubric.scaled(given.score)

    def _wrong(self, entry: JsonObject, defect: DefectError) -> None:
        where = f"{render(at(entry, 'event_type'))} in entry {render(at(entry, 'seq'))}"
        self._ledger.wrong(CheckId.HUMAN_SCORES, f"{where} with {defect.expected}", defect.actual)

    def _check_end(self, submitted: SubmittedRating) -> None:
        """Let a rating be given up only when its time is over."""
        limit = self._rubric.timeout_seconds
        if at(submitted.end, "event_type") != "step_failed" or limit is None:
            return
        try:
            waited = seconds_between(at(submitted.opened, "at"), at(submitted.end, "at"))
        except DefectError as defect:
            self._ledger.wrong(CheckId.HUMAN_SCORES, defect.expected, defect.actual)
        else:
            if waited < limit:
                expected = f"step {self._rubric.step_id} failed {limit} s after its opening"
                self._ledger.wrong(CheckId.HUMAN_SCORES, expected, f"{waited} s")

    def _check_file(self, submitted: SubmittedRating) -> None:
        """Compare the file with the entries of the trail, line by line."""
        path, number = self._rubric.path, 0
        expected = [_line(entry) for entry in submitted.scores]
        try:
            for number, raw in enumerate(self._sources.folder.lines(path), start=1):
                where = f"{path} line {number}"
                seen = canonical_object(raw, where, self._ledger)
                if number <= len(expected):
                    wanted = expected[number - 1]
                    self._ledger.compare(CheckId.HUMAN_SCORES, where, wanted, seen)
        except DefectError as defect:
            self._ledger.wrong(CheckId.HUMAN_SCORES, defect.expected, defect.actual)
        if number != len(expected):
            lines = f"{path} with {len(expected)} lines, one for each entry human_score"
            self._ledger.wrong(CheckId.HUMAN_SCORES, lines, f"{number} lines")


def _line(entry: JsonObject) -> JsonObject:
    """Return the line that an entry `human_score` becomes."""
    detail = at(entry, "detail")
    submitted = detail if isinstance(detail, dict) else {}
    return {key: value for key, value in submitted.items() if key != "step_id"} | {
        "at": entry.get("at")
    }


def _authors(plan: CommittedPlan, trail: AuditTrail) -> frozenset[str]:
    """Return the identities of the authors of the template and of its constructs."""
    named = [at(plan.document, "metadata", "author")]
    named += text_members(trail.detail("activated", "authors")).values()
    return frozenset(identity(name) for name in named if isinstance(name, str))
