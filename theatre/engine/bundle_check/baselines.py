"""What trivial answers score, computed again with the pinned scorers.

Source: docs/contract/earned.md §5.2. Who scores well with an empty answer, or with a copy of the
question, has shown nothing.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, cast

from theatre.engine.bundle_check.arithmetic import (
    COMPOSITE,
    NANO,
    Document,
    Tally,
    billionths,
    published,
    rating_findings,
)
from theatre.engine.bundle_check.batches import PART_SIZE
from theatre.engine.bundle_check.calls import OutputShape
from theatre.engine.bundle_check.commitment import bare_lines
from theatre.engine.bundle_check.data_audit import (
    BASELINES,
    FEWEST_DEALT,
    INTERCHANGEABLE,
    PLAYED,
    dealt_findings,
    evidence_findings,
    texts_in,
)
from theatre.engine.bundle_check.echoes import copied_from, copies_among, names_in
from theatre.engine.bundle_check.evidence import Evidence
from theatre.engine.bundle_check.folder import AGGREGATE, CERTIFICATE, DATA_AUDIT
from theatre.engine.bundle_check.folder import BASELINES as BASELINE_FILE
from theatre.engine.bundle_check.plan import REPLAY_DATASET, CommittedPlan
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Nothing,
    at,
    text_members,
)
from theatre.engine.bundle_check.results import RunEvidence, near_interval
from theatre.engine.bundle_check.scorers import (
    NOT_APPLICABLE,
    EpisodeAnswer,
    EpisodeScoring,
    Held,
    at_path,
    error_by_chance,
    known,
    resampled_bounds,
)
from theatre.engine.canonical_json import (
    JsonObject,
    JsonValue,
    canonical_bytes,
    parse_json,
    parse_object,
)
from theatre.engine.errors import DatasetError, ParseError, TheatreError, UnplayableError
from theatre.engine.models import (
    EpisodeRunner,
    GroundTruthEpisode,
    InvocationStatus,
    read_episodes,
    turn_of,
)

BEST = "one_for_all"
"""A fifth answer, which the scorer itself takes for right most often, if it knows one."""

SUCCEEDED = InvocationStatus.SUCCESS

Hops = dict[str, JsonObject]
"""Construct → its output."""

Counts = Counter[tuple[str | None, tuple[float | str, ...]]]
"""(cluster, results in the order of the criteria) → episodes with just these."""


class CountedEvidence(NamedTuple):
    """Data audit and baselines: recomputed, or as they are stored where that cannot be."""

    audit: JsonValue | Nothing
    baselines: JsonValue | Nothing
    dealt: Mapping[str, float] | None = None
    """Criterion → what the construct's answers score for other questions; None: not recomputed."""

    def findings(
        self,
        evidence: Evidence,
        results: JsonObject | Nothing,
        differences: JsonValue | Nothing,
        tally: Tally | None,
    ) -> list[str] | Nothing:
        """Return what follows from them; NOTHING where a part has another form.

        `differences` is how many episodes were asked a second time and answered otherwise,
        `tally` adds up its scores, None where those are withheld.
        """
        parts = (self.audit, self.baselines, results)
        if evidence.plan is None or any(isinstance(part, Nothing) for part in parts):
            return NOTHING
        audit, baselines, aggregate = cast("tuple[Document, Document, Document]", parts)
        # Bounds as they are stored: those have their own check.
        aggregate |= {"score_intervals": evidence.documents.at(AGGREGATE, "score_intervals")}
        template = evidence.plan.document
        try:
            found = evidence_findings(template, audit, baselines, aggregate, differences)
            if self.dealt is None:
                stated = cast("list[str]", evidence.documents.at(CERTIFICATE, "findings"))
                found += [code for code in stated if code.startswith(f"{INTERCHANGEABLE}:")]
            else:
                found += dealt_findings(self.dealt, found, aggregate)
            if tally is None:
                return found
            return [
                *found,
                *tally.narrowed(aggregate),
                *rating_findings(
                    template,
                    text_members(evidence.trail.detail("activated", "authors")).values(),
                    [
                        (str(one.step_id), str(at(score, "detail", "scorer")))
                        for one in evidence.trail.ratings
                        for score in one.scores
                    ],
                    aggregate["human_scores"],
                ),
            ]
        except (ArithmeticError, AttributeError, KeyError, TypeError):
            return NOTHING


