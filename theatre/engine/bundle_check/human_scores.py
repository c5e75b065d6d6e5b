"""What people gave, checked against what they were asked: the check `human-scores`.

Source: docs/contract/evidence.md §9. Everything is taken from the audit trail; the files in
`hitl/` must repeat it.
"""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from theatre.engine.bundle_check.arithmetic import COMPOSITE, NANO, Plan, Z, published
from theatre.engine.bundle_check.audit_trail import AuditTrail, SubmittedRating
from theatre.engine.bundle_check.folder import BundleFolder, canonical_object
from theatre.engine.bundle_check.plan import CommittedPlan, CommittedRubric
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    require_same,
    text_members,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import Draws
from theatre.engine.errors import ClockError
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode

MIN_ITEMS, MIN_SCORERS = 10, 2
"""Below either, alpha would say more about chance than about people."""

MIN_UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The result of a rating: `items` by episode_id as they were drawn, and who is complete.

    `complete` maps the identity of each scorer who rated every item to item → value in
    [0, 1].
    """

    rubric: CommittedRubric
    items: Sequence[str]
    complete: Mapping[str, Mapping[str, Fraction]]

    @property
    def enough(self) -> bool:
        """Return whether so many people scored every item as were asked for."""
        return len(self.complete) >= self.rubric.minimum_scorers

    @property
    def counting(self) -> Sequence[Mapping[str, Fraction]]:
        """Return the values of the scorers who count; empty where too few did."""
        return list(self.complete.values()) if self.enough else []

    @property
    def item_values(self) -> Mapping[str, Sequence[Fraction]]:
        """Return what each item was given by those who count."""
        return {item: [values[item] for values in self.counting] for item in self.items}

    @property
    def item_means(self) -> Mapping[str, Fraction]:
        """Return the value of each item: the mean over those who count; empty without any."""
        if not self.counting:
            return {}
        return {item: _mean(values) for item, values in self.item_values.items()}

    @property
    def mean(self) -> Fraction | None:
        """Return the human mean, over the items; None where no scorer counts."""
        means = self.item_means
        return _mean(list(means.values())) if means else None

    @property
    def lateness(self) -> str:
        """Return what is said of a step that was given up."""
        rubric = self.rubric
        return (
            f"expected {rubric.minimum_scorers} people with a score for each of "
            f"{len(self.items)} items within {canonical_json(rubric.timeout_seconds)} s, "
            f"got {len(self.complete)}"
        )

    def as_document(self, machine: Fraction | None) -> JsonObject:
        """Return the rating's member of `human_scores`; `machine` is its criterion's mean."""
        return {
            "criterion_id": self.rubric.criterion_id,
            "share": self.rubric.share,
            "machine": published(machine),
            "human": published(self.mean),
            "items": len(self.items),
            "scorers": len(self.counting),
            "agreement": self._agreement(),
        }

    def _agreement(self) -> JsonObject:
        value: JsonValue = None
        reason: JsonValue = None
        if not self.counting:
            reason = "not-rated"
        elif len(self.counting) < MIN_SCORERS:
            reason = "fewer-than-2-scorers"
        elif len(self.items) < MIN_ITEMS:
            reason = "fewer-than-10-items"
        else:
            alpha = _alpha(list(self.item_values.values()))
            value, reason = published(alpha), "no-variation" if alpha is None else None
        return {"method": "krippendorff-alpha-interval", "value": value, "reason": reason}


def _alpha(items: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return 1 - observed / expected disagreement; None where all values are equal.

    Every item has a value of every person, two or more of them.
    """
    every = [value for values in items for value in values]
    expected = _squared_differences(every) / (len(every) * (len(every) - 1))
    if not expected:
        return None
    within = sum((_squared_differences(v) / (len(v) - 1) for v in items), Fraction(0))
    return 1 - within / len(every) / expected


def _squared_differences(values: Sequence[Fraction]) -> Fraction:
    """Return the sum of (a - b)² over all ordered pairs: 2 · (n · Σ a² - (Σ a)²)."""
    total = sum(values, Fraction(0))
    return 2 * (len(values) * sum((v * v for v in values), Fraction(0)) - total * total)


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


@dataclass(frozen=True, slots=True)
class Item:
    """An episode that people rate, and the unit that it belongs to."""

    episode_id: str
    unit: int


class RatedColumns:
    """What the episodes of a rated run add to each mean, and which of them people are asked about.

    A unit is an episode that was run, or a cluster. `sums` and `counts` have an entry a unit for
    each criterion, of what counts in its score, in billionths.
    """

    def __init__(self, criteria: Sequence[str], draws: Draws) -> None:
        self.sums: dict[str, list[int]] = {name: [] for name in criteria}
        self.counts: dict[str, list[int]] = {name: [] for name in criteria}
        self._draws = draws
        self._units = 0
        self._clusters: dict[str, int] = {}
        self._scored: list[tuple[bytes, str, int]] = []

    def add(
        self,
        episode: GroundTruthEpisode,
        outcome: EpisodeOutcome,
        scores: Mapping[str, float | None],
    ) -> None:
        """Take the line of one episode: what counts in a mean is a number there."""
        if outcome is EpisodeOutcome.NOT_RUN:
            return
        unit = self._unit(episode.cluster_key)
        for criterion, score in scores.items():
            if score is not None:
                self.sums[criterion][unit] += round(score * NANO)
                self.counts[criterion][unit] += 1
        if outcome is EpisodeOutcome.SCORED:
            rank = self._draws.item_rank(episode.episode_id)
            self._scored.append((rank, episode.episode_id, unit))

    def machine(self, criterion: str) -> Fraction | None:
        """Return what machines measured: the mean over what counts, None where nothing does."""
        counted = sum(self.counts[criterion])
        return Fraction(sum(self.sums[criterion]), counted * NANO) if counted else None

    def items(self, count: int) -> list[Item]:
        """Return the `count` scored episodes with the smallest draws, in their order."""
        return [Item(name, unit) for _, name, unit in heapq.nsmallest(count, self._scored)]

    def _unit(self, cluster_key: str | None) -> int:
        unit = self._units
        if cluster_key is not None:
            unit = self._clusters.setdefault(cluster_key, unit)
        if unit == self._units:
            self._units += 1
            for column in (*self.sums.values(), *self.counts.values()):
                column.append(0)
        return unit


