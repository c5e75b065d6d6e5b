"""What people gave, checked against what they were asked: the check `human-scores`.

Source: docs/contract/evidence.md §9. Everything is taken from the audit trail; the files in
`hitl/` must repeat it.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import NamedTuple

from theatre.engine.bundle_check.arithmetic import (
    COMPOSITE,
    NANO,
    REFUSALS,
    Rating,
    Tally,
    Z,
    identity,
    normalised,
    published,
)
from theatre.engine.bundle_check.audit_trail import SubmittedRating
from theatre.engine.bundle_check.evidence import Evidence
from theatre.engine.bundle_check.folder import canonical_object
from theatre.engine.bundle_check.measures import Labelled
from theatre.engine.bundle_check.plan import CommittedPlan, CommittedRubric
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Nothing,
    at,
    is_number,
    render,
    require_same,
    text_members,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json
from theatre.engine.clock import parse_rfc3339
from theatre.engine.coin import Draws
from theatre.engine.errors import ClockError
from theatre.engine.models import EpisodeOutcome, GroundTruthEpisode

MIN_UNITS = 2


class Panel(NamedTuple):
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
    def rating(self) -> Rating:
        """Return the scores of those who count, a row an item; none where too few are complete."""
        counting = list(self.complete.values()) if self.enough else []
        return Rating([[values[item] for values in counting] for item in self.items])

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
            "human": published(self.rating.mean),
            "items": len(self.items),
            "scorers": self.rating.scorers,
            "agreement": self.rating.agreement(),
        }


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

    def labelled(self, name: str, panel: Panel) -> Labelled:
        """Return what a panel said of the answers of a criterion, next to its scorer's numbers."""
        units = self.items(panel.rubric.items)
        said = {
            unit: self.sums[name][unit] / (self.counts[name][unit] * NANO)
            for _, _, unit in self._scored
            if self.counts[name][unit]
        }
        rated = [
            (float(sum(row, Fraction(0)) / len(row)), said.pop(units[item]))
            for item, row in zip(panel.items, panel.rating.rows, strict=True)
            if row and units[item] in said
        ]
        return Labelled(
            step_id=panel.rubric.step_id,
            scorers=panel.rating.scorers,
            pairs=rated,
            others=[*said.values()],
            clustered=bool(self._clusters),
        )

    def items(self, count: int) -> dict[str, int]:
        """Return the `count` scored episodes with the smallest draws, in their order, by unit."""
        return {name: unit for _, name, unit in heapq.nsmallest(count, self._scored)}

    def _unit(self, cluster_key: str | None) -> int:
        unit = self._units
        if cluster_key is not None:
            unit = self._clusters.setdefault(cluster_key, unit)
        if unit == self._units:
            self._units += 1
            for column in (*self.sums.values(), *self.counts.values()):
                column.append(0)
        return unit


class Mean(NamedTuple):
    """One mean and its weight in a score: unit → sum and number of its values, at least one."""

    weight: Fraction
    values: Mapping[int, tuple[Fraction, int]]


class HumanParts:
    """What people gave before the first aggregation: means, documents, bounds of intervals."""

    def __init__(self, tally: Tally, columns: RatedColumns | None, panels: Sequence[Panel]) -> None:
        self._plan = tally.plan
        self._columns = columns
        self._asked = [panel for panel in panels if panel.rubric.in_aggregate]
        self._shared = {
            panel.rubric.criterion_id: panel
            for panel in self._asked
            if panel.rubric.share is not None
        }
        self.means = {name: self._shared[name].rating.mean for name in self._plan.human}
        """The human mean of each criterion that people have a share in."""
        self._machine = tally.machine_means()
        self._scores = tally.with_people(self._machine, self.means)

    def as_document(self) -> JsonObject | None:
        """Return `human_scores` of the aggregate; None where no people were asked."""
        if not self._asked or self._columns is None:
            return None
        return {
            panel.rubric.step_id: panel.as_document(
                self._machine.get(panel.rubric.criterion_id or "")
            )
            for panel in self._asked
        }

    def bounds(self, name: str) -> tuple[float | None, float | None]:
        """Return the interval round a mixed score, (None, None) where a mean tells nothing."""
        columns = self._columns
        if columns is None:
            return None, None
        units = columns.items(max((panel.rubric.items for panel in self._asked), default=0))
        means = {one: self._means(one, columns, units) for one in self._plan.ids}
        if name != COMPOSITE:
            return mixed_bounds(self._scores[name], means[name])
        total = sum(self._plan.shares)
        weights = {
            one: Fraction(share, total)
            for one, share in zip(self._plan.ids, self._plan.shares, strict=True)
        }
        parts = [
            Mean(weights[one] * mean.weight, mean.values) for one in means for mean in means[one]
        ]
        return mixed_bounds(self._plan.weighted(self._scores), parts)

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
        panel = self._shared[name]
        for item, row in zip(panel.items, panel.rating.rows, strict=True):
            if row:
                total, count = rated.get(units[item], (Fraction(0), 0))
                rated[units[item]] = total + sum(row, Fraction(0)) / len(row), count + 1
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


