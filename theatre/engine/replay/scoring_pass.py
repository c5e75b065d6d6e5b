"""One pass over dataset and journal, side by side: lines, invocation records, sums of scores.

Memory does not grow with the number of episodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Draws
from theatre.engine.episode_root import EpisodeRoot
from theatre.engine.errors import JournalError
from theatre.engine.evidence_bundle import EvidenceBundleBuilder
from theatre.engine.models import (
    REPEATS,
    EpisodeOutcome,
    EpisodeResult,
    EpisodeRunner,
    GroundTruthEpisode,
    InvocationStatus,
    Scored,
    Verdict,
    read_episodes,
)
from theatre.engine.replay.context import (
    DatasetReader,
    EpisodePair,
    RunJournal,
    failure_stop,
    run_in_thread,
)
from theatre.engine.replay.recording import input_sent
from theatre.engine.replay.tier_evidence import CallFacts
from theatre.engine.replay.trail_batches import TrailBatches
from theatre.engine.replay.usage import UsageTally, committed_prices
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import (
    Aggregator,
    AuditedEpisode,
    BaselineScores,
    DataAudit,
    DrawnEpisodes,
    FailureStop,
    RepeatScores,
    ScoredEpisode,
    TheatreScoringProvider,
    TrivialPlayers,
    stated_probability,
)
from theatre.engine.scoring.echoes import Outputs
from theatre.engine.scoring.repeats import outputs_of
from theatre.engine.templates import ProductTheatreTemplate

# What a run's questions are worth as evidence, gathered while its episodes stream past.
#
# Source: docs/contract/earned.md §5.


class DistinctEvidence:
    """The data audit of one run and the episodes that its baselines are scored on."""

    def __init__(
        self,
        template: ProductTheatreTemplate,
        provider: TheatreScoringProvider,
        gold: Mapping[str, JsonObject],
        *,
        draws: Draws,
        runner: EpisodeRunner | None,
        registry: SchemaRegistry,
    ) -> None:
        """Take what scores; `runner` is that of interactive episodes."""
        self._provider = provider
        self._gold = gold
        self._audit = DataAudit(provider.criterion_ids)
        with_null = [one.criterion_id for one in provider.criteria if one.scorer.needs_expectation]
        self._drawn = DrawnEpisodes(draws.commitment_hash, with_null)
        self._baselines = BaselineScores(
            provider,
            [hop.construct_id for hop in template.hops],
            players=None
            if runner is None
            else TrivialPlayers(runner, template.hops, draws=draws, registry=registry),
            commitment_hash=draws.commitment_hash,
            under_test=template.product_theatre_config.construct_under_test,
        )

    def close(self) -> None:
        """Remove what was stored."""
        self._drawn.close()

    def add(self, episode: GroundTruthEpisode, result: EpisodeResult) -> None:
        """Take the next episode that counts."""
        sent = episode.input_data
        if result.facts["input_changed"]:
            sent = input_sent(result.record.document)
        counted = {
            criterion
            for criterion, one in result.scores.items()
            if isinstance(one, Scored) or one is Verdict.MISSING
        }
        scored = result.outcome is EpisodeOutcome.SCORED
        self._take(episode, sent, counted, lambda: _answers_to(result), scored=scored)

    def add_unanswered(self, episode: GroundTruthEpisode, sent: JsonObject) -> None:
        """Take an episode of a dataset that nothing has run: as if everything was scored."""
        label = self._gold.get(episode.episode_id)
        held = self._provider.expectations(episode, label)
        self._take(episode, sent, held, tuple, scored=True)

    def _take(
        self,
        episode: GroundTruthEpisode,
        sent: JsonObject,
        counted: Collection[str],
        answers: Callable[[], Sequence[Outputs | None]],
        *,
        scored: bool,
    ) -> None:
        label = self._gold.get(episode.episode_id)
        truths = (episode.expected_output, label)
        held = self._provider.expectations(episode, label)
        self._audit.add(
            AuditedEpisode(
                sent=sent,
                truths=[truth for truth in truths if truth is not None],
                expectations=held,
                scored=scored,
                counted=counted,
                cluster_key=episode.cluster_key,
            )
        )
        self._drawn.add(episode, sent, held, answers)

    @property
    def audit(self) -> JsonObject:
        """Return `scores/data_audit.json`."""
        return self._audit.as_document()

    def dealt(self) -> dict[str, float]:
        """Return what the construct's answers score for other questions, by criterion."""
        return self._baselines.dealt(self._drawn, self._gold)

    def documents(
        self, raise_if_cancelled: Callable[[], None] = lambda: None
    ) -> tuple[JsonObject, JsonObject]:
        """Return `scores/data_audit.json` and `scores/baselines.json`; the callback may raise."""
        return self.audit, self._baselines.as_document(self._drawn, self._gold, raise_if_cancelled)

    def write(
        self, builder: EvidenceBundleBuilder, raise_if_cancelled: Callable[[], None]
    ) -> tuple[JsonObject, JsonObject]:
        """Write both documents and return them."""
        audit, baselines = self.documents(raise_if_cancelled)
        builder.write_document("scores/data_audit.json", audit)
        builder.write_document("scores/baselines.json", baselines)
        return audit, baselines


