"""What a run's questions are worth as evidence, gathered while its episodes stream past.

Source: docs/contract/earned.md §5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Draws
from theatre.engine.evidence_bundle import EvidenceBundleBuilder
from theatre.engine.models import (
    EpisodeOutcome,
    EpisodeResult,
    EpisodeRunner,
    GroundTruthEpisode,
    Scored,
    Verdict,
)
from theatre.engine.replay.records import input_sent
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import (
    AuditedEpisode,
    BaselineScores,
    DataAudit,
    DrawnEpisodes,
    TheatreScoringProvider,
    TrivialPlayers,
)
from theatre.engine.templates import ProductTheatreTemplate


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
        self._drawn = DrawnEpisodes(draws.commitment_hash)
        self._baselines = BaselineScores(
            provider,
            [hop.construct_id for hop in template.hops],
            players=None
            if runner is None
            else TrivialPlayers(runner, template.hops, draws=draws, registry=registry),
            commitment_hash=draws.commitment_hash,
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
        self._take(episode, sent, counted, scored=result.outcome is EpisodeOutcome.SCORED)

    def add_unanswered(self, episode: GroundTruthEpisode, sent: JsonObject) -> None:
        """Take an episode of a dataset that nothing has run: as if everything was scored."""
        label = self._gold.get(episode.episode_id)
        self._take(episode, sent, self._provider.expectations(episode, label), scored=True)

    def _take(
        self,
        episode: GroundTruthEpisode,
        sent: JsonObject,
        counted: Collection[str],
        *,
        scored: bool,
    ) -> None:
        label = self._gold.get(episode.episode_id)
        truths = (episode.expected_output, label)
        self._audit.add(
            AuditedEpisode(
                sent=sent,
                truths=[truth for truth in truths if truth is not None],
                expectations=self._provider.expectations(episode, label),
                scored=scored,
                counted=counted,
                cluster_key=episode.cluster_key,
            )
        )
        self._drawn.add(episode, sent)

    @property
    def audit(self) -> JsonObject:
        """Return `scores/data_audit.json`."""
        return self._audit.as_document()

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
