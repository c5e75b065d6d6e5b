"""The pinned scorers, applied to recorded answers, and the sums of their scores.

Source: docs/scorers.md; docs/contract/evidence.md §8; docs/contract/scoring.md §5. Which scorer is
asked about what, and what an answer comes to that none is asked about, is decided here, without the
engine's own provider. Of the engine's `scoring` the check shares the bootstrap alone: its draws are
specified number by number.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from theatre.engine.bundle_check.arithmetic import COMPOSITE, NANO, Tally
from theatre.engine.bundle_check.data_audit import BaselineDraw, DataAudit
from theatre.engine.bundle_check.human_scores import HumanParts, Panel, RatedColumns
from theatre.engine.bundle_check.plan import CommittedPlan
from theatre.engine.bundle_check.report import NOTHING, Nothing, at
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line
from theatre.engine.coin import Draws
from theatre.engine.models import (
    EpisodeOutcome,
    GroundTruthEpisode,
    InvocationStatus,
    Judgement,
    Scorer,
    ScoringCase,
)
from theatre.engine.scoring.bootstrap import Sample, resampled_interval

GOLD = "gold:"
NOT_APPLICABLE, DECLINED, UNSCORED = "not_applicable", "declined", "unscored"
UNREADABLE = 0
"""What an answer scores that holds nothing where the criterion looks."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

BINS = 10

MAX_EXACT = 1000
"""Up to so many probabilities in a bin their law is exact, above it is taken as normal."""

Z_95 = 1.6448536269514722


class EpisodeAnswer(NamedTuple):
    """A recorded answer: its status and, on success, the output of each hop in call order.

    `judgements` has the recorded exchanges of each criterion that a judge was asked about, `sent`
    is the episode's input as the record has it, `judge_seed` what the coin draws for a judge.
    `repeats` are all answers to an episode that was asked more than once, whose status this one's
    is.
    """

    status: InvocationStatus
    hops: Mapping[str, JsonObject]
    judgements: Mapping[str, Sequence[JsonObject]] = MappingProxyType({})
    sent: JsonValue = None
    judge_seed: str = ""
    repeats: tuple[EpisodeAnswer, ...] = ()

    @property
    def failures(self) -> int:
        """Return how many of its answers failed."""
        return sum(one.status.failed for one in self.repeats or (self,))

    @property
    def succeeded(self) -> bool:
        """Return whether there is something to score."""
        return self.status is InvocationStatus.SUCCESS

    @property
    def confidence(self) -> JsonValue:
        """Return what the last output has at `confidence`, null where it has nothing there."""
        outputs = list(self.hops.values())
        return outputs[-1].get("confidence") if outputs else None


Held: TypeAlias = "Mapping[str, JsonValue | Nothing]"
"""Criterion → what an answer is checked against; NOTHING where it does not apply."""