@dataclass(frozen=True, slots=True)
class Mean:
    """One mean and its weight in a score: unit → sum and number of its values, at least one."""

    weight: Fraction
    values: Mapping[int, tuple[Fraction, int]]


class HumanParts:
    """What people gave before the first aggregation: means, documents, bounds of intervals."""

    def __init__(self, plan: Plan, columns: RatedColumns | None, panels: Sequence[Panel]) -> None:
        self._plan = plan
        self._columns = columns
        self._asked = [panel for panel in panels if panel.rubric.in_aggregate]
        self._shared = {
            panel.rubric.criterion_id: panel
            for panel in self._asked
            if panel.rubric.share is not None
        }

    @property
    def means(self) -> dict[str, Fraction | None]:
        """Return the human mean of each criterion that people have a share in."""
        return {name: self._shared[name].mean for name in self._plan.human}

    def as_document(self) -> JsonObject | None:
        """Return `human_scores` of the aggregate; None where no people were asked."""
        columns = self._columns
        if not self._asked or columns is None:
            return None
        return {
            panel.rubric.step_id: panel.as_document(
                None
                if panel.rubric.criterion_id is None
                else columns.machine(panel.rubric.criterion_id)
            )
            for panel in self._asked
        }

    def bounds(self, name: str) -> tuple[float | None, float | None]:
        """Return the interval round a mixed score, (None, None) where a mean tells nothing."""
        columns = self._columns
        if columns is None:
            return None, None
        drawn = columns.items(max((panel.rubric.items for panel in self._asked), default=0))
        units = {item.episode_id: item.unit for item in drawn}
        means = {one: self._means(one, columns, units) for one in self._plan.ids}
        if name != COMPOSITE:
            return mixed_bounds(self._score(name, columns), means[name])
        total = sum(self._plan.shares)
        weights = {
            one: Fraction(share, total)
            for one, share in zip(self._plan.ids, self._plan.shares, strict=True)
        }
        score = self._plan.weighted({one: self._score(one, columns) for one in self._plan.ids})
        parts = [
            Mean(weights[one] * mean.weight, mean.values) for one in means for mean in means[one]
        ]
        return mixed_bounds(score, parts)

    def _score(self, name: str, columns: RatedColumns) -> Fraction | None:
        machine, share = columns.machine(name), self._plan.human.get(name)
        if share is None:
            return machine
        human = self._shared[name].mean
        if human is None or (machine is None and share < 1):
            return None
        return (1 - share) * (machine or Fraction(0)) + share * human

    def _means(self, name: str, columns: RatedColumns, units: Mapping[str, int]) -> list[Mean]:
        """Return the means that a score is made of; `units` has the unit of each item."""
        share = self._plan.human.get(name, Fraction(0))
        pairs = zip(columns.sums[name], columns.counts[name], strict=True)
        measured = {
            unit: (Fraction(total, NANO), count)
            for unit, (total, count) in enumerate(pairs)
            if count
        }
        machine = Mean(1 - share, measured)
        if name not in self._shared:
            return [machine]
        rated: dict[int, tuple[Fraction, int]] = {}
        for item, value in self._shared[name].item_means.items():
            total, count = rated.get(units[item], (Fraction(0), 0))
            rated[units[item]] = total + value, count + 1
        return [machine, Mean(share, rated)]


def mixed_bounds(
    score: Fraction | None, means: Sequence[Mean]
) -> tuple[float | None, float | None]:
    """Return score ± z · √variance within 0 and 1, or nothing where one of the means is alone."""
    weighed = [mean for mean in means if mean.weight]
    if score is None or any(len(mean.values) < MIN_UNITS for mean in weighed):
        return None, None
    variance = _variance(weighed)
    if not variance:
        return None, None
    middle, error = float(score), Z * math.sqrt(variance)
    return round(max(0.0, middle - error), 6), round(min(1.0, middle + error), 6)


def _variance(means: Sequence[Mean]) -> float:
    """Return Σ u² over the units; exactly 0 where every u is.

    A u is a sum of fractions times √(n / (n - 1)): those of one n are added exactly, so that
    means which cancel each other leave nothing.
    """
    by_size: dict[int, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for mean in means:
        total = sum((total for total, _ in mean.values.values()), Fraction(0))
        count = sum(count for _, count in mean.values.values())
        middle, weight = total / count, mean.weight / count
        added = by_size[len(mean.values)]
        for unit, (of_unit, values) in mean.values.items():
            added[unit] += weight * (of_unit - middle * values)
    whole: dict[int, float] = defaultdict(float)
    for size, added in by_size.items():
        for unit, value in added.items():
            whole[unit] += float(value) * math.sqrt(size / (size - 1))
    return math.fsum(value * value for value in whole.values())


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
