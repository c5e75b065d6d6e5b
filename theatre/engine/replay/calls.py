"""One episode, one call: the request, its attempts, the record of both, and the scores."""

from __future__ import annotations

from collections.abc import Mapping

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.models import (
    EpisodeResult,
    GroundTruthEpisode,
    InvocationStatus,
)
from theatre.engine.oracle_contract import (
    Attempt,
    Invoker,
    OracleAdapter,
    OracleInvocationMetadata,
    OracleInvocationRequest,
    invocation_id,
)
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate, ResolutionStep


class EpisodeCaller:
    """Calls the committed construct for one episode after another."""

    def __init__(
        self,
        *,
        theatre_id: str,
        template: ProductTheatreTemplate,
        step: ResolutionStep,
        adapter: OracleAdapter,
        invoke: Invoker,
        clock: Clock,
    ) -> None:
        self._theatre_id = theatre_id
        self._template = template
        self._construct_id = (
            step.construct_id or template.product_theatre_config.construct_under_test
        )
        self._timeout = template.timeout_of(step)
        self._adapter = adapter
        self._invoke = invoke
        self._clock = clock

    async def call(
        self,
        episode: GroundTruthEpisode,
        provider: TheatreScoringProvider,
        gold: Mapping[str, JsonObject],
    ) -> EpisodeResult:
        """Return the recorded result of `episode`, whatever the construct did."""
        request = self._request(episode)
        attempts = await self._invoke(self._adapter, request)
        # Before anybody scores: a scorer that changes what it is shown changes no evidence.
        record = self._record(episode, request, attempts)
        answer = self._answer(attempts[-1])
        scores = provider.score_episode(episode, answer, gold.get(episode.episode_id))
        return EpisodeResult(
            seq=episode.seq,
            episode_id=episode.episode_id,
            status=answer.status,
            outcome=scores.outcome,
            scores=scores.by_criterion,
            invocation=record,
        )

    def _request(self, episode: GroundTruthEpisode) -> OracleInvocationRequest:
        return OracleInvocationRequest(
            invocation_id=invocation_id(self._theatre_id, seq=episode.seq),
            theatre_id=self._theatre_id,
            episode_id=episode.episode_id,
            construct_id=self._construct_id,
            construct_version=self._template.version_pins.constructs[self._construct_id],
            input_data=episode.input_data,
            metadata=OracleInvocationMetadata(
                timeout_seconds=self._timeout,
                retry_policy=self._template.execution_policy.retry_policy,
                invoked_at=format_rfc3339(self._clock()),
            ),
        )

    def _answer(self, attempt: Attempt) -> EpisodeAnswer:
        response = attempt.response
        succeeded = response.status is InvocationStatus.SUCCESS and response.output_data is not None
        hops = {self._construct_id: response.output_data or {}} if succeeded else {}
        return EpisodeAnswer(status=response.status, hops=hops)

    def _record(
        self,
        episode: GroundTruthEpisode,
        request: OracleInvocationRequest,
        attempts: tuple[Attempt, ...],
    ) -> JsonObject:
        claimed = self._adapter.computed_version is None
        return {
            "seq": episode.seq,
            "episode_id": episode.episode_id,
            "calls": [
                {
                    "hop": 0,
                    "repeat": 0,
                    "construct_id": self._construct_id,
                    "adapter": self._adapter.pin,
                    "version_source": "claimed" if claimed else "computed",
                    "request": request.as_document(),
                    "attempts": [attempt.as_document() for attempt in attempts],
                }
            ],
        }
