"""What trivial answers score, computed again with the pinned scorers.

Source: docs/contract/earned.md §5.2.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

from theatre.engine.bundle_check.arithmetic import COMPOSITE, Document, Tally
from theatre.engine.bundle_check.batches import PART_SIZE
from theatre.engine.bundle_check.calls import OutputShape
from theatre.engine.bundle_check.commitment import bare_lines
from theatre.engine.bundle_check.data_audit import BASELINES, PLAYED, evidence_findings, texts_in
from theatre.engine.bundle_check.folder import AGGREGATE, DATA_AUDIT, BundleFolder, Documents
from theatre.engine.bundle_check.folder import BASELINES as BASELINE_FILE
from theatre.engine.bundle_check.plan import REPLAY_DATASET, CommittedHop, CommittedPlan
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
)
from theatre.engine.bundle_check.results import EpisodeEvidence, near_interval
from theatre.engine.bundle_check.scorers import (
    NOT_APPLICABLE,
    EpisodeAnswer,
    PinnedScorers,
    at_path,
    error_by_chance,
    resampled_bounds,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.coin import Draws
from theatre.engine.errors import DatasetError, ParseError, TheatreError, UnplayableError
from theatre.engine.models import (
    EpisodeRunner,
    GroundTruthEpisode,
    InvocationStatus,
    read_episodes,
    turn_of,
)
from theatre.engine.schema_registry import SchemaRegistry

# What comes of an interactive episode that is answered without any work.
#
# Source: docs/contract/earned.md §5.2.
#
# The installed runner plays it from the seed that the revealed coin gives; no construct is asked.


@dataclass(frozen=True, slots=True, kw_only=True)
class TrivialPlays:
    """Plays episodes of one bundle with `{}` for an answer, or with a copy of each question."""

    runner: EpisodeRunner
    hops: Sequence[CommittedHop]
    draws: Draws
    registry: SchemaRegistry
    progress: Callable[[int], None]
    """Is called before each episode with the number of those before it; may raise."""

    def play(self, baseline: str, episode: GroundTruthEpisode) -> EpisodeAnswer:
        """Return the answer that scorers see, without any output where no shape fits.

        UnplayableError where the runner does not bring the episode to an end. What it raises on
        purpose is passed on.
        """
        try:
            result = self._result(baseline, episode)
        except TheatreError:
            raise
        except Exception as error:  # a plug-in may raise anything
            raise UnplayableError(f"{self.runner.pin} raised {type(error).__name__}") from error
        hops = {} if result is None else {self.hops[0].construct_id: result}
        return EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=hops)

    def _result(self, baseline: str, episode: GroundTruthEpisode) -> JsonObject | None:
        seed, answer = self.draws.play_seed(episode.episode_id), None
        with closing(self.runner.play(copy.deepcopy(episode.input_data), seed)) as play:
            for answered in range(self.runner.max_calls + 1):
                try:
                    turn = turn_of(next(play) if answer is None else play.send(answer))
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]
                if answered == self.runner.max_calls:
                    break
                asked = parse_object(canonical_bytes(turn.input_data))
                answer = asked if baseline == "copied" else {}
                if not OutputShape(self.hops[turn.hop].output_spec, self.registry).fits(answer):
                    return None
        raise UnplayableError(f"{self.runner.pin} asks more than {self.runner.max_calls} times")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedEvidence:
    """Data audit and baselines: recomputed, or as they are stored where that cannot be."""

    audit: JsonObject | Nothing
    baselines: JsonObject | Nothing

    def findings(
        self, plan: CommittedPlan | None, results: JsonObject | Nothing, documents: Documents
    ) -> list[str] | Nothing:
        """Return what follows from them; NOTHING where a part has another form."""
        parts = (self.audit, self.baselines, results)
        if plan is None or any(isinstance(part, Nothing) for part in parts):
            return NOTHING
        audit, baselines_, aggregate = cast("tuple[Document, Document, Document]", parts)
        # Bounds as they are stored: those have their own check.
        intervals = documents.at(AGGREGATE, "score_intervals")
        try:
            return evidence_findings(
                plan.document, audit, baselines_, aggregate | {"score_intervals": intervals}
            )
        except (AttributeError, KeyError, TypeError):
            return NOTHING


def check_counted_evidence(
    folder: BundleFolder,
    documents: Documents,
    plan: CommittedPlan | None,
    evidence: EpisodeEvidence,
    plays: TrivialPlays | None,
    ledger: Ledger,
) -> CountedEvidence:
    """Make the checks `data-audit` and `baselines`; `plays` are of interactive episodes."""
    scoring = evidence.scoring
    audit, made = (
        NOTHING if one is None else one
        for one in (documents.get(DATA_AUDIT), documents.get(BASELINE_FILE))
    )
    if plan is None or isinstance(scoring, Cause):
        cause = scoring if isinstance(scoring, Cause) else Cause("no valid template")
        for check in (CheckId.DATA_AUDIT, CheckId.BASELINES):
            ledger.cannot(check, cause)
        return CountedEvidence(audit=audit, baselines=made)
    audited = scoring.audit.document()
    ledger.compare(CheckId.DATA_AUDIT, DATA_AUDIT, audited, documents.at(DATA_AUDIT))
    distinct = f"{audited['distinct_inputs']} of {audited['episodes']} inputs differ"
    ledger.completed(CheckId.DATA_AUDIT, distinct)
    sources = BaselineSources(
        folder=folder,
        plan=plan,
        total=scoring.tally.episodes,
        gold=scoring.gold,
        scorers=scoring.scorers,
        drawn=scoring.draw.drawn,
        plays=plays,
    )
    if evidence.other_runner is not None:
        ledger.cannot(CheckId.BASELINES, evidence.other_runner)
        return CountedEvidence(audit=audited, baselines=made)
    try:
        scored = baselines(sources)
    except (DefectError, DatasetError, ParseError, ValueError) as error:
        ledger.wrong(CheckId.BASELINES, "the drawn episodes and their records", str(error))
        return CountedEvidence(audit=audited, baselines=NOTHING)
    stored_baselines = documents.at(BASELINE_FILE)
    for criterion, one in scored["criteria"].items():
        for name in BASELINES:
            seen = at(stored_baselines, "criteria", criterion, name, "interval")
            if one[name] is not None and near_interval(one[name]["interval"], seen):
                one[name]["interval"] = seen
    ledger.compare(CheckId.BASELINES, BASELINE_FILE, scored, stored_baselines)
    ledger.completed(CheckId.BASELINES, f"{scored['episodes']} episodes")
    return CountedEvidence(audit=audited, baselines=scored)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSources:
    """Where the drawn episodes are read again, and what scores them."""

    folder: BundleFolder
    plan: CommittedPlan
    total: int
    gold: Mapping[str, JsonObject]
    scorers: PinnedScorers
    drawn: Sequence[int]
    plays: TrivialPlays | None

    def episodes(self) -> Iterator[GroundTruthEpisode]:
        """Yield the drawn episodes; DefectError where the dataset cannot be read."""
        wanted = set(self.drawn)
        for seq, line in enumerate(bare_lines(self.folder, REPLAY_DATASET), start=1):
            if seq in wanted:
                yield replace(next(read_episodes([line])), seq=seq)

    def inputs(self) -> Iterator[JsonValue]:
        """Yield what was sent in each of them, as its record has it."""
        wanted, parts = set(self.drawn), range(1, -(-self.total // PART_SIZE) + 1)
        if self.total <= PART_SIZE:
            paths = {seq: f"invocations/episode_{seq:06d}.json" for seq in self.drawn}
        else:
            paths = {PART_SIZE * (n - 1) + 1: f"invocations/part-{n:05d}.jsonl" for n in parts}
        for first, path in paths.items():
            for seq, line in enumerate(self.folder.lines(path), start=first):
                if seq in wanted:
                    sent = at(parse_object(line), "calls", 0, "request", "input_data")
                    yield None if isinstance(sent, Nothing) else sent

    def cases(self) -> Iterator[tuple[GroundTruthEpisode, JsonValue]]:
        """Yield each drawn episode with what was sent."""
        if self.plan.sanitising is None:
            yield from ((episode, episode.input_data) for episode in self.episodes())
        else:
            yield from zip(self.episodes(), self.inputs(), strict=True)

    def find_expectations(self, episode: GroundTruthEpisode) -> dict[str, JsonValue]:
        """Return what is expected on each criterion, where it is not null."""
        return self.scorers.expectations(episode, self.gold.get(episode.episode_id))


def baselines(sources: BaselineSources) -> Document:
    """Return `scores/baselines.json`, recomputed."""
    reasons = {name: _why_not(name, sources) for name in sources.plan.scorers}
    names = [name for name, reason in reasons.items() if reason is None]
    tallies = {baseline: _tally(sources) for baseline in BASELINES}
    try:
        if names and sources.plays is not None:
            _play(sources, sources.plays, names, tallies)
        elif names:
            _score(sources, names, tallies)
    except UnplayableError:
        reasons = {name: reason or "unplayable" for name, reason in reasons.items()}
        tallies = {baseline: _tally(sources) for baseline in BASELINES}
    scored = {baseline: _scores(tally) for baseline, tally in tallies.items()}
    return {
        "episodes": len(sources.drawn),
        "criteria": {
            name: {"not_applicable": reason}
            | {baseline: scored[baseline].get(name) for baseline in BASELINES}
            for name, reason in reasons.items()
        },
    }


def _why_not(name: str, sources: BaselineSources) -> str | None:
    plan = sources.plan
    if sources.scorers.is_judged(name):
        return "judged"
    steps = cast("list[JsonObject]", plan.document.get("hitl_steps") or [])
    if any(step.get("criterion_id") == name and step.get("share") is not None for step in steps):
        return "human"
    if sources.plays is not None:
        return None
    return None if isinstance(plan.params[name].get("field"), str) else "no-field"


def _play(
    sources: BaselineSources,
    plays: TrivialPlays,
    names: Sequence[str],
    tallies: Mapping[str, Tally],
) -> None:
    """Play each drawn episode with both trivial players and put the results to the scorers."""
    for number, episode in enumerate(sources.episodes()):
        gold = sources.gold.get(episode.episode_id)
        plays.progress(number)
        for baseline in PLAYED:
            answer = plays.play(baseline, episode)
            results: dict[str, float | str] = dict.fromkeys(sources.plan.scorers, NOT_APPLICABLE)
            for name in names:
                results[name] = sources.scorers.result(name, episode, answer, gold)
            _add(tallies[baseline], episode, results)


def _score(sources: BaselineSources, names: Sequence[str], tallies: Mapping[str, Tally]) -> None:
    """Put the four answers of each drawn episode to the scorers."""
    frequent, before = _find_known(sources, names)
    answers: dict[str, Callable[[str, JsonValue, JsonValue], JsonValue | Nothing]] = {
        "empty": lambda _, expected, __: _nothing_like(expected),
        "copied": lambda name, expected, sent: _copy(sources.plan, name, expected, sent),
        "most_frequent": lambda name, _, __: frequent.get(name, NOTHING),
        "other_episode": lambda name, _, __: before.get(name, NOTHING),
    }
    for episode, sent in sources.cases():
        expected = sources.find_expectations(episode)
        for baseline, tally in tallies.items():
            results: dict[str, float | str] = dict.fromkeys(sources.plan.scorers, NOT_APPLICABLE)
            for name in names:
                value = answers[baseline](name, expected.get(name), sent)
                if not isinstance(value, Nothing):
                    results[name] = _result(sources, name, episode, value)
            _add(tally, episode, results)
        before |= {name: expected[name] for name in names if name in expected}


def _add(tally: Tally, episode: GroundTruthEpisode, results: Mapping[str, float | str]) -> None:
    tally.add(
        seq=episode.seq,
        episode_id=episode.episode_id,
        status=InvocationStatus.SUCCESS.value,
        results=results,
        cluster_key=episode.cluster_key,
    )


def _find_known(
    sources: BaselineSources, names: Sequence[str]
) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Return the most frequent expectation on each criterion (of several the first), and the last.

    A first reading keeps digests, a second one what they stand for.
    """
    digests: dict[str, list[tuple[int, bytes]]] = {name: [] for name in names}
    for episode in sources.episodes():
        for name, value in sources.find_expectations(episode).items():
            if name in digests:
                digest = hashlib.sha256(canonical_bytes(value)).digest()
                digests[name].append((episode.seq, digest))
    frequent_at, last_at = {}, {}
    for name, seen in digests.items():
        if seen:
            all_of_it = [digest for _, digest in seen]
            times = Counter(all_of_it)
            frequent_at[name] = next(s for s, d in seen if times[d] == max(times.values()))
            last_at[name] = seen[-1][0]
    frequent: dict[str, JsonValue] = {}
    last: dict[str, JsonValue] = {}
    for episode in sources.episodes():
        for name, value in sources.find_expectations(episode).items():
            if frequent_at.get(name) == episode.seq:
                frequent[name] = value
            if last_at.get(name) == episode.seq:
                last[name] = value
    return frequent, last


