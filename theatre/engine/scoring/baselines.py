"""What answers without any work would score, through the same scorers as the construct.

Source: docs/contract/earned.md §5.2. At most a thousand episodes, which
wait in a file: memory does not grow with the number of episodes, nor with their size. Draw, players
and scores stand in one module: all three are read for one question.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import heapq
import marshal
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.coin import Draws
from theatre.engine.errors import TheatreError, UnplayableError
from theatre.engine.models import (
    CriterionResult,
    EpisodePlay,
    EpisodeRunner,
    GroundTruthEpisode,
    InvocationStatus,
    ScoringCase,
    Verdict,
    turn_of,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.arithmetic import (
    NANO,
    exact,
    rounded_number,
    undefined_interval,
    wilson_interval,
)
from theatre.engine.scoring.data_audit import string_leaves
from theatre.engine.scoring.echoes import Echoes, Outputs
from theatre.engine.scoring.provider import (
    ABSENT,
    Absent,
    CriterionPlan,
    EpisodeAnswer,
    TheatreScoringProvider,
    at_path,
    score_case,
    score_criterion,
)
from theatre.engine.scoring.repeats import published_nano
from theatre.engine.scoring.tallies import ResampledUnits
from theatre.engine.templates import Hop

MAX_EPISODES = 1000
"""So many episodes show what a trivial answer scores; more would cost and say no more."""

MIN_DEALT = 30
"""Of fewer answers than a tier needs, luck alone may do as well for other questions."""

MEETS_INTERVAL = "baseline-meets-interval"

INTERCHANGEABLE = "interchangeable-answers"

ANY_TEXT = "text_match"
"""The scorer that takes any text of an array for right."""

ONE_FOR_ALL = "one_for_all"
"""The answer that a scorer takes for right most often: the column of `most_frequent` is its where
it scores more than all baselines."""

_IN_MEMORY_BYTES = 256 * 1024
_MIN_UNITS = 2


class Baseline(StrEnum):
    """A way to answer without any work."""

    EMPTY = "empty"
    COPIED = "copied"
    MOST_FREQUENT = "most_frequent"
    OTHER_EPISODE = "other_episode"


_PLAYED = (Baseline.EMPTY, Baseline.COPIED)


class NotApplicable(StrEnum):
    """Why a criterion has no baselines."""

    JUDGED = "judged"
    """Its scorer is a function of what a judge was asked about the answer."""
    HUMAN = "human"
    """People alone decide it."""
    UNPLAYABLE = "unplayable"
    """The runner of its episodes does not bring one to an end where the answers are trivial."""


class Answered(NamedTuple):
    """A drawn episode with what was sent and all that was said, None for a failure."""

    episode: GroundTruthEpisode
    sent: JsonObject
    said: Sequence[Outputs | None]

    @property
    def first_outputs(self) -> Outputs:
        """Return the first answer that is no failure."""
        return next(filter(None, self.said), {})


class DrawnEpisodes:
    """The episodes with the smallest SHA-256(commitment_hash + ":baseline:" + episode_id).

    Of those on which a criterion applies: one that few of many episodes have is drawn on its own.
    """

    def __init__(self, commitment_hash: str, with_null: Collection[str] = ()) -> None:
        """Take the criteria of which null is an expectation, and not none at all."""
        self._commitment_hash = commitment_hash
        self._with_null = with_null
        self._heaps: dict[str, list[tuple[int, int]]] = {}
        """Criterion → of each episode the digest, negated, and its number."""
        self._kept: dict[int, tuple[int, int, frozenset[str]]] = {}
        """Of each number place and size of what is kept, and on what its answers can be dealt."""
        self._spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by close

    def close(self) -> None:
        """Remove what was written."""
        self._spool.close()

    def add(
        self,
        episode: GroundTruthEpisode,
        sent: JsonObject,
        held: Mapping[str, JsonValue],
        answers: Callable[[], Sequence[Outputs | None]],
    ) -> None:
        """Take the next episode that was run; `answers` returns all to it, None for a failure.

        `held` has what is expected on each criterion that applies.
        """
        # Drawn by the commitment: who runs the theatre must not choose on which episodes it looks
        # good next to a trivial answer.
        text = f"{self._commitment_hash}:baseline:{episode.episode_id}"
        drawn = -int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
        is_drawn = False
        for criterion in held:
            heap = self._heaps.setdefault(criterion, [])
            if len(heap) < MAX_EPISODES:
                heapq.heappush(heap, (drawn, episode.seq))
            elif drawn > heap[0][0]:
                heapq.heapreplace(heap, (drawn, episode.seq))
            else:
                continue
            is_drawn = True
        if is_drawn:
            given = answers()
            known = frozenset(
                name
                for name, one in held.items()
                if given and (one is not None or name in self._with_null)
            )
            self._kept[episode.seq] = (*self._write(episode, sent, given), known)

    def _write(
        self, episode: GroundTruthEpisode, sent: JsonObject, answers: Sequence[Outputs | None]
    ) -> tuple[int, int]:
        other = None if sent is episode.input_data else sent
        kept = (episode.episode_id, episode.input_data, episode.expected_output)
        return self._spool.tell(), self._spool.write(
            marshal.dumps((*kept, episode.cluster_key, other, [*answers]))
        )

    def of(self, criterion: str) -> set[int]:
        """Return the numbers of those that are drawn for a criterion."""
        return {seq for _, seq in self._heaps.get(criterion, ())}

    def __len__(self) -> int:
        return len(self._every())

    def _every(self) -> set[int]:
        return set().union(*map(self.of, self._heaps))

    def cases(
        self, only: Collection[int] | None = None
    ) -> Iterator[tuple[GroundTruthEpisode, JsonObject]]:
        """Yield those that are drawn, with the input as it was sent, in the dataset's order.

        `only`: no others than those with these sequence numbers.
        """
        for seq in sorted(self._every() if only is None else only):
            episode, sent, _ = self._read(seq)
            yield episode, sent
        self._spool.seek(0, 2)

    def rings(self, criteria: Iterable[str]) -> dict[tuple[int, ...], list[str]]:
        """Return the numbers of those with answers, in the order of the digests, and for what.

        For a criterion, as the answer to a question of another kind says nothing of it; criteria
        that have the same questions come together.
        """
        rings: dict[tuple[int, ...], list[str]] = {}
        for criterion in criteria:
            heap = sorted(self._heaps.get(criterion, ()), reverse=True)
            ring = tuple(seq for _, seq in heap if criterion in self._kept[seq][2])
            if len(ring) >= MIN_DEALT:
                rings.setdefault(ring, []).append(criterion)
        return rings

    def dealt(
        self, ring: Sequence[int], own: Collection[str] | None
    ) -> Iterator[tuple[Answered, Answered]]:
        """Yield each of a ring with the next one, the last with the first.

        `own`: of each output these members alone.
        """
        behind = self._answered(ring[0], own)
        for seq in reversed(ring):
            one = self._answered(seq, own)
            yield one, behind
            behind = one

    def _answered(self, seq: int, own: Collection[str] | None) -> Answered:
        episode, sent, answers = self._read(seq)
        return Answered(episode, sent, [_words(hops, own) for hops in answers])

    def _read(self, seq: int) -> tuple[GroundTruthEpisode, JsonObject, list[Outputs | None]]:
        place, size, _ = self._kept[seq]
        self._spool.seek(place)
        kept = marshal.loads(self._spool.read(size))  # noqa: S302 - as `_write` wrote it
        name, value, expected, cluster, sent, answers = kept
        episode = GroundTruthEpisode(
            seq=seq,
            episode_id=name,
            input_data=value,
            expected_output=expected,
            cluster_key=cluster,
        )
        return episode, value if sent is None else sent, answers


# Interactive episodes, played with answers that no work went into: the episode is the one that the
# construct was put to, with the same seed; every construct of it is answered for in the same way.


class TrivialPlayers:
    """Answers turn after turn with `{}`, or with what the turn itself was sent."""

    def __init__(
        self,
        runner: EpisodeRunner,
        hops: Sequence[Hop],
        *,
        draws: Draws,
        registry: SchemaRegistry,
    ) -> None:
        """Take the runner and the constructs of an episode in the order of the chain."""
        self._runner = runner
        self.own_words = runner.own_words
        self._hops = hops
        self._draws = draws
        self._registry = registry

    def answer(self, episode: GroundTruthEpisode, *, copies: bool) -> EpisodeAnswer:
        """Return what comes of `episode`; no output where an answer fits no committed shape.

        UnplayableError where the runner raises at such an answer, or asks for more calls than it
        says it may. What the runner raises on purpose is passed on: its surroundings are at fault.
        """
        seed = self._draws.play_seed(episode.episode_id)
        # A copy: a plug-in that writes to its input must not change what later baselines read.
        play = self._runner.play(copy.deepcopy(episode.input_data), seed)
        try:
            with contextlib.closing(play):
                result = self._result(play, copies=copies)
        except TheatreError:
            raise
        except Exception as error:  # a plug-in may raise anything
            raise UnplayableError(
                f"expected runner {self._runner.pin} to play on, got a {type(error).__name__}"
            ) from error
        outputs: Mapping[str, JsonObject] = (
            {} if result is None else {self._hops[0].construct_id: result}
        )
        return EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=outputs)

    def _result(self, play: EpisodePlay, *, copies: bool) -> JsonObject | None:
        """Return what the runner makes of the answers; None where one is not accepted."""
        try:
            turn = turn_of(next(play))
            for _ in range(self._runner.max_calls):
                # As over a wire: what is answered shares nothing with what was asked.
                answer = parse_object(canonical_bytes(turn.input_data)) if copies else {}
                spec = self._hops[turn.hop].output_spec
                if spec and self._registry.validate_inline(spec, answer):
                    return None
                turn = turn_of(play.send(answer))
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        raise UnplayableError(
            f"expected at most {self._runner.max_calls} calls of runner {self._runner.pin}, "
            "got one more"
        )


class BaselineScores:
    """Scores the baselines of one committed template."""

    def __init__(
        self,
        provider: TheatreScoringProvider,
        constructs: Sequence[str],
        *,
        players: TrivialPlayers | None,
        commitment_hash: str,
        under_test: str,
    ) -> None:
        """Take the constructs of an episode in the order of calls; `players` of an interactive."""
        self._provider = provider
        self._constructs = constructs
        self._under_test = under_test
        self._players = players
        self._seed = commitment_hash
        rated = {rating.criterion_id for rating in provider.ratings if rating.share == 1}
        self._reasons = {
            plan.criterion_id: _reason(plan, rated=rated) for plan in provider.criteria
        }
        self._plans = [
            plan for plan in provider.criteria if self._reasons[plan.criterion_id] is None
        ]

    def as_document(
        self,
        drawn: DrawnEpisodes,
        gold: Mapping[str, JsonObject],
        raise_if_cancelled: Callable[[], None] = lambda: None,
    ) -> JsonObject:
        """Return `scores/baselines.json`; the callback, run before each play, may raise."""
        names = (*Baseline, ONE_FOR_ALL)
        columns: dict[str, _Column] = {name: _Column(self._plans, self._seed) for name in names}
        reasons = self._reasons
        try:
            if self._plans and self._players is not None:
                self._play(self._players, drawn, gold, columns, raise_if_cancelled)
            if self._plans and (self._players is None or self._players.own_words):
                self._score(drawn, gold, columns)
        except UnplayableError:
            columns = {name: _Column([], self._seed) for name in names}
            reasons = {name: reason or NotApplicable.UNPLAYABLE for name, reason in reasons.items()}
        return {
            "episodes": len(drawn),
            "criteria": {
                criterion: {
                    "not_applicable": None if reason is None else reason.value,
                    **_scores_of(columns, criterion),
                }
                for criterion, reason in reasons.items()
            },
        }

    def dealt(self, drawn: DrawnEpisodes, gold: Mapping[str, JsonObject]) -> dict[str, float]:
        """Return criterion → the mean of the construct's own answers, each to another question.

        Of at least `MIN_DEALT` questions with an expectation. Whatever its scorer takes for right:
        who looks at no question scores the same for any.
        """
        own = None if self._players is None else self._players.own_words
        found: dict[str, float] = {}
        plans = [plan.criterion_id for plan in self._plans if own != frozenset()]
        for ring, names in drawn.rings(plans).items():
            given = ((one.episode, next_.said) for one, next_ in drawn.dealt(ring, own))
            dealt = self._means(given, names, gold)
            echoes = Echoes(
                self._under_test,
                (
                    (one.sent, hops, self._wanted(one.episode, names, gold))
                    for one, _ in drawn.dealt(ring, own)
                    for hops in one.said
                    if hops
                ),
                is_first=self._under_test == self._constructs[0],
            )
            moved = (
                (
                    one.episode,
                    [
                        hops and echoes.moved(hops, next_.sent, one.sent, one.first_outputs)
                        for hops in next_.said
                    ],
                )
                for one, next_ in drawn.dealt(ring, own)
            )
            copied = self._means(moved, names, gold) if echoes else {}
            found |= {name: max(mean, copied.get(name, mean)) for name, mean in dealt.items()}
        return found

    def _wanted(
        self,
        episode: GroundTruthEpisode,
        criteria: Collection[str],
        gold: Mapping[str, JsonObject],
    ) -> Collection[str]:
        """Return the members on the way to an answer, and all that its expectations have."""
        held = self._provider.expectations(episode, gold.get(episode.episode_id))
        plans = [plan for plan in self._plans if plan.criterion_id in criteria]
        wanted = {step for plan in plans for step in (self._place(plan)[1] or "").split(".")}
        left = [held[name] for name in criteria]
        while left:
            one = left.pop()
            if isinstance(one, dict):
                wanted.update(one)
            left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        return wanted

    def _means(
        self,
        given: Iterable[tuple[GroundTruthEpisode, Sequence[Outputs | None]]],
        criteria: Collection[str],
        gold: Mapping[str, JsonObject],
    ) -> dict[str, float]:
        """Return criterion → the mean of the answers to each, of at least `MIN_DEALT`."""
        plans = [plan for plan in self._plans if plan.criterion_id in criteria]
        means: dict[str, list[Fraction]] = {}
        for episode, answers in given:
            label = gold.get(episode.episode_id)
            for plan in plans:
                nanos = [_dealt_nano(plan, episode, hops, label) for hops in answers]
                known = [nano for nano in nanos if nano is not None]
                if known:
                    mean = Fraction(sum(known), len(known) * NANO)
                    means.setdefault(plan.criterion_id, []).append(mean)
        return {
            name: rounded_number(sum(each, Fraction()) / len(each))
            for name, each in means.items()
            if len(each) >= MIN_DEALT
        }

    def _play(
        self,
        players: TrivialPlayers,
        drawn: DrawnEpisodes,
        gold: Mapping[str, JsonObject],
        columns: Mapping[str, _Column],
        raise_if_cancelled: Callable[[], None],
    ) -> None:
        """Play each episode twice: what is expected at its end is no answer to a turn."""
        due = {plan.criterion_id: drawn.of(plan.criterion_id) for plan in self._plans}
        for episode, _ in drawn.cases():
            label = gold.get(episode.episode_id)
            for baseline in _PLAYED:
                raise_if_cancelled()
                made = players.answer(episode, copies=baseline is Baseline.COPIED)
                results = {
                    plan.criterion_id: score_criterion(plan, episode, made, label)
                    if episode.seq in due[plan.criterion_id]
                    else Verdict.NOT_APPLICABLE
                    for plan in self._plans
                }
                columns[baseline].add(results, episode.cluster_key)

    def _score(
        self,
        drawn: DrawnEpisodes,
        gold: Mapping[str, JsonObject],
        columns: Mapping[str, _Column],
    ) -> None:
        """Put answers where criteria look; of interactive episodes only what a construct said."""
        most_frequent, before, one_for_all = self._leading_expectations(drawn, gold)
        placed = [(plan, *self._place(plan)) for plan in self._plans]
        nothing = dict.fromkeys(self._provider.criterion_ids, Verdict.NOT_APPLICABLE)
        own = None if self._players is None else self._players.own_words
        # What was played has its first two already.
        first = 0 if own is None else len(_PLAYED)
        filled = [*columns.values()][first:]
        due = {plan.criterion_id: drawn.of(plan.criterion_id) for plan in self._plans}
        for episode, sent in drawn.cases():
            held = self._provider.expectations(episode, gold.get(episode.episode_id))
            # By place, in the order of `Baseline`: to hash a member costs as much as a score.
            results: list[dict[str, CriterionResult]] = [{**nothing} for _ in filled]
            for plan, construct, path in placed:
                criterion = plan.criterion_id
                if episode.seq not in due[criterion]:
                    continue
                expected = held[criterion]
                answers = (
                    _empty_like(expected),
                    _copied(sent, path, expected),
                    _one_of(plan, most_frequent.get(criterion, ABSENT)),
                    _one_of(plan, before.get(criterion, ABSENT)),
                    one_for_all.get(criterion, ABSENT),
                )
                for of_baseline, answer in zip(results, answers[first:], strict=True):
                    if isinstance(answer, Absent):
                        continue
                    hops: dict[str, JsonObject] = {name: {} for name in self._constructs}
                    hops[construct] = output = _with_value(path, answer)
                    if own is not None and not (output and output.keys() <= own):
                        continue
                    case = ScoringCase(
                        input_data=episode.input_data,
                        expected=expected,
                        answer=output if path is None else answer,
                        params=plan.params,
                        hops=hops,
                    )
                    of_baseline[criterion] = score_case(plan, case)
                if expected is not None:
                    before[criterion] = expected
            for column, of_baseline in zip(filled, results, strict=True):
                column.add(of_baseline, episode.cluster_key)

    def _place(self, plan: CriterionPlan) -> tuple[str, str | None]:
        """Return which construct's output holds the answer, the last one by default, and where.

        None: the answer is all of the output.
        """
        if not isinstance(field := plan.params.get("field"), str):
            return self._constructs[-1], None
        construct, named, path = field.partition(":")
        return (construct, path) if named else (self._constructs[-1], construct)

    def _leading_expectations(
        self, drawn: DrawnEpisodes, gold: Mapping[str, JsonObject]
    ) -> tuple[dict[str, JsonValue], dict[str, JsonValue], dict[str, JsonValue]]:
        """Return each criterion's most frequent expectation, its last, and what is right for most.

        Of several the first. A first reading stores digests, but for what a scorer has to see; a
        second one, what they stand for.
        """
        seen: dict[str, dict[bytes, list[int]]] = {plan.criterion_id: {} for plan in self._plans}
        plans = [plan for plan in self._plans if plan.scorer.one_for_all is not None]
        values: dict[str, list[JsonValue]] = {plan.criterion_id: [] for plan in plans}
        last: dict[str, int] = {}
        for seq, held in self._held(drawn, gold):
            for criterion, expected in held.items():
                if criterion not in seen or expected is None:
                    continue
                if criterion in values:
                    values[criterion].append(expected)
                digest = hashlib.sha256(canonical_bytes(expected)).digest()
                seen[criterion].setdefault(digest, []).append(seq)
                last[criterion] = seq
        # The first of those that are as frequent: a dictionary keeps the order.
        winners = {
            name: max(places.values(), key=len)[0] for name, places in seen.items() if places
        }
        most_frequent: dict[str, JsonValue] = {}
        final: dict[str, JsonValue] = {}
        for seq, held in self._held(drawn, gold, {*winners.values(), *last.values()}):
            for wanted, kept in ((winners, most_frequent), (last, final)):
                kept |= {name: held[name] for name, one in wanted.items() if one == seq}
        best: dict[str, JsonValue] = {
            plan.criterion_id: answer
            for plan in plans
            if (one_for_all := plan.scorer.one_for_all) is not None
            and (answer := one_for_all(values[plan.criterion_id], plan.params)) is not None
        }
        return most_frequent, final, best

    def _held(
        self,
        drawn: DrawnEpisodes,
        gold: Mapping[str, JsonObject],
        only: Collection[int] | None = None,
    ) -> Iterator[tuple[int, dict[str, JsonValue]]]:
        due = {name: drawn.of(name) for name in self._reasons}
        for episode, _ in drawn.cases(only):
            label = gold.get(episode.episode_id)
            held = self._provider.expectations(episode, label)
            yield episode.seq, {name: one for name, one in held.items() if episode.seq in due[name]}


class _Column:
    def __init__(self, plans: Sequence[CriterionPlan], seed: str) -> None:
        self._columns = {plan.criterion_id: column for column, plan in enumerate(plans)}
        self._units = ResampledUnits(plans)
        self._seed = seed
        self.add = self._units.add

    def score_of(self, criterion: str) -> JsonObject | None:
        """Return score, n and interval, by the rule of the criterion's own; None where n is 0."""
        column = self._columns.get(criterion)
        if column is None:
            return None
        sums, counts = self._units.column(column)
        if not (counted := int(counts.sum())):
            return None
        ones = int((sums == NANO).sum())
        if counted < _MIN_UNITS:
            interval = undefined_interval()
        elif self._units.clustered or ones != np.count_nonzero(sums):
            interval = self._units.criterion_interval(column, seed=self._seed)
        else:
            interval = wilson_interval(ones, counted)
        mean = Fraction(int(sums.sum()), counted * NANO)
        return {"score": rounded_number(mean), "n": counted, "interval": interval}