def _answers_to(result: EpisodeResult) -> Sequence[Outputs | None]:
    """Return the answers that count, None for one that failed; none where all were refused."""
    if result.status is InvocationStatus.REFUSED:
        return ()
    repeats = RepeatScores.of_facts(result.facts.get(REPEATS))
    if repeats is None:
        succeeded = result.status is InvocationStatus.SUCCESS
        return [outputs_of(result.record.document) if succeeded else None]
    return [
        outputs_of(result.record.document, at) if status is InvocationStatus.SUCCESS else None
        for at, status in enumerate(repeats.statuses)
    ]


_PAIRS_AT_A_TIME = 100
"""So many episodes are written at a time, in a thread."""

EpisodeListener = Callable[[GroundTruthEpisode, EpisodeResult], None]
"""Is shown every episode that counts, in dataset order, with its result."""


class ScoringPass:
    """Writes the lines of `scores/` and the records of `invocations/` of one theatre."""

    def __init__(
        self,
        template: ProductTheatreTemplate,
        provider: TheatreScoringProvider,
        draws: Draws,
        root: EpisodeRoot,
        listeners: Sequence[EpisodeListener] = (),
    ) -> None:
        self._template = template
        self._provider = provider
        self._draws = draws
        self._root = root
        self._listeners = listeners
        self._not_run = dict.fromkeys(provider.criterion_ids, Verdict.NOT_RUN)

    async def write(
        self, builder: EvidenceBundleBuilder, journal: RunJournal, dataset: DatasetReader
    ) -> tuple[Aggregator, CallFacts]:
        """Return the sums of the scores, and what the records say about the calls.

        Raises JournalError where an episode that counts is not recorded, and JournalChangedError
        where what is recorded is not what the audit trail names.
        """
        batches = await TrailBatches.read(journal, builder.theatre_id)
        aggregator = Aggregator(self._provider, self._draws)
        facts = CallFacts(
            self._template.product_theatre_config.construct_under_test,
            usage=UsageTally(committed_prices(self._template)),
        )
        total = dataset.lines_total
        with contextlib.ExitStack() as stack:
            lines = stack.enter_context(builder.open_file("scores/per_episode.jsonl"))
            records = stack.enter_context(builder.invocation_writer(total))
            stop = failure_stop(self._template, total)

            def write(pairs: Sequence[EpisodePair]) -> None:
                # Step after step, each for all of these pairs: it takes half of what all steps for
                # pair after pair take, which push each other out of the processor's caches.
                counted = [(episode, _counted(stop, episode, result)) for episode, result in pairs]
                recorded = [result for _, result in pairs if result is not None]
                for one in recorded:
                    records.write(one.seq, one.record.line)
                shown = [aggregator.add(self._score_episode(*pair)) for pair in counted]
                lines.write(b"".join(shown))
                for (episode, result), line in zip(pairs, shown, strict=True):
                    self._root.add(episode, None if result is None else result.record.line, line)
                found = [(episode, result) for episode, result in counted if result is not None]
                facts.discarded += len(recorded) - len(found)
                for _, one in found:
                    facts.note(one.facts)
                for listen in self._listeners:
                    for pair in found:
                        listen(*pair)

            episodes, results = read_episodes(dataset.lines()), batches.results(journal)
            async for pairs in _in_groups(episodes, results):
                await run_in_thread(write, pairs)
            # Both become durable: that waits for the disk, too.
            await run_in_thread(stack.close)
        return aggregator, facts

    def _score_episode(
        self, episode: GroundTruthEpisode, result: EpisodeResult | None
    ) -> ScoredEpisode:
        return ScoredEpisode(
            seq=episode.seq,
            episode_id=episode.episode_id,
            status=None if result is None else result.status,
            outcome=EpisodeOutcome.NOT_RUN if result is None else result.outcome,
            scores=self._not_run if result is None else result.scores,
            cluster_key=episode.cluster_key,
            probability=None if result is None else stated_probability(result.facts["confidence"]),
            repeats=None if result is None else RepeatScores.of_facts(result.facts.get(REPEATS)),
        )


def _counted(
    stop: FailureStop, episode: GroundTruthEpisode, result: EpisodeResult | None
) -> EpisodeResult | None:
    """Return a result that counts, and count it; None behind the end of the run."""
    if stop.stopped:
        return None
    if result is None:
        raise JournalError(
            f"expected episode {episode.seq} in the journal before settling, got none"
        )
    stop.count(result.failures)
    return result


async def _in_groups(
    episodes: Iterator[GroundTruthEpisode], results: AsyncIterator[EpisodeResult]
) -> AsyncIterator[list[EpisodePair]]:
    """Yield every episode of the dataset with the result recorded before, or None."""
    result = await anext(results, None)
    while group := list(islice(episodes, _PAIRS_AT_A_TIME)):
        found = {}
        while result is not None and result.seq <= group[-1].seq:
            found[result.seq] = result
            result = await anext(results, None)
        yield [(episode, found.get(episode.seq)) for episode in group]