def _place(plan: CommittedPlan, name: str) -> tuple[str, str]:
    """Return construct and path of a criterion's answer."""
    construct, named, path = str(plan.params[name]["field"]).partition(":")
    return (construct, path) if named else (plan.hops[-1].construct_id, construct)


def _nothing_like(expected: JsonValue) -> JsonValue:
    forms: list[tuple[type, JsonValue]] = [(str, ""), (list, []), (dict, {})]
    return next((value for form, value in forms if isinstance(expected, form)), None)


def _copy(plan: CommittedPlan, name: str, expected: JsonValue, sent: JsonValue) -> JsonValue:
    own = at_path(sent, _place(plan, name)[1])
    if not isinstance(own, Nothing):
        return own
    texts = list(texts_in(sent))
    return [*texts] if isinstance(expected, list) else "\n".join(texts)


def _result(
    sources: BaselineSources, name: str, episode: GroundTruthEpisode, value: JsonValue
) -> float | str:
    construct, path = _place(sources.plan, name)
    for member in path.split(".")[::-1]:
        value = {member: value}
    hops: dict[str, JsonObject] = {hop.construct_id: {} for hop in sources.plan.hops}
    hops[construct] = cast("JsonObject", value)
    answer = EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=hops)
    return sources.scorers.result(name, episode, answer, sources.gold.get(episode.episode_id))


def _tally(sources: BaselineSources) -> Tally:
    """Return an empty sum by the template, without what only a real run has."""
    document = sources.plan.document
    scoring = {**cast("JsonObject", document.get("scoring") or {})}
    scoring |= {"holdout_split": 0, "calibration_criterion": None}
    trivial = {
        **document,
        "scoring": scoring,
        "execution_policy": {"on_threshold": "continue"},
        "hitl_steps": [],
    }
    return Tally(trivial, sources.plan.commitment_hash, len(sources.drawn))


def _scores(tally: Tally) -> dict[str, Document]:
    """Return score, n and interval of each criterion that has any."""

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