def check_counted_evidence(evidence: Evidence, run: RunEvidence) -> CountedEvidence:
    """Make the checks `data-audit` and `baselines`."""
    documents, ledger, plan = evidence.documents, evidence.ledger, evidence.plan
    scoring, made = run.scoring, documents.at(BASELINE_FILE)
    if plan is None or isinstance(scoring, Cause):
        cause = scoring if isinstance(scoring, Cause) else Cause("no valid template")
        for check in (CheckId.DATA_AUDIT, CheckId.BASELINES):
            ledger.cannot(check, cause)
        return CountedEvidence(audit=documents.at(DATA_AUDIT), baselines=made)
    audited = scoring.audit.document()
    ledger.compare(CheckId.DATA_AUDIT, DATA_AUDIT, audited, documents.at(DATA_AUDIT))
    distinct = f"{audited['distinct_inputs']} of {audited['episodes']} inputs differ"
    ledger.completed(CheckId.DATA_AUDIT, distinct)
    if run.other_runner is not None:
        ledger.cannot(CheckId.BASELINES, run.other_runner)
        return CountedEvidence(audit=audited, baselines=made)
    try:
        trivial = _Baselines(evidence, plan, scoring)
        scored, dealt = trivial.document(), trivial.dealt()
    except (DefectError, DatasetError, ParseError, ValueError) as error:
        ledger.wrong(CheckId.BASELINES, "the drawn episodes and their records", str(error))
        return CountedEvidence(audit=audited, baselines=NOTHING)
    for criterion, one in scored["criteria"].items():
        for name in BASELINES:
            seen = at(made, "criteria", criterion, name, "interval")
            if one[name] is not None and near_interval(one[name]["interval"], seen):
                one[name]["interval"] = seen
    ledger.compare(CheckId.BASELINES, BASELINE_FILE, scored, made)
    ledger.completed(CheckId.BASELINES, f"{scored['episodes']} episodes")
    return CountedEvidence(audit=audited, baselines=scored, dealt=dealt)


