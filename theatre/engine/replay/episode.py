"""One episode: its input, the call of each hop, perhaps all of them again, and what a judge says.

Source: docs/contract/construct.md §1 and §5.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.clock import SteadyClock, format_rfc3339
from theatre.engine.coin import Draws
from theatre.engine.errors import DatasetError, ProgrammeError
from theatre.engine.models import (
    FIRST,
    JUDGE_SEED,
    JUDGEMENTS,
    SECOND,
    EpisodeRecord,
    EpisodeRunner,
    GroundTruthEpisode,
    InputSanitiser,
    InvocationStatus,
    Judge,
    PlayedRecord,
    RecordedCall,
    SanitisedInput,
    ask_judge,
    turn_of,
)
from theatre.engine.oracle_contract import (
    Attempt,
    InvocationMetadata,
    Invoker,
    Isolation,
    OracleAdapter,
    OracleInvocationRequest,
    clean_detail,
    cut_raw,
    failed_attempt,
    version_source_of,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider, deciding_repeat
from theatre.engine.templates import Hop, ProductTheatreTemplate

UNSENDABLE = "unsendable-input"
"""The reason of an input whose member names the sanitiser would have to change."""

MISFIT = "output-spec"
"""The reason of an answer that was rejected for its shape; it is retried as any error is."""


def wrap_in_shape_check(
    hops: Iterable[Hop], adapters: Mapping[str, OracleAdapter], registry: SchemaRegistry
) -> dict[str, OracleAdapter]:
    """Return the adapter of each hop's construct; where a shape is committed, it is checked."""
    return {
        hop.construct_id: ShapeCheckingAdapter(
            adapters[hop.construct_id], hop.output_spec, registry
        )
        if hop.output_spec
        else adapters[hop.construct_id]
        for hop in hops
    }


class ShapeCheckingAdapter:
    """Passes calls on; a success whose `output_data` does not fit `output_spec` is an error."""

    def __init__(
        self, adapter: OracleAdapter, output_spec: Mapping[str, object], registry: SchemaRegistry
    ) -> None:
        self._adapter = adapter
        self._output_spec = output_spec
        self._registry = registry

    @property
    def pin(self) -> str:
        """Return the pin of the adapter behind."""
        return self._adapter.pin

    @property
    def computed_version(self) -> str | None:
        """Return the version that the adapter behind computes."""
        return self._adapter.computed_version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return what the construct behind can reach."""
        return await self._adapter.probe_isolation(closed)

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try and judge the shape of what came back."""
        attempt = await self._adapter.invoke(request)
        output = attempt.response.output_data
        if attempt.response.status is not InvocationStatus.SUCCESS or output is None:
            return attempt
        violations = self._registry.validate_inline(self._output_spec, output)
        if not violations:
            return attempt
        first = violations[0]
        detail = f"expected output_data to fit output_spec, got at {first.pointer or '/'}: "
        rejected = replace(
            attempt.response,
            status=InvocationStatus.ERROR,
            output_data=None,
            error_detail=clean_detail(detail + first.detail),
        )
        return Attempt(
            response=rejected,
            reason=MISFIT,
            raw=cut_raw(canonical_bytes(output)),
            stderr=attempt.stderr,
        )

    async def aclose(self) -> None:
        """Close the adapter behind."""
        await self._adapter.aclose()


@dataclass(slots=True)
class _Round:
    """The calls of one pass over the hops: what the record keeps, and what came of them."""

    repeat: int
    calls: list[JsonValue] = field(default_factory=list)
    outputs: dict[str, JsonObject] = field(default_factory=dict)
    status: InvocationStatus = InvocationStatus.SUCCESS

    @property
    def answer(self) -> EpisodeAnswer:
        """Return what is scored."""
        succeeded = self.status is InvocationStatus.SUCCESS
        return EpisodeAnswer(status=self.status, hops=self.outputs if succeeded else {})