def check_human_scores(
    evidence: Evidence, plan: CommittedPlan, columns: RatedColumns | Cause | None
) -> Mapping[str, Panel]:
    """Make the check `human-scores`; return step_id → the result of each committed rating.

    `columns` is a Cause where nothing was scored again, None where no rating is committed. Where
    the items cannot be drawn, those that the trail names serve, and the check fails, or is
    unavailable, for that.
    """
    if plan.rubrics and isinstance(columns, Cause):
        evidence.ledger.cannot(CheckId.HUMAN_SCORES, columns)
    panels = {
        step_id: _RatingCheck(evidence, plan, rubric, columns).run()
        for step_id, rubric in plan.rubrics.items()
    }
    counts = [f"{name}: {panel.rating.scorers} scorers" for name, panel in panels.items()]
    evidence.ledger.completed(CheckId.HUMAN_SCORES, ", ".join(counts) or "no rating was committed")
    return panels


class _RatingCheck:
    """One rating: its opening, the scores one by one, and its file."""

    def __init__(
        self,
        evidence: Evidence,
        plan: CommittedPlan,
        rubric: CommittedRubric,
        columns: RatedColumns | Cause | None,
    ) -> None:
        self._rubric = rubric
        self._evidence = evidence
        self._ledger = evidence.ledger
        ratings = (one for one in evidence.trail.ratings if one.step_id == rubric.step_id)
        self._submitted = next(ratings, None)
        self._opened = NOTHING if self._submitted is None else self._submitted.opened
        authors = [at(plan.document, "metadata", "author")]
        authors += text_members(evidence.trail.detail("activated", "authors")).values()
        self._authors = {identity(name) for name in authors if isinstance(name, str)}
        self._items: Sequence[str]
        if isinstance(columns, RatedColumns):
            self._items = list(columns.items(rubric.items))
        else:
            named = at(self._opened, "detail", "items")
            listed = named if isinstance(named, list) else []
            self._items = [item for item in listed if isinstance(item, str)]

    def run(self) -> Panel:
        rubric, items, submitted = self._rubric, self._items, self._submitted
        values: dict[str, dict[str, Fraction]] = {}
        if submitted is not None:
            asked: JsonObject = {
                "step_id": rubric.step_id,
                "items": list(items),
                "minimum_scorers": rubric.minimum_scorers,
                "scorer_must_not_be_author": rubric.scorer_must_not_be_author,
                "timeout_seconds": rubric.timeout_seconds,
            }
            seen, what = at(submitted.opened, "detail"), f"hitl_opened of {rubric.step_id}"
            self._ledger.compare(CheckId.HUMAN_SCORES, what, asked, seen)
            for entry in submitted.scores:
                with self._noting(entry):
                    self._count(entry, values)
            for entry in submitted.refused:
                with self._noting(entry):
                    self._check_refused(at(entry, "detail"))
            with self._ledger.noting(CheckId.HUMAN_SCORES):
                self._check_end(submitted)
            self._check_file(submitted)
        complete = {name: given for name, given in values.items() if len(given) == len(items)}
        return Panel(rubric=rubric, items=items, complete=complete if items else {})

    def _noting(self, entry: JsonObject) -> AbstractContextManager[None]:
        where = f"{render(at(entry, 'event_type'))} in entry {render(at(entry, 'seq'))} with "
        return self._ledger.noting(CheckId.HUMAN_SCORES, where=where)

    def _count(self, entry: JsonObject, values: dict[str, dict[str, Fraction]]) -> None:
        """Add a score to identity → item → value. Raises DefectError for one that may not count."""
        rubric, detail = self._rubric, at(entry, "detail")
        scorer, score, item = at(detail, "scorer"), at(detail, "score"), at(detail, "episode_id")
        require_same("step_id", rubric.step_id, at(detail, "step_id"))
        if not isinstance(scorer, str) or not identity(scorer) or scorer != normalised(scorer):
            raise DefectError("scorer as a name, trimmed and in NFC", render(scorer))
        # An author must not rate his own work, however he spells his name.
        if rubric.scorer_must_not_be_author and identity(scorer) in self._authors:
            raise DefectError("no scorer who is an author", render(scorer))
        if not isinstance(item, str) or item not in self._items:
            raise DefectError("a score for an item of the step", render(item))
        if not is_number(score) or not self._is_on_scale(score):
            ends = f"{canonical_json(float(rubric.low))} to {canonical_json(float(rubric.high))}"
            raise DefectError(f"score as a number from {ends}", render(score))
        comment = at(detail, "comment")
        if comment is not None and not isinstance(comment, str):
            raise DefectError("comment as text or null", render(comment))
        if rubric.timeout_seconds is not None:
            waited = _seconds_between(at(self._opened, "at"), at(entry, "at"))
            if waited >= rubric.timeout_seconds:
                expected = f"a score within {rubric.timeout_seconds} s of the opening"
                raise DefectError(expected, f"{waited} s")
        of_person = values.setdefault(identity(scorer), {})
        if item in of_person:  # one voice each: who rates twice would weigh double
            wanted = f"one score of each person for {render(item)}"
            raise DefectError(wanted, f"another one of {render(identity(scorer))}")
        of_person[item] = rubric.scaled(score)

    def _check_refused(self, detail: JsonValue | Nothing) -> None:
        """Raise DefectError for a refusal that has no reason, or one that the score itself denies.

        An episode_id denies nothing: that of no item may be one once it was cleaned.
        """
        code, score, scorer = at(detail, "code"), at(detail, "score"), at(detail, "scorer")
        if not isinstance(code, str) or code not in REFUSALS:
            raise DefectError(f"code as one of {', '.join(sorted(REFUSALS))}", render(code))
        if not is_number(score) and not isinstance(score, str):
            raise DefectError("score as a number or a text", render(score))
        for name in ("step_id", "scorer", "episode_id"):
            if not isinstance(at(detail, name), str):
                raise DefectError(f"{name} of a refused score as text", render(at(detail, name)))
        barred = identity(str(scorer)) in self._authors
        # An issuer who may refuse for nothing picks the scores that count.
        denied = {
            OFF_SCALE: not is_number(score) or self._is_on_scale(score),
            NO_NUMBER: is_number(score),
            IS_AUTHOR: not (self._rubric.scorer_must_not_be_author and barred),
        }
        if denied.get(code, False):
            raise DefectError(f"a score that is refused as {code} for that", render(detail))

    def _is_on_scale(self, score: float) -> bool:
        return 0 <= self._rubric.scaled(score) <= 1

    def _check_end(self, submitted: SubmittedRating) -> None:
        """Let a rating be given up only when its time is over."""
        limit = self._rubric.timeout_seconds
        if at(submitted.end, "event_type") != "step_failed" or limit is None:
            return
        waited = _seconds_between(at(submitted.opened, "at"), at(submitted.end, "at"))
        # A rating that went badly must not be given up before its time.
        if waited < limit:
            expected = f"step {self._rubric.step_id} failed {limit} s after its opening"
            raise DefectError(expected, f"{waited} s")

    def _check_file(self, submitted: SubmittedRating) -> None:
        """Compare the file with the entries of the trail, line by line."""
        path, number = self._rubric.path, 0
        expected: list[JsonObject] = []
        for entry in submitted.scores:
            detail = at(entry, "detail")
            given = detail if isinstance(detail, dict) else {}
            line = {key: value for key, value in given.items() if key != "step_id"}
            expected.append(line | {"at": entry.get("at")})
        with self._ledger.noting(CheckId.HUMAN_SCORES):
            for number, raw in enumerate(self._evidence.folder.lines(path), start=1):
                where = f"{path} line {number}"
                seen = canonical_object(raw, where, self._ledger)
                if number <= len(expected):
                    wanted = expected[number - 1]
                    self._ledger.compare(CheckId.HUMAN_SCORES, where, wanted, seen)
        if number != len(expected):
            lines = f"{path} with {len(expected)} lines, one for each entry human_score"
            self._ledger.wrong(CheckId.HUMAN_SCORES, lines, f"{number} lines")


def _seconds_between(earlier: JsonValue | Nothing, later: JsonValue | Nothing) -> float:
    """Return the seconds from one time to another. Raises DefectError for what is no time."""
    try:
        moments = [parse_rfc3339(one if isinstance(one, str) else "") for one in (earlier, later)]
    except ClockError as error:
        raise DefectError("two times in RFC 3339", f"{render(earlier)}, {render(later)}") from error
    return (moments[1] - moments[0]).total_seconds()