class _Baselines:
    """Reads the drawn episodes again and puts trivial answers to the scorers."""

    def __init__(self, evidence: Evidence, plan: CommittedPlan, scoring: EpisodeScoring) -> None:
        self._evidence = evidence
        self._folder = evidence.folder
        self._plan = plan
        self._scoring = scoring
        self._scorers = scoring.scorers
        self._drawn = scoring.draw.drawn
        self._drawn_for = {name: scoring.draw.of(name) for name in plan.scorers}

    def document(self) -> Document:
        """Return `scores/baselines.json`, recomputed."""
        reasons = {name: self._why_not(name) for name in self._plan.scorers}
        names = [name for name, reason in reasons.items() if reason is None]
        counts: dict[str, Counts] = {baseline: Counter() for baseline in (*BASELINES, BEST)}
        runner = self._evidence.runner
        try:
            if names and runner is not None:
                self._play(runner, names, counts)
            if names and (runner is None or runner.own_words):
                self._score(names, counts, None if runner is None else runner.own_words)
        except UnplayableError:
            reasons = {name: reason or "unplayable" for name, reason in reasons.items()}
            counts = {baseline: Counter() for baseline in counts}
        scored = {baseline: self._scores(of_one) for baseline, of_one in counts.items()}
        for name, one in scored.pop(BEST).items():
            if all(
                one["score"] > other[name]["score"] for other in scored.values() if name in other
            ):
                scored["most_frequent"][name] = one
        return {
            "episodes": len(self._drawn),
            "criteria": {
                name: {"not_applicable": reason}
                | {baseline: scored[baseline].get(name) for baseline in BASELINES}
                for name, reason in reasons.items()
            },
        }

    def dealt(self) -> dict[str, float]:
        """Return criterion → the mean of answers that are dealt to other questions."""
        runner = self._evidence.runner
        own = None if runner is None else runner.own_words
        rings: dict[tuple[tuple[int, int], ...], list[str]] = {}
        for name in self._plan.scorers if own != frozenset() else ():
            if self._why_not(name) is None:
                ring = self._scoring.draw.dealt(name, nulls=self._scorers.holds_null(name))
                if len(ring) >= FEWEST_DEALT:
                    rings.setdefault((*ring.items(),), []).append(name)
        found: dict[str, float] = {}
        for pairs, names in rings.items():
            found |= self._dealt_among(dict(pairs), names, own)
        return found

    def _dealt_among(
        self, after: Mapping[int, int], names: Sequence[str], own: frozenset[str] | None
    ) -> dict[str, float]:
        """Return criterion → the better mean of answers as they are, and with copies made anew.

        `after` leads from each episode to the one whose answers it gets.
        """
        draw, under_test = self._scoring.draw, self._plan.construct_id
        read = {seq: partial(_kept_words, draw.answer, seq, own) for seq in after}
        copies = copies_among(
            (self._question(sent, said), said.get(under_test, {}), self._wanted(episode, names))
            for episode in self._episodes(after)
            for sent, answers in [read[episode.seq]()]
            for said in answers
            if said is not None
        )

        def dealt_to(seq: int, *, is_copied: bool) -> list[Hops | None]:
            asked, answers = read[after[seq]]()
            if is_copied:
                sent, own_answers = read[seq]()
                there = self._question(sent, next(filter(None, own_answers), {}))
                for said in answers:
                    if said and under_test in said:
                        question = self._question(asked, said)
                        said[under_test] = copied_from(there, said[under_test], question, copies)
            return answers

        ways = [
            self._means(after, names, partial(dealt_to, is_copied=is_copied))
            for is_copied in ((False, True) if copies.pairs else (False,))
        ]
        return {name: max(way.get(name, mean) for way in ways) for name, mean in ways[0].items()}

    def _wanted(self, episode: GroundTruthEpisode, names: Sequence[str]) -> frozenset[str]:
        """Return the names of the members that an answer is asked for, and that lead there."""
        paths = [self._place(name)[1] for name in names]
        steps = {step for path in paths if path for step in path.split(".")}
        expected = known(self._expected(episode))
        return frozenset(steps.union(*(names_in(expected.get(name)) for name in names)))

    def _question(self, sent: JsonObject, said: Hops) -> JsonObject:
        """Return what the construct under test was asked, with what others of its chain said."""
        under_test = self._plan.construct_id
        if under_test == self._plan.hops[0].construct_id:
            return sent
        before = {name: output for name, output in said.items() if name != under_test}
        return {"episode": sent, "upstream": cast("JsonObject", before)}

    def _means(
        self,
        order: Collection[int],
        names: Sequence[str],
        dealt_to: Callable[[int], list[Hops | None]],
    ) -> dict[str, float]:
        """Return criterion → the mean of what is dealt to these episodes, if they are enough."""
        means: defaultdict[str, list[Fraction]] = defaultdict(list)
        for episode in self._episodes(order):
            held = self._expected(episode)
            answers = [
                None if hops is None else EpisodeAnswer(status=SUCCEEDED, hops=hops)
                for hops in dealt_to(episode.seq)
            ]
            for name in names:
                nanos = [
                    0 if one is None else billionths(self._scorers.result(name, episode, one, held))
                    for one in answers
                ]
                counted = [nano for nano in nanos if nano is not None]
                if counted:
                    means[name].append(Fraction(sum(counted), len(counted) * NANO))
        return {
            name: cast("float", published(sum(each, Fraction()) / len(each)))
            for name, each in means.items()
            if len(each) >= FEWEST_DEALT
        }

    def _why_not(self, name: str) -> str | None:
        plan = self._plan
        if self._scorers.is_judged(name):
            return "judged"
        steps = cast("list[JsonObject]", plan.document.get("hitl_steps") or [])
        if any(one.get("criterion_id") == name and one.get("share") == 1 for one in steps):
            return "human"
        return None

    def _scores(self, counts: Counts) -> dict[str, Document]:
        """Return score, n and interval of each criterion that has any.

        Added up by the template, without what only a real run has.
        """
        document = self._plan.document
        scoring = {**cast("JsonObject", document.get("scoring") or {})}
        scoring |= {"holdout_split": 0, "calibration_criterion": None}
        trivial = {
            **document,
            "scoring": scoring,
            "execution_policy": {"on_threshold": "continue"},
            "hitl_steps": [],
        }
        tally = Tally(trivial, self._plan.commitment_hash, len(self._drawn))
        for (cluster_key, results), times in counts.items():
            found = tally.come_to(InvocationStatus.SUCCESS.value, *results)
            tally.count(found, cluster_key, times=times)

        def bounds(name: str, _: str) -> tuple[float | None, float | None]:
            return (None, None) if name == COMPOSITE else resampled_bounds(tally, name)

        added_up = tally.aggregate(bounds=bounds, calibrated=error_by_chance)
        return {
            name: {
                "score": score,
                "n": added_up["score_counts"][name]["scored"],
                "interval": added_up["score_intervals"][name],
            }
            for name, score in added_up["scores"].items()
            if score is not None
        }

    def _episodes(self, wanted: Collection[int]) -> Iterator[GroundTruthEpisode]:
        """Yield the episodes of these numbers; DefectError where the dataset cannot be read."""
        for seq, line in enumerate(bare_lines(self._folder, REPLAY_DATASET), start=1):
            if seq in wanted:
                yield next(read_episodes([line], first=seq))

    def _inputs(self) -> Iterator[JsonValue]:
        """Yield what was sent in each of them, as its record has it."""
        total = self._scoring.tally.episodes
        if total <= PART_SIZE:
            paths = {seq: f"invocations/episode_{seq:06d}.json" for seq in sorted(self._drawn)}
        else:
            parts = range(1, -(-total // PART_SIZE) + 1)
            paths = {PART_SIZE * (n - 1) + 1: f"invocations/part-{n:05d}.jsonl" for n in parts}
        for first, path in paths.items():
            # A run that failures ended has asked for no more than its first parts.
            lines = self._folder.lines(path) if path in self._folder.files else ()
            for seq, line in enumerate(lines, start=first):
                if seq in self._drawn:
                    sent = at(parse_object(line), "calls", 0, "request", "input_data")
                    yield None if isinstance(sent, Nothing) else sent

    def _cases(self) -> Iterator[tuple[GroundTruthEpisode, JsonValue]]:
        """Yield each drawn episode with what was sent."""
        if self._plan.sanitising is None:
            yield from ((one, one.input_data) for one in self._episodes(self._drawn))
        else:
            yield from zip(self._episodes(self._drawn), self._inputs(), strict=True)

    def _expected(self, episode: GroundTruthEpisode) -> Held:
        """Return what counts of an episode: on each criterion that it was drawn for."""
        held = self._scorers.expected(episode, self._scoring.gold.get(episode.episode_id))
        return {
            name: value if episode.seq in self._drawn_for[name] else NOTHING
            for name, value in held.items()
        }

    def _key(
        self, episode: GroundTruthEpisode, results: Mapping[str, float | str]
    ) -> tuple[str | None, tuple[float | str, ...]]:
        """Return what counts of an episode; a criterion without a result does not apply."""
        ids = self._scoring.tally.plan.ids
        return episode.cluster_key, tuple(results.get(name, NOT_APPLICABLE) for name in ids)

    def _play(
        self, runner: EpisodeRunner, names: Sequence[str], counts: Mapping[str, Counts]
    ) -> None:
        """Play each drawn episode with both trivial players, as no construct is asked.

        UnplayableError where the runner does not bring one to an end. What it raises on purpose is
        passed on.
        """
        for number, episode in enumerate(self._episodes(self._drawn)):
            self._evidence.progress(number)
            held = self._expected(episode)
            for baseline in PLAYED:
                try:
                    result = self._result_of_play(runner, baseline, episode)
                except TheatreError:
                    raise
                except Exception as error:  # a plug-in may raise anything
                    raise UnplayableError(f"{runner.pin} raised {type(error).__name__}") from error
                hops = {} if result is None else {self._plan.hops[0].construct_id: result}
                answer = EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=hops)
                results = {
                    name: self._scorers.result(name, episode, answer, held) for name in names
                }
                counts[baseline][self._key(episode, results)] += 1

    def _result_of_play(
        self, runner: EpisodeRunner, baseline: str, episode: GroundTruthEpisode
    ) -> JsonObject | None:
        """Return what becomes of an episode; None where an answer does not fit its shape."""
        seed, answer = self._scoring.draws.play_seed(episode.episode_id), None
        with closing(runner.play(copy.deepcopy(episode.input_data), seed)) as play:
            for answered in range(runner.max_calls + 1):
                try:
                    turn = turn_of(next(play) if answer is None else play.send(answer))
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]
                if answered == runner.max_calls:
                    break
                asked = parse_object(canonical_bytes(turn.input_data))
                answer = asked if baseline == "copied" else {}
                shape = self._plan.hops[turn.hop].output_spec
                if not OutputShape(shape, self._evidence.registry).fits(answer):
                    return None
        raise UnplayableError(f"{runner.pin} asks more than {runner.max_calls} times")

    def _score(
        self, names: Sequence[str], counts: Mapping[str, Counts], own: frozenset[str] | None
    ) -> None:
        """Put the four answers of each drawn episode to the scorers.

        Of interactive episodes those that were not played, where they are `own` words alone.
        """
        frequent, before = self._find_known(names)
        best = self._best(names)
        values: dict[str, Callable[[str, JsonValue, JsonValue], JsonValue | Nothing]] = {
            "empty": lambda _, expected, __: _nothing_like(expected),
            "copied": self._copy,
            "most_frequent": lambda name, _, __: self._one_of(name, frequent),
            "other_episode": lambda name, _, __: self._one_of(name, before),
            BEST: lambda name, _, __: best.get(name, NOTHING),
        }
        for episode, sent in self._cases():
            held = self._expected(episode)
            expected = known(held)
            # Of the answers to an episode some are the same: a scorer is asked once.
            scored: dict[tuple[str, str], float | str] = {}
            for baseline, counted in counts.items():
                if own is not None and baseline in PLAYED:
                    continue
                results = {}
                for name in names:
                    value = values[baseline](name, expected.get(name), sent)
                    if isinstance(value, Nothing):
                        continue
                    key = name, repr(value)
                    if key not in scored:
                        answer = self._answer(name, value)
                        said = answer.hops[self._place(name)[0]].keys()
                        is_said = own is None or (said and said <= own)
                        result = self._scorers.result(name, episode, answer, held)
                        scored[key] = result if is_said else NOT_APPLICABLE
                    results[name] = scored[key]
                counted[self._key(episode, results)] += 1
            before |= {name: expected[name] for name in names if name in expected}

    def _best(self, names: Sequence[str]) -> dict[str, JsonValue]:
        """Return criterion → the answer that its scorer takes for right most often."""
        ways = {name: self._scorers.one_for_all(name) for name in names}
        held: dict[str, list[JsonValue]] = {name: [] for name, way in ways.items() if way}
        for episode in self._episodes(self._drawn if held else ()):
            expected = known(self._expected(episode))
            for name in held.keys() & expected.keys():
                held[name].append(expected[name])
        found = {
            name: way(held[name], self._plan.params[name]) for name, way in ways.items() if way
        }
        return {name: answer for name, answer in found.items() if answer is not None}

    def _one_of(self, name: str, known: Mapping[str, JsonValue]) -> JsonValue | Nothing:
        """Return what is known, for `text_match` the first of several texts that will do."""
        value = known.get(name, NOTHING)
        if self._plan.scorers[name] == "text_match" and isinstance(value, list) and value:
            return value[0]
        return value

    def _find_known(
        self, names: Sequence[str]
    ) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
        """Return criterion → most frequent expectation (of several the first), and → the last one.

        The draw has their digests; a reading of the dataset has what they stand for.
        """
        frequent_at, last_at = {}, {}
        for name in names:
            seen = [(seq, one) for seq, one in self._drawn_for[name].items() if one is not None]
            if seen:
                times = Counter(digest for _, digest in seen)
                most = max(times.values())
                frequent_at[name] = next(seq for seq, digest in seen if times[digest] == most)
                last_at[name] = seen[-1][0]
        frequent: dict[str, JsonValue] = {}
        last: dict[str, JsonValue] = {}
        for episode in self._episodes({*frequent_at.values(), *last_at.values()}):
            for name, value in known(self._expected(episode)).items():
                if frequent_at.get(name) == episode.seq:
                    frequent[name] = value
                if last_at.get(name) == episode.seq:
                    last[name] = value
        return frequent, last

    def _place(self, name: str) -> tuple[str, str | None]:
        """Return construct and path of a criterion's answer, None where it is all of the output."""
        if not isinstance(field := self._plan.params[name].get("field"), str):
            return self._plan.hops[-1].construct_id, None
        construct, named, path = field.partition(":")
        return (construct, path) if named else (self._plan.hops[-1].construct_id, construct)

    def _copy(self, name: str, expected: JsonValue, sent: JsonValue) -> JsonValue:
        path = self._place(name)[1]
        own = sent if path is None else at_path(sent, path)
        if not isinstance(own, Nothing):
            return own
        texts = texts_in(sent)
        return [*texts] if isinstance(expected, list) else "\n".join(texts)

    def _answer(self, name: str, value: JsonValue) -> EpisodeAnswer:
        """Return the answer that has `value` where a criterion looks, and nothing else."""
        construct, path = self._place(name)
        if path is None and not isinstance(value, dict):
            value = {}
        for member in [] if path is None else path.split(".")[::-1]:
            value = {member: value}
        hops: dict[str, JsonObject] = {hop.construct_id: {} for hop in self._plan.hops}
        hops[construct] = cast("JsonObject", value)
        return EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=hops)


def _kept_words(
    kept: Callable[[int], bytes], seq: int, own: frozenset[str] | None
) -> tuple[JsonObject, list[Hops | None]]:
    """Return what was sent and what came; of what came of a play, the construct's words alone."""
    sent, answers = cast("tuple[JsonObject, list[Any]]", parse_json(kept(seq)))
    return sent, [
        None
        if hops is None
        else {
            construct: {name: value for name, value in output.items() if own is None or name in own}
            for construct, output in hops
        }
        for hops in answers
    ]


def _nothing_like(expected: JsonValue) -> JsonValue:
    forms: list[tuple[type, JsonValue]] = [(str, ""), (list, []), (dict, {})]
    return next((value for form, value in forms if isinstance(expected, form)), None)
