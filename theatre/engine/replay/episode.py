"""One episode: its input, the call of each hop, and perhaps all of them again."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import SteadyClock, format_rfc3339
from theatre.engine.coin import Draws
from theatre.engine.errors import ProgrammeError
from theatre.engine.models import (
    FIRST,
    JUDGEMENTS,
    SECOND,
    EpisodeRecord,
    EpisodeRunner,
    GroundTruthEpisode,
    InvocationStatus,
    Judge,
    PlayedRecord,
    RecordedCall,
    Turn,
    ask_judge,
    turn_of,
)
from theatre.engine.oracle_contract import (
    Attempt,
    InputSanitiser,
    InvocationMetadata,
    Invoker,
    OracleAdapter,
    OracleInvocationRequest,
    SanitisedInput,
    failed_attempt,
)
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider
from theatre.engine.templates import Hop, ProductTheatreTemplate

UNSENDABLE = "unsendable-input"


@dataclass(slots=True)
class _Round:
    """The calls of one pass over the hops: what the record keeps, and what came of them."""

    repeat: int
    calls: list[JsonValue] = field(default_factory=list)
    outputs: dict[str, JsonObject] = field(default_factory=dict)
    status: InvocationStatus = InvocationStatus.SUCCESS

    def input_of(self, hop: Hop, episode_input: JsonObject) -> JsonObject:
        """Return what `hop` is sent: the episode's input, or that and what came before."""
        if hop.number == 0:
            return episode_input
        return {"episode": episode_input, "upstream": dict(self.outputs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledEpisode:
    """What came of the calls of one episode; `record` is its invocation record."""

    episode: GroundTruthEpisode
    answer: EpisodeAnswer
    record: JsonObject

    @property
    def failed(self) -> bool:
        """Return whether it counts as a failure, whatever its scores will be."""
        return self.answer.status in {InvocationStatus.TIMEOUT, InvocationStatus.ERROR}


class EpisodeCaller:
    """Calls the committed constructs for one episode after another, or for several at a time.

    `draws` gives every call its id, and every episode the alias under which it is asked; `repeated`
    are the ids of the episodes that are called twice. `sanitiser` is None where the
    template commits that inputs are sent as they are.
    """

    def __init__(
        self,
        *,
        theatre_id: str,
        template: ProductTheatreTemplate,
        adapters: Mapping[str, OracleAdapter],
        invoke: Invoker,
        clock: SteadyClock,
        sanitiser: InputSanitiser | None,
        draws: Draws,
        repeated: frozenset[str],
        runner: EpisodeRunner | None = None,
    ) -> None:
        self._theatre_id = theatre_id
        self._hops = template.hops
        self._policy = template.execution_policy
        self._input_policy = template.input_policy
        self._adapters = adapters
        self._invoke = invoke
        self._clock = clock
        self._sanitiser = sanitiser
        self._draws = draws
        self._repeated = repeated
        self._runner = runner

    async def call(self, episode: GroundTruthEpisode) -> CalledEpisode:
        """Return what came of calling for `episode`, whatever the constructs did."""
        if self._runner is not None:
            return await self._play(episode, self._runner)
        sanitised = self._sanitise(episode.input_data)
        value = episode.input_data if sanitised is None else sanitised.value
        if sanitised is not None and sanitised.wrong_keys:
            rounds = [self._make_unsent_round(episode, sanitised)]
        else:
            rounds = [await self._call_round(episode, value, FIRST)]
            if rounds[0].status is InvocationStatus.SUCCESS and self._is_repeated(episode):
                rounds.append(await self._call_round(episode, value, SECOND))
        # Shares nothing with the answer: a scorer that changes what it is shown changes no record.
        record = EpisodeRecord(
            seq=episode.seq,
            episode_id=episode.episode_id,
            sanitised=None if sanitised is None else sanitised.record,
            calls=[call for made in rounds for call in made.calls],
        )
        answer = _answer(rounds[0])
        return CalledEpisode(episode=episode, answer=answer, record=record.as_document())

    async def _play(self, episode: GroundTruthEpisode, runner: EpisodeRunner) -> CalledEpisode:
        """Call turn after turn, as the runner asks; one that does not succeed is the last."""
        made, result = _Round(FIRST), None
        play = runner.play(episode.input_data, self._draws.play_seed(episode.episode_id))
        try:
            turn = turn_of(next(play))
            for number in count():
                output = await self._take_turn(made, episode, turn, number)
                if output is None:
                    break
                turn = turn_of(play.send(output))
        except StopIteration as ended:
            result = ended.value
            made.outputs = {self._hops[0].construct_id: result}
        record = PlayedRecord(
            seq=episode.seq,
            episode_id=episode.episode_id,
            sanitised=None,
            runner=runner.pin,
            episode_result=result,
            calls=made.calls,
        )
        return CalledEpisode(episode=episode, answer=_answer(made), record=record.as_document())

    async def _take_turn(
        self, made: _Round, episode: GroundTruthEpisode, turn: Turn, number: int
    ) -> JsonObject | None:
        """Make one call of an interactive episode; return its output, None where it failed."""
        hop = self._hops[turn.hop]
        request = self._make_request(episode, hop, turn.input_data, FIRST, turn=number)
        attempts = await self._attempts(hop, request)
        made.calls.append(self._call_document(hop, FIRST, request, attempts))
        response = attempts[-1].response
        made.status = response.status
        succeeded = response.status is InvocationStatus.SUCCESS
        return (response.output_data or {}) if succeeded else None

    def _sanitise(self, value: JsonObject) -> SanitisedInput | None:
        if self._sanitiser is None:
            return None
        policy = self._input_policy
        return self._sanitiser.sanitise(
            value, role_markers=policy.role_markers, raw_fields=policy.raw_fields
        )

    def _is_repeated(self, episode: GroundTruthEpisode) -> bool:
        return episode.episode_id in self._repeated

    async def _call_round(
        self, episode: GroundTruthEpisode, value: JsonObject, repeat: int
    ) -> _Round:
        """Call hop after hop; one that does not succeed is the last."""
        made = _Round(repeat)
        for hop in self._hops:
            request = self._make_request(episode, hop, made.input_of(hop, value), repeat)
            attempts = await self._attempts(hop, request)
            made.calls.append(self._call_document(hop, repeat, request, attempts))
            response = attempts[-1].response
            made.status = response.status
            if response.status is not InvocationStatus.SUCCESS:
                break
            made.outputs[hop.construct_id] = response.output_data or {}
        return made

    async def _attempts(self, hop: Hop, request: OracleInvocationRequest) -> tuple[Attempt, ...]:
        """Call, and return every attempt: none is answered before it was asked for."""
        attempts = await self._invoke(self._adapters[hop.construct_id], request)
        latest, stamped = request.metadata.invoked_at, list[Attempt]()
        for attempt in attempts:
            latest = max(latest, attempt.response.responded_at)
            if latest != attempt.response.responded_at:
                response = replace(attempt.response, responded_at=latest)
                attempt = replace(attempt, response=response)  # noqa: PLW2901 - with its stamp
            stamped.append(attempt)
        self._clock.not_before(latest)
        return tuple(stamped)

    def _make_unsent_round(self, episode: GroundTruthEpisode, sanitised: SanitisedInput) -> _Round:
        """Return the round of an input that must not be sent: one failure, no attempt."""
        hop = self._hops[0]
        request = self._make_request(episode, hop, sanitised.value, FIRST)
        attempt = failed_attempt(
            request,
            InvocationStatus.ERROR,
            reason=UNSENDABLE,
            detail="expected member names that the sanitiser leaves as they are, got at "
            f"{', '.join(sanitised.wrong_keys)}: rename them in the dataset",
            latency_ms=0,
            responded_at=self._clock(),
        )
        document = self._call_document(hop, FIRST, request, (attempt,))
        return _Round(FIRST, calls=[document], status=InvocationStatus.ERROR)

    def _make_request(
        self,
        episode: GroundTruthEpisode,
        hop: Hop,
        value: JsonObject,
        repeat: int,
        *,
        turn: int = 0,
    ) -> OracleInvocationRequest:
        return OracleInvocationRequest(
            invocation_id=self._draws.invocation_id(
                self._theatre_id, seq=episode.seq, hop=hop.number, repeat=repeat, turn=turn
            ),
            theatre_id=self._theatre_id,
            episode_id=self._draws.alias(episode.episode_id),
            construct_id=hop.construct_id,
            construct_version=hop.construct_version,
            input_data=value,
            metadata=InvocationMetadata(
                timeout_seconds=hop.timeout_seconds,
                retry_policy=self._policy.retry_policy,
                deterministic=self._policy.deterministic_sample > 0,
                sanitised=self._sanitiser is not None,
                invoked_at=format_rfc3339(self._clock()),
            ),
        )

    def _call_document(
        self,
        hop: Hop,
        repeat: int,
        request: OracleInvocationRequest,
        attempts: tuple[Attempt, ...],
    ) -> JsonObject:
        adapter = self._adapters[hop.construct_id]
        return RecordedCall(
            hop=hop.number,
            repeat=repeat,
            construct_id=hop.construct_id,
            adapter=adapter.pin,
            version_source="claimed" if adapter.computed_version is None else "computed",
            request=request,
            attempts=attempts,
        ).as_document()


def _answer(made: _Round) -> EpisodeAnswer:
    succeeded = made.status is InvocationStatus.SUCCESS
    return EpisodeAnswer(status=made.status, hops=made.outputs if succeeded else {})


# Asks a judge about an answer, before it is scored, and records every exchange.


def require_judge(provider: TheatreScoringProvider, judge: Judge | None) -> Judge | None:
    """Return the judge that must be asked; None where no criterion needs one.

    Raises ProgrammeError where one does and there is none.
    """
    if not provider.needs_judge:
        return None
    if judge is None:
        raise ProgrammeError("expected a judge for the criteria that need one, got none to ask")
    return judge


class JudgedCaller:
    """Calls for one episode as `EpisodeCaller` does, and has the answer judged."""

    def __init__(
        self,
        caller: EpisodeCaller,
        *,
        provider: TheatreScoringProvider,
        judge: Judge,
        gold: Mapping[str, JsonObject],
    ) -> None:
        self._caller = caller
        self._provider = provider
        self._judge = judge
        self._gold = gold

    async def call(self, episode: GroundTruthEpisode) -> CalledEpisode:
        """Return what came of the calls, with the exchanges about each judged criterion.

        Raises what the judge raises: then nothing of the episode is recorded.
        """
        called = await self._caller.call(episode)
        gold = self._gold.get(episode.episode_id)
        exchanges: dict[str, list[JsonObject]] = {}
        for criterion, judgement in self._provider.judgements(episode, called.answer, gold).items():
            _, exchanges[criterion] = await ask_judge(judgement, self._judge)
        kept: dict[str, JsonValue] = {name: [*made] for name, made in exchanges.items()}
        return dataclasses.replace(
            called,
            # Shares nothing with the record: a scorer may change what it is shown.
            answer=dataclasses.replace(called.answer, judgements=copy.deepcopy(exchanges)),
            record=called.record | {JUDGEMENTS: kept},
        )