class _Criterion(NamedTuple):
    name: str
    scorer: Scorer
    params: JsonObject

    def case(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, expected: JsonValue | Nothing
    ) -> ScoringCase | float | str:
        """Return what the scorer must see, or the result where no scorer is asked."""
        if expected is NOTHING:
            return NOT_APPLICABLE
        value = self._value(answer.hops)
        if value is NOTHING:
            return UNREADABLE
        return ScoringCase(
            input_data=episode.input_data,
            expected=expected,
            answer=value,
            params=self.params,
            hops=answer.hops,
            exchanges=answer.judgements.get(self.name, ()),
            judge_seed=answer.judge_seed,
        )

    def result(
        self,
        episode: GroundTruthEpisode,
        answer: EpisodeAnswer | None,
        expected: JsonValue | Nothing,
    ) -> float | str:
        """Return the number of the scorer; a word, or 0, where it was not asked or gave none."""
        if answer is None or not answer.succeeded:
            return NOT_APPLICABLE if expected is NOTHING else UNREADABLE
        case = self.case(episode, answer, expected)
        if not isinstance(case, ScoringCase):
            return case
        try:
            number: object = self.scorer.score(case)
        except Exception:  # noqa: BLE001  # a plug-in may raise anything: that is a value, not a crash
            return UNSCORED
        if number is None:
            return DECLINED
        # Of a plug-in's numbers only plain ones count; numpy's write themselves otherwise.
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return UNSCORED
        return float(number) if isinstance(number, float) else number

    def expected(self, episode: GroundTruthEpisode, gold: JsonObject | None) -> JsonValue | Nothing:
        """Return what the answer is checked against; NOTHING where the criterion does not apply."""
        path, whole = self.params.get("expected"), episode.expected_output
        if not isinstance(path, str):
            return NOTHING if whole is None and self.scorer.needs_expectation else whole
        if not path.startswith(GOLD):
            return NOTHING if whole is None else at_path(whole, path)
        path = path.removeprefix(GOLD)
        if gold is None:
            return NOTHING
        return at_path(gold, path) if path else gold

    def _value(self, hops: Mapping[str, JsonObject]) -> JsonValue | Nothing:
        """Return what lies at `field` of the last output, or at `construct:path` of a hop's."""
        path, outputs = self.params.get("field"), [*hops.values()]
        last = outputs[-1] if outputs else None
        if not isinstance(path, str):
            return NOTHING if last is None else last
        construct, named, inner = path.partition(":")
        output, inner = (hops.get(construct), inner) if named else (last, path)
        return NOTHING if output is None else at_path(output, inner)


class PinnedScorers:
    """What each committed criterion is scored by; every scorer is there in its pinned version."""

    def __init__(self, plan: CommittedPlan, installed: Mapping[str, Scorer]) -> None:
        self._criteria = [
            _Criterion(name, installed[scorer], plan.params[name])
            for name, scorer in plan.scorers.items()
        ]
        self._by_name = {one.name: one for one in self._criteria}
        self.needs_judge = any(one.scorer.judgement is not None for one in self._criteria)

    def expected(self, episode: GroundTruthEpisode, gold: JsonObject | None) -> Held:
        """Return criterion → what an answer is checked against; NOTHING where none applies."""
        return {one.name: one.expected(episode, gold) for one in self._criteria}

    def judgements(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, held: Held
    ) -> dict[str, Judgement]:
        """Return criterion → what a judge must be asked about `answer`."""
        asked = {}
        for one in self._criteria:
            case = one.case(episode, answer, held[one.name]) if answer.succeeded else NOT_APPLICABLE
            if one.scorer.judgement is not None and isinstance(case, ScoringCase):
                asked[one.name] = one.scorer.judgement(case)
        return asked

    def results(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None, held: Held
    ) -> dict[str, float | str]:
        """Return criterion → the scorer's number, or the word for why it gave none.

        Where there is no successful answer the arithmetic looks at `not_applicable` alone.
        """
        return {one.name: one.result(episode, answer, held[one.name]) for one in self._criteria}

    def results_of_repeats(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None, held: Held
    ) -> list[tuple[str, dict[str, float | str]]]:
        """Return status and results of each answer to an episode that was asked repeatedly."""
        return [
            (one.status.value, self.results(episode, one, held))
            for one in (() if answer is None else answer.repeats)
        ]

    def is_judged(self, name: str) -> bool:
        """Return whether a criterion's scorer rests on what a judge was asked."""
        return self._by_name[name].scorer.judgement is not None

    def holds_null(self, name: str) -> bool:
        """Return whether an expectation of null is one, and not none at all."""
        return self._by_name[name].scorer.needs_expectation

    def one_for_all(
        self, name: str
    ) -> Callable[[Sequence[JsonValue], JsonObject], JsonValue] | None:
        """Return how a criterion's scorer makes one answer for all expectations, if it can."""
        return self._by_name[name].scorer.one_for_all

    def result(
        self, name: str, episode: GroundTruthEpisode, answer: EpisodeAnswer, held: Held
    ) -> float | str:
        """Return the result of one criterion for one answer."""
        return self._by_name[name].result(episode, answer, held[name])