def _words(hops: Outputs | None, own: Collection[str] | None) -> Outputs | None:
    """Return the outputs; of what came of a play, the words said."""
    if hops is None or own is None:
        return hops
    return {
        construct: {name: value for name, value in output.items() if name in own}
        for construct, output in hops.items()
    }


def _dealt_nano(
    plan: CriterionPlan,
    episode: GroundTruthEpisode,
    hops: Outputs | None,
    gold: JsonObject | None,
) -> int | None:
    """Return what another question's answer scores."""
    if hops is None:
        return 0
    answer = EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=hops)
    return published_nano(score_criterion(plan, episode, answer, gold))


def baseline_findings(
    baselines: JsonObject, dealt: Mapping[str, float], aggregate: JsonObject
) -> list[str]:
    """Return a code for each criterion on which some baseline is not below the interval.

    Else, where the construct's answers are not, `dealt` to other questions.
    """
    scores, intervals = (
        cast("Mapping[str, JsonObject]", aggregate[name]) for name in ("scores", "score_intervals")
    )
    people = cast("Mapping[str, JsonObject]", aggregate["human_scores"] or {}).values()
    mixed = {one["criterion_id"]: one for one in people if one["share"] not in {None, 1}}
    found = []
    # The best baseline against the interval's low end: a score that chance alone could lift above
    # an answer without work is worth a word to the reader.
    for criterion, one in cast("dict[str, JsonObject]", baselines["criteria"]).items():
        low = cast("float | None", intervals[criterion]["low"])
        limit = cast("float | None", scores[criterion]) if low is None else low
        reached = [
            cast("float", cast("JsonObject", one[name.value])["score"])
            for name in Baseline
            if one[name.value] is not None
        ]
        if limit is None:
            continue
        least = exact(limit)
        # People saw no such answer: it is held against the part that machines gave.
        if part := mixed.get(criterion):
            below = exact(cast("float", scores[criterion])) - least
            given = exact(cast("float", part["machine"]))
            least = given - below / (1 - exact(cast("float", part["share"])))
        if reached and exact(max(reached)) >= least:
            found.append(f"{MEETS_INTERVAL}:{criterion}")
        elif criterion in dealt and exact(dealt[criterion]) >= least:
            found.append(f"{INTERCHANGEABLE}:{criterion}")
    return found