class CalledEpisode(NamedTuple):
    """What came of the calls of one episode; `record` is its invocation record.

    `repeats` are the answers of each round where more than one is committed; `answer` is the one
    whose status is the episode's.
    """

    episode: GroundTruthEpisode
    answer: EpisodeAnswer
    record: JsonObject
    repeats: tuple[EpisodeAnswer, ...] = ()

    @property
    def failures(self) -> int:
        """Return how many of its answers count as failures, whatever the scores will be."""
        return sum(answer.status.failed for answer in self.repeats or (self.answer,))


class RoundOrder:
    """Lets rounds of calls begin in the order that the coin draws, at most `limit` at a time.

    Episodes are announced block by block in dataset order; within a block all repeats of all
    episodes are mixed, so that what answers cannot know by the order which repeat it is asked.
    Once `is_stopping` returns true none begins: who waits for its turn is cancelled.
    """

    def __init__(
        self, *, draws: Draws, repeats: int, limit: int, is_stopping: Callable[[], bool]
    ) -> None:
        self._draws = draws
        self._repeats = repeats
        self._free = limit
        self._is_stopping = is_stopping
        self._queue: deque[tuple[int, int]] = deque()
        self._waiting: dict[tuple[int, int], asyncio.Future[None]] = {}

    def announce(self, block: Iterable[GroundTruthEpisode]) -> None:
        """Take the episodes that will be asked next."""
        drawn = [
            (self._draws.repeat_rank(episode.episode_id, repeat), (episode.seq, repeat))
            for episode in block
            for repeat in range(self._repeats)
        ]
        self._queue.extend(place for _, place in sorted(drawn))

    @contextlib.asynccontextmanager
    async def turn(self, seq: int, repeat: int) -> AsyncIterator[None]:
        """Wait until it is the turn of this round, and hold a place until it ends."""
        ready = self._waiting[seq, repeat] = asyncio.get_running_loop().create_future()
        self._admit()
        await ready
        try:
            yield
        finally:
            self._free += 1
            self._admit()

    def _admit(self) -> None:
        if self._is_stopping():
            for ready in self._waiting.values():
                ready.cancel()
            return
        while self._free and self._queue and self._queue[0] in self._waiting:
            ready = self._waiting.pop(self._queue.popleft())
            if not ready.done():
                self._free -= 1
                ready.set_result(None)