def known(held: Held) -> dict[str, JsonValue]:
    """Return those of the expectations that are not null."""
    return {
        name: value
        for name, value in held.items()
        if value is not None and not isinstance(value, Nothing)
    }


def at_path(value: JsonValue, path: str) -> JsonValue | Nothing:
    """Return what lies at a dotted path: members by name, items of arrays by number."""
    current: JsonValue | Nothing = value
    for step in path.split("."):
        if isinstance(current, list):
            current = at(current, int(step)) if _INDEX.fullmatch(step) else NOTHING
        else:
            current = current.get(step, NOTHING) if isinstance(current, dict) else NOTHING
    return current


_NOT_HASHED = frozenset({"results_hash", "score_intervals"})


class ResultsHash:
    """Takes the lines as they come; then it gives the hash with any aggregate behind them."""

    def __init__(self) -> None:
        self._lines = hashlib.sha256()

    def add(self, lines: bytes) -> None:
        """Take the next bytes of the lines, line feeds included."""
        self._lines.update(lines)

    def of(self, aggregate: JsonObject) -> str:
        """Return the hash of the lines so far and `aggregate`."""
        hasher = self._lines.copy()
        hashed = {key: value for key, value in aggregate.items() if key not in _NOT_HASHED}
        hasher.update(canonical_bytes(hashed))
        return hasher.hexdigest()

    def within(self, aggregate: JsonObject) -> JsonObject:
        """Return `aggregate` with its own hash."""
        return aggregate | {"results_hash": self.of(aggregate)}


class EpisodeScoring:
    """Scores episode by episode: `tally` adds them up, `lines` hashes their lines.

    `columns` has what a rating needs, where people rate.
    """

    def __init__(
        self,
        scorers: PinnedScorers,
        gold: Mapping[str, JsonObject],
        plan: CommittedPlan,
        draws: Draws,
        total: int,
    ) -> None:
        self.scorers, self.gold, self.draws = scorers, gold, draws
        self.audit = DataAudit(plan.scorers, canonical_bytes)
        self.draw = BaselineDraw(plan.commitment_hash)
        self.tally = Tally(plan.document, plan.commitment_hash, total)
        self.lines = ResultsHash()
        self.columns = RatedColumns(self.tally.plan.ids, draws) if plan.rubrics else None

    def line(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer | None
    ) -> tuple[bytes, EpisodeOutcome]:
        """Return line and outcome of `episode`; without an answer it was not run."""
        gold = self.gold.get(episode.episode_id)
        # Before a scorer is shown any of it: one that changed it would change what is counted.
        question, held = None, self.scorers.expected(episode, gold)
        if answer is not None:
            question = self.audit.question(
                sent=answer.sent,
                truths=[episode.expected_output, gold],
                expectations=known(held),
                cluster_key=episode.cluster_key,
            )
        document = self.tally.add(
            seq=episode.seq,
            episode_id=episode.episode_id,
            status=None if answer is None else answer.status.value,
            results=self.scorers.results(episode, answer, held),
            cluster_key=episode.cluster_key,
            confidence=None if answer is None else answer.confidence,
            repeats=self.scorers.results_of_repeats(episode, answer, held),
        )
        if question is not None and answer is not None:
            kept = partial(_answer_kept, answer)
            applicable = [name for name, one in held.items() if not isinstance(one, Nothing)]
            self.draw.add(episode.episode_id, episode.seq, applicable, question.expected, kept)
            self.audit.add(question, document)
        outcome, line = EpisodeOutcome(document["outcome"]), canonical_line(document)
        self.lines.add(line)
        if self.columns is not None:
            self.columns.add(episode, outcome, document["scores"])
        return line, outcome

    def aggregate(self, panels: Sequence[Panel]) -> JsonObject:
        """Return `scores/aggregate.json` but for what computations add, its own hash included."""
        return self.lines.within(add_up(self.tally, self.columns, panels))