def _reason(plan: CriterionPlan, *, rated: Collection[str | None]) -> NotApplicable | None:
    """Return why a criterion has no baselines."""
    if plan.scorer.judgement is not None:
        return NotApplicable.JUDGED
    return NotApplicable.HUMAN if plan.criterion_id in rated else None


def _scores_of(columns: Mapping[str, _Column], criterion: str) -> JsonObject:
    """Return what each baseline scores; the best possible answer only where it beats them all."""
    found = {name: column.score_of(criterion) for name, column in columns.items()}
    best = found.pop(ONE_FOR_ALL)
    others = [cast("float", one["score"]) for one in found.values() if one is not None]
    if best is not None and cast("float", best["score"]) > max(others, default=-1.0):
        found[Baseline.MOST_FREQUENT] = best
    return {str(name): score for name, score in found.items()}


def _one_of(plan: CriterionPlan, expected: JsonValue | Absent) -> JsonValue | Absent:
    """Return the answer that an expectation asks for: of several texts that will do, the first."""
    will_do = expected if plan.scorer.name == ANY_TEXT and isinstance(expected, list) else []
    return will_do[0] if will_do else expected


def _empty_like(expected: JsonValue) -> JsonValue:
    """Return nothing, in the form of what is expected."""
    if isinstance(expected, str):
        return ""
    if isinstance(expected, list):
        return []
    return {} if isinstance(expected, dict) else None


def _copied(sent: JsonObject, path: str | None, expected: JsonValue) -> JsonValue:
    """Return what the input itself has where the answer is sought, else all texts in it."""
    own = sent if path is None else at_path(sent, path)
    if not isinstance(own, Absent):
        return own
    leaves = string_leaves(sent)
    return [*leaves] if isinstance(expected, list) else "\n".join(leaves)


def _with_value(path: str | None, value: JsonValue) -> JsonObject:
    """Return an output that has `value` at `path`, and nothing else.

    Without a path the output is `value`, or empty where that is no object.
    """
    if path is None:
        return value if isinstance(value, dict) else {}
    for name in reversed(path.split(".")):
        value = {name: value}
    return cast("JsonObject", value)