class EpisodeCaller:
    """Calls the committed constructs for one episode after another, or for several at a time.

    `draws` gives every call its id, and every episode the alias under which it is asked; `repeated`
    are the ids of the episodes that are called twice, or the order in which all are asked more than
    once. `sanitiser` is None where the template commits that inputs are sent as they are.
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
        repeated: frozenset[str] | RoundOrder,
        runner: EpisodeRunner | None = None,
    ) -> None:
        self._order = repeated if isinstance(repeated, RoundOrder) else None
        self._theatre_id = theatre_id
        self._hops = template.hops
        self._policy = template.execution_policy
        self._input_policy = template.input_policy
        self._adapters = adapters
        self._invoke = invoke
        self._clock = clock
        self._sanitiser = sanitiser
        self._draws = draws
        self._repeated = frozenset() if isinstance(repeated, RoundOrder) else repeated
        self._runner = runner

    async def call(self, episode: GroundTruthEpisode) -> CalledEpisode:
        """Return what came of calling for `episode`, whatever the constructs did."""
        if self._runner is not None:
            return await self._play(episode, self._runner)
        sanitised, value = None, episode.input_data
        if self._sanitiser is not None:
            policy = self._input_policy
            sanitised = self._sanitiser.sanitise(
                value, role_markers=policy.role_markers, raw_fields=policy.raw_fields
            )
            value = sanitised.value

        async def ask(repeat: int) -> _Round:
            if sanitised is not None and sanitised.wrong_keys:
                return self._make_unsent_round(episode, sanitised, repeat)
            return await self._call_round(episode, value, repeat)

        if self._order is not None:
            rounds = await self._ask_in_turn(episode, ask, self._order)
        else:
            rounds = [await ask(FIRST)]
            is_repeated = episode.episode_id in self._repeated
            if rounds[0].status is InvocationStatus.SUCCESS and is_repeated:
                rounds.append(await ask(SECOND))
        record = EpisodeRecord(
            seq=episode.seq,
            episode_id=episode.episode_id,
            sanitised=None if sanitised is None else sanitised.record,
            calls=[call for made in rounds for call in made.calls],
        )
        answers = tuple(made.answer for made in rounds)
        return CalledEpisode(
            episode=episode,
            answer=answers[deciding_repeat([answer.status for answer in answers])],
            record=record.as_document(),
            repeats=() if self._order is None else answers,
        )

    async def _ask_in_turn(
        self,
        episode: GroundTruthEpisode,
        ask: Callable[[int], Awaitable[_Round]],
        order: RoundOrder,
    ) -> list[_Round]:
        """Make every committed round when it is its turn; all or, when a run stops, none counts."""

        async def call(repeat: int) -> _Round:
            async with order.turn(episode.seq, repeat):
                return await ask(repeat)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call(one)) for one in range(self._policy.repeats)]
        if any(task.cancelled() for task in tasks):
            raise asyncio.CancelledError
        return [task.result() for task in tasks]

    async def _play(self, episode: GroundTruthEpisode, runner: EpisodeRunner) -> CalledEpisode:
        """Call turn after turn, as the runner asks; one that does not succeed is the last.

        DatasetError where it asks nothing: there is no answer to score, and none to record.
        """
        made, result = _Round(FIRST), None
        play = runner.play(episode.input_data, self._draws.play_seed(episode.episode_id))
        try:
            turn = turn_of(next(play))
            for number in count():
                hop = self._hops[turn.hop]
                output = await self._call(made, episode, hop, turn.input_data, turn=number)
                if output is None:
                    break
                turn = turn_of(play.send(output))
        except StopIteration as ended:
            result = ended.value
            made.outputs = {self._hops[0].construct_id: result}
        if not made.calls:
            raise DatasetError(
                f"expected an episode in which runner {runner.pin} asks something, got "
                f"{episode.episode_id}, which ends before its first call"
            )
        record = PlayedRecord(
            seq=episode.seq,
            episode_id=episode.episode_id,
            sanitised=None,
            runner=runner.pin,
            episode_result=result,
            calls=made.calls,
        )
        return CalledEpisode(episode=episode, answer=made.answer, record=record.as_document())

    async def _call_round(
        self, episode: GroundTruthEpisode, value: JsonObject, repeat: int
    ) -> _Round:
        """Call hop after hop; one that does not succeed is the last."""
        made = _Round(repeat)
        for hop in self._hops:
            sent = value
            if hop.number > 0:
                sent = {"episode": value, "upstream": dict(made.outputs)}
            output = await self._call(made, episode, hop, sent)
            if output is None:
                break
            made.outputs[hop.construct_id] = output
        return made

    async def _call(
        self,
        made: _Round,
        episode: GroundTruthEpisode,
        hop: Hop,
        value: JsonObject,
        *,
        turn: int = 0,
    ) -> JsonObject | None:
        """Make one call, with its retries, and note it; return its output, None where it failed."""
        request = self._make_request(episode, hop, value, made.repeat, turn=turn)
        attempts = []
        latest = request.metadata.invoked_at
        for attempt in await self._invoke(self._adapters[hop.construct_id], request):
            # None is answered before it was asked for, or before the one before it.
            latest = max(latest, attempt.response.responded_at)
            if attempt.response.responded_at != latest:
                response = replace(attempt.response, responded_at=latest)
                attempt = replace(attempt, response=response)  # noqa: PLW2901  # the same, later
            attempts.append(attempt)
        self._clock.not_before(latest)
        return self._note(made, hop, request, attempts)

    def _note(
        self,
        made: _Round,
        hop: Hop,
        request: OracleInvocationRequest,
        attempts: Sequence[Attempt],
    ) -> JsonObject | None:
        """Put a call into its round; return its output, None where it failed."""
        adapter, response = self._adapters[hop.construct_id], attempts[-1].response
        call = RecordedCall(
            hop=hop.number,
            repeat=made.repeat,
            construct_id=hop.construct_id,
            adapter=adapter.pin,
            version_source=version_source_of(adapter),
            request=request,
            attempts=attempts,
        )
        # A document at once: a scorer or runner that changes what it is shown changes no record.
        made.calls.append(call.as_document())
        made.status = response.status
        succeeded = response.status is InvocationStatus.SUCCESS
        return (response.output_data or {}) if succeeded else None

    def _make_unsent_round(
        self, episode: GroundTruthEpisode, sanitised: SanitisedInput, repeat: int
    ) -> _Round:
        """Return the round of an input that must not be sent: one failure, no attempt."""
        made, hop = _Round(repeat), self._hops[0]
        request = self._make_request(episode, hop, sanitised.value, repeat)
        attempt = failed_attempt(
            request,
            InvocationStatus.ERROR,
            reason=UNSENDABLE,
            detail="expected member names that the sanitiser leaves as they are, got at "
            f"{', '.join(sanitised.wrong_keys)}: rename them in the dataset",
            latency_ms=0,
            responded_at=self._clock(),
        )
        self._note(made, hop, request, [attempt])
        return made

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
                run_nonce=self._draws.run_nonce.hex() or None,
            ),
        )


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
        draws: Draws,
        gold: Mapping[str, JsonObject],
        limit: int,
    ) -> None:
        """Take what to ask; exchanges about at most `limit` episodes are out at a time."""
        self._caller = caller
        self._provider = provider
        self._judge = judge
        self._draws = draws
        self._gold = gold
        # Where episodes are asked more than once, many are open: the judge need not feel that.
        self._places = asyncio.Semaphore(limit)

    async def call(self, episode: GroundTruthEpisode) -> CalledEpisode:
        """Return what came of the calls, with the exchanges about each judged criterion.

        Each answer to an episode that is asked more than once is judged for itself. Raises what
        the judge raises: then nothing of the episode is recorded.
        """
        called = await self._caller.call(episode)
        async with self._places:
            if not called.repeats:
                answer = await self._judged(episode, called.answer, None)
                return called._replace(answer=answer, record=called.record | _kept(answer))
            answers = [
                await self._judged(episode, one, repeat)
                for repeat, one in enumerate(called.repeats)
            ]
        by_answer = [_kept(one) for one in answers]
        kept: JsonObject = {
            name: [one[name] for one in by_answer] for name in (JUDGEMENTS, JUDGE_SEED)
        }
        return called._replace(
            answer=answers[deciding_repeat([answer.status for answer in answers])],
            record=called.record | kept,
            repeats=tuple(answers),
        )

    async def _judged(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, repeat: int | None
    ) -> EpisodeAnswer:
        """Return an answer with what the judge was asked about it."""
        gold = self._gold.get(episode.episode_id)
        seed = self._draws.judge_seed(episode.episode_id, repeat)
        answer = replace(answer, judge_seed=seed)
        exchanges: dict[str, list[JsonObject]] = {}
        for criterion, judgement in self._provider.judgements(episode, answer, gold).items():
            _, exchanges[criterion] = await ask_judge(judgement, self._judge)
        return replace(answer, judgements=exchanges)


def _kept(answer: EpisodeAnswer) -> JsonObject:
    """Return what a record has of a judged answer: a copy, as scorers may change what they see."""
    exchanges: dict[str, JsonValue] = {name: [*made] for name, made in answer.judgements.items()}
    return {JUDGEMENTS: copy.deepcopy(exchanges), JUDGE_SEED: answer.judge_seed}
