"""Episodes that are asked more than once: one score each, and how much answers vary.

Source: docs/contract/scoring.md §9; NIST AI 800-3 (performance on these items, on items like
these); Chen et al. 2021 (pass@k); Miller 2024 (variance between and within items). Everything is
exact and rounded once. n counts episodes, never repeats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import (
    EPISODE_RESULT,
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    Verdict,
)
from theatre.engine.scoring.arithmetic import (
    NANO,
    Z,
    nano_to_number,
    published_interval,
    ratio,
    rounded_number,
    rounded_or_none,
    undefined_interval,
    wilson_interval,
)

_MIN_UNITS = 2
METHOD = "within_item_normal"


class RepeatScores(NamedTuple):
    """How each repeat of an episode ended, and what it counts on each criterion, in billionths.

    None where the episode does not count on a criterion. What failed, refused or declined is 0.
    """

    statuses: tuple[InvocationStatus, ...]
    counted: Mapping[str, Sequence[int] | None]

    def as_facts(self) -> JsonObject:
        """Return what the journal keeps."""
        return {
            "statuses": [status.value for status in self.statuses],
            "scores": {
                name: None if nanos is None else [*nanos] for name, nanos in self.counted.items()
            },
        }

    @classmethod
    def of_facts(cls, facts: JsonValue) -> RepeatScores | None:
        """Read `as_facts` back; None for an episode that was asked once."""
        if facts is None:
            return None
        kept = cast("dict[str, Any]", facts)
        return cls(tuple(map(InvocationStatus, kept["statuses"])), kept["scores"])

    def as_document(self) -> JsonObject:
        """Return the member `repeats` of a line in `scores/per_episode.jsonl`."""
        return {
            "statuses": [status.value for status in self.statuses],
            "scores": {
                name: None if nanos is None else [nano_to_number(nano) for nano in nanos]
                for name, nanos in self.counted.items()
            },
        }


def deciding_repeat(statuses: Sequence[InvocationStatus]) -> int:
    """Return which repeat an episode's status is that of, from 0.

    The first success, else the first failure, else (all refused) the first one: neither does one
    answer hide that the episode was answered, nor a refusal that it failed.
    """
    if InvocationStatus.SUCCESS in statuses:
        return statuses.index(InvocationStatus.SUCCESS)
    return next((at for at, one in enumerate(statuses) if one.failed), 0)


def outcome_of_answer(status: InvocationStatus, outcome: EpisodeOutcome) -> EpisodeOutcome:
    """Return what one answer of an episode would count as; `outcome` is the episode's."""
    if status is InvocationStatus.SUCCESS:
        return outcome
    refused = status is InvocationStatus.REFUSED
    return EpisodeOutcome.EXCLUDED if refused else EpisodeOutcome.MISSING


def deciding_status(statuses: Sequence[InvocationStatus]) -> InvocationStatus:
    """Return what an episode's status is."""
    return statuses[deciding_repeat(statuses)]


def published_nano(result: CriterionResult) -> int | None:
    """Return what a line shows, in billionths: a failure as 0, every other gap as null."""
    if isinstance(result, Scored):
        return result.nano
    return 0 if result is Verdict.MISSING else None


def mean_result(status: InvocationStatus, results: Sequence[CriterionResult]) -> CriterionResult:
    """Return an episode's result on one criterion; `status` is the episode's.

    Where one repeat counts, each other one counts 0: a construct that could leave out a question
    in the draws in which it is unsure would be scored on the others alone.
    """
    if Verdict.NOT_APPLICABLE in results:
        return Verdict.NOT_APPLICABLE
    if Verdict.UNSCORED in results:
        return Verdict.UNSCORED
    counted = [published_nano(result) for result in results]
    succeeded = status is InvocationStatus.SUCCESS
    if all(nano is None for nano in counted):
        return Verdict.DECLINED if succeeded else Verdict.EXCLUDED
    if not succeeded:
        return Verdict.MISSING
    return Scored(round(Fraction(sum(nano or 0 for nano in counted), len(counted))))