def _answer_kept(answer: EpisodeAnswer) -> bytes:
    """Return what was sent, and what is dealt to another question; nothing of a refusal.

    Null stands for what failed.
    """
    if answer.status is InvocationStatus.REFUSED:
        return b""
    said: list[JsonValue] = [
        [[name, output] for name, output in one.hops.items()] if one.succeeded else None
        for one in answer.repeats or (answer,)
    ]
    return canonical_bytes([answer.sent, said])


def add_up(tally: Tally, columns: RatedColumns | None, panels: Sequence[Panel]) -> JsonObject:
    """Return the aggregate of a run and its ratings, without a hash."""
    people = HumanParts(tally, columns, panels)

    def bounds(name: str, method: str) -> tuple[float | None, float | None]:
        return people.bounds(name) if "mixed" in method else resampled_bounds(tally, name)

    return tally.aggregate(
        bounds=bounds,
        calibrated=error_by_chance,
        people=people.means,
        human_scores=people.as_document(),
    )


def resampled_bounds(tally: Tally, name: str) -> tuple[float | None, float | None]:
    """Return the bounds of a criterion's interval, or the composite's, by the bootstrap.

    Whole units are drawn, and they are sorted: no draw depends on the order of episodes.
    """
    ids = tally.plan.ids
    columns = list(range(len(ids))) if name == COMPOSITE else [ids.index(name)]
    weighed = list(tally.units())
    rows = [[*(unit[c][0] for c in columns), *(unit[c][1] for c in columns)] for unit, _ in weighed]
    units = np.repeat(np.array(rows, dtype=np.int64), [times for _, times in weighed], axis=0)
    sums, counts = units[:, : len(columns)], units[:, len(columns) :]
    counted = counts.any(axis=1)
    order = np.lexsort(units[counted].T)
    shares = tally.plan.shares if name == COMPOSITE else [1]
    weights = np.array([float(Fraction(share, sum(shares))) for share in shares])
    sample = Sample(sums[counted][order], counts[counted][order], weights)
    interval = resampled_interval(
        sample, seed=tally.commitment_hash, clustered=bool(tally.clusters)
    )
    return cast("float | None", interval["low"]), cast("float | None", interval["high"])


def error_by_chance(probabilities: Mapping[int, int]) -> tuple[float, float]:
    """Return mean and 95 % point of the ECE if each probability (in billionths) were right."""
    bins: list[list[int]] = [[] for _ in range(BINS)]
    for nano in sorted(probabilities):
        bins[min(nano * BINS // NANO, BINS - 1)] += [nano] * probabilities[nano]
    deviations = [_deviation(values) for values in bins]
    number = sum(len(values) for values in bins)
    mean = math.fsum(one for one, _ in deviations)
    variance = math.fsum(other for _, other in deviations)
    upper = mean + Z_95 * math.sqrt(variance)
    if mean:
        ninth = variance / (9 * mean * mean)
        root = 1 - ninth + Z_95 * math.sqrt(ninth)
        upper = max(upper, mean * root * root * root)
    return round(mean / number, 6), round(upper / number, 6)


def _deviation(ascending: list[int]) -> tuple[float, float]:
    """Return mean and variance of |right answers - sum of probabilities| in one bin."""
    variance = Fraction(sum(nano * (NANO - nano) for nano in ascending), NANO * NANO)
    if len(ascending) > MAX_EXACT:
        mean = math.sqrt(float(variance)) * math.sqrt(2 / math.pi)
        return mean, max(0.0, float(variance) - mean * mean)
    law: npt.NDArray[np.float64] = np.ones(1)
    for nano in ascending:
        probability = nano / NANO
        law = np.append(law * (1 - probability), 0.0) + np.append(0.0, law * probability)
    distances = np.abs(np.arange(len(law), dtype=np.float64) - sum(ascending) / NANO)
    mean = math.fsum((law * distances).tolist())
    return mean, max(0.0, float(variance) - mean * mean)