@dataclass(slots=True)
class _Spread:
    """Running sums of one criterion over the episodes that count there."""

    items: int = 0
    vary: int = 0
    totals: int = 0
    squares_of_totals: int = 0
    is_graded: bool = False
    right: Counter[int] = field(default_factory=Counter)
    """How many repeats were right → episodes, where every score is 0 or 1."""

    def add(self, nanos: Sequence[int]) -> None:
        total = sum(nanos)
        self.items += 1
        self.vary += len(set(nanos)) > 1
        self.totals += total
        self.squares_of_totals += total * total
        self.is_graded = self.is_graded or any(nano not in {0, NANO} for nano in nanos)
        self.right[total // NANO] += 1


class RepeatTally:
    """How much answers vary between and within episodes; takes them in dataset order.

    `weights` are exact and sum to 1.
    """

    def __init__(self, weights: Mapping[str, Fraction], repeats: int) -> None:
        self._k = repeats
        self._weights = weights
        self._statuses: Counter[InvocationStatus] = Counter()
        self._spreads = {name: _Spread() for name in weights}
        self._within: Counter[tuple[str, str]] = Counter()
        """Two criteria → Σ over episodes of k² times the covariance of their repeats."""

    def add(self, scores: RepeatScores) -> None:
        """Take one episode that was run."""
        self._statuses.update(scores.statuses)
        counted = {name: nanos for name, nanos in scores.counted.items() if nanos is not None}
        for name, nanos in counted.items():
            self._spreads[name].add(nanos)
            for other, others in counted.items():
                products = sum(a * b for a, b in zip(nanos, others, strict=True))
                self._within[name, other] += self._k * products - sum(nanos) * sum(others)

    def as_document(self, scores: Mapping[str, Fraction | None], *, clustered: bool) -> JsonObject:
        """Return the member `repeats` of the aggregate.

        `scores` has the unrounded score of each criterion and, by `composite_score`, of all.
        """
        asked = self._statuses.total()
        failed = sum(n for status, n in self._statuses.items() if status.failed)
        return {
            "k": self._k,
            "asked": asked,
            "statuses": {status.value: self._statuses[status] for status in InvocationStatus},
            "failure_rate": ratio(failed, asked),
            "criteria": {
                name: self._criterion(name, scores[name], clustered=clustered)
                for name in self._weights
            },
            "composite_score": {
                "these_items": self._interval(scores["composite_score"], self._error(self._weights))
            },
        }

    def _criterion(self, name: str, score: Fraction | None, *, clustered: bool) -> JsonObject:
        spread, k = self._spreads[name], self._k
        within = between = None
        if spread.items:
            within = Fraction(self._within[name, name], spread.items * k * (k - 1) * NANO**2)
        if within is not None and spread.items >= _MIN_UNITS:
            around = spread.squares_of_totals - Fraction(spread.totals**2, spread.items)
            of_means = around / (k * k * (spread.items - 1) * NANO**2)
            between = max(Fraction(0), of_means - within / k)
        return {
            "items": spread.items,
            "items_that_vary": spread.vary,
            "between_item_variance": rounded_or_none(between),
            "within_item_variance": rounded_or_none(within),
            "pass": None
            if spread.is_graded or not spread.items
            else self._pass(spread, clustered=clustered),
            "these_items": self._interval(score, self._error({name: Fraction(1)})),
        }

    def _pass(self, spread: _Spread, *, clustered: bool) -> JsonObject:
        """Return pass@j and pass^j for j = 1 … k, unbiased, with the intervals of j = k."""
        k, items = self._k, spread.items
        any_right, all_right = [], []
        for j in range(1, k + 1):
            none = sum(n * math.comb(k - right, j) for right, n in spread.right.items())
            every = sum(n * math.comb(right, j) for right, n in spread.right.items())
            any_right.append(rounded_number(1 - Fraction(none, items * math.comb(k, j))))
            all_right.append(rounded_number(Fraction(every, items * math.comb(k, j))))

        def interval(right: int) -> JsonObject:
            is_known = items >= _MIN_UNITS and not clustered
            return wilson_interval(right, items) if is_known else undefined_interval()

        return {
            "any": [*any_right],
            "any_interval": interval(items - spread.right[0]),
            "all": [*all_right],
            "all_interval": interval(spread.right[k]),
        }

    def _error(self, weights: Mapping[str, Fraction]) -> Fraction | None:
        """Return the variance of a weighted mean when the same episodes are asked again."""
        items = {name: self._spreads[name].items for name, weight in weights.items() if weight}
        if not all(items.values()):
            return None
        summed = sum(
            (
                weights[one] * weights[other] * Fraction(within, items[one] * items[other])
                for (one, other), within in self._within.items()
                if one in items and other in items
            ),
            Fraction(0),
        )
        return summed / (self._k**2 * (self._k - 1) * NANO**2)

    @staticmethod
    def _interval(score: Fraction | None, error: Fraction | None) -> JsonObject:
        """Return the normal interval; undefined where no answer varied."""
        if score is None or not error:
            return undefined_interval()
        half = Z * math.sqrt(error)
        return published_interval(float(score) - half, float(score) + half, METHOD)


def certified_repeats(aggregate: JsonObject) -> JsonObject | None:
    """Return the certificate's member `repeats`: both estimands; None where each was asked once."""
    found = cast("dict[str, Any] | None", aggregate.get("repeats"))
    if found is None:
        return None
    intervals = cast("JsonObject", aggregate["score_intervals"])
    return {
        **found,
        "criteria": {
            name: {**one, "items_like_these": intervals[name]}
            for name, one in found["criteria"].items()
        },
        "composite_score": {
            **found["composite_score"],
            "items_like_these": intervals["composite_score"],
        },
    }


# What an invocation record says: the calls of each round, and which of them count.


def rounds_of(record: JsonObject) -> list[list[JsonObject]]:
    """Return the calls of each time that an episode was asked."""
    calls = cast("list[JsonObject]", record["calls"])
    return [list(made) for _, made in groupby(calls, key=itemgetter("repeat"))]


def answering_repeat(rounds: Sequence[Sequence[JsonObject]]) -> int:
    """Return which round's status is the episode's, from 0."""
    if len(rounds) == 1:
        return 0
    ends = [cast("JsonObject", last_attempt(made[-1])["response"])["status"] for made in rounds]
    return deciding_repeat([InvocationStatus(cast("str", end)) for end in ends])


def answering_round(record: JsonObject) -> list[JsonObject]:
    """Return the calls of the round whose status is the episode's: of the first, if asked once."""
    rounds = rounds_of(record)
    return rounds[answering_repeat(rounds)]


def last_attempt(call: JsonObject) -> JsonObject:
    """Return the attempt whose response is the call's outcome."""
    return cast("list[JsonObject]", call["attempts"])[-1]


def outputs_of(record: JsonObject, repeat: int | None = None) -> dict[str, JsonObject]:
    """Return construct → `output_data` of the hops that succeeded in one round, in order.

    Without a number: of the round whose status is the episode's.

    Of an interactive episode: the runner's result, in the place of its first construct's output.
    """
    if EPISODE_RESULT in record:
        played = record[EPISODE_RESULT]
        construct = cast("str", rounds_of(record)[0][0]["construct_id"])
        return {construct: played} if isinstance(played, dict) else {}
    outputs = {}
    calls = cast("list[JsonObject]", record["calls"])
    asked = [call for call in calls if call["repeat"] == repeat]
    for call in answering_round(record) if repeat is None else asked:
        response = cast("JsonObject", last_attempt(call)["response"])
        if response["status"] == InvocationStatus.SUCCESS.value:
            outputs[cast("str", call["construct_id"])] = cast("JsonObject", response["output_data"])
    return outputs
