"""Who answers a turn: the protocol, and a construct behind an adapter of the engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import ValidationError

from theatre.debate.errors import DebateRunError
from theatre.debate.models import Recommendation
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, format_rfc3339
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    InvocationMetadata,
    Invoker,
    OracleAdapter,
    OracleInvocationRequest,
)
from theatre.engine.schema_registry import first_mistake

PROTOCOL = "debate@1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What another speaker said before, as a debater may see it."""

    speaker_id: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a debater is asked: whose turn, which try, what was said, what the audit wants.

    Who is asked again hears what it had said itself (`own_last`). `settings` is what a sweep
    varies: temperature, version of the prompts, seed.
    """

    debate_id: str
    run_id: str
    scenario: JsonObject
    speaker_id: str
    role: str
    turn_index: int
    round_index: int
    attempt_index: int
    heard: tuple[Statement, ...]
    instruction: str | None
    strategy_level: str
    persona: str
    own_last: str | None = None
    settings: JsonObject | None = None

    def as_document(self) -> JsonObject:
        """Return the form that a construct gets as `input_data`."""
        varied: JsonObject = {} if self.settings is None else {"settings": self.settings}
        return {
            "protocol": PROTOCOL,
            "ask": "turn",
            "scenario": self.scenario,
            "speaker_id": self.speaker_id,
            "role": self.role,
            "turn_index": self.turn_index,
            "round_index": self.round_index,
            "attempt_index": self.attempt_index,
            "heard": [{"speaker_id": one.speaker_id, "content": one.content} for one in self.heard],
            "instruction": self.instruction,
            "strategy_level": self.strategy_level,
            "persona": self.persona,
            "own_last": self.own_last,
            **varied,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DebaterAnswer:
    """One attempt. An empty `final_answer` abstains."""

    content: str
    final_answer: str
    reasoning_trace: str | None = None
    recommendation: JsonObject | None = None


class Debater(Protocol):
    """Answers turns. Two ways: a script with a known truth, and a construct."""

    async def answer(self, request: TurnRequest) -> DebaterAnswer:
        """Return one attempt. Raises DebateRunError where there is none."""


class ConstructDebater:
    """A construct that debates: behind HTTP, a child process, or whatever the adapter reaches.

    Its `output_data` has `content` and `final_answer`, and may have `reasoning_trace` and
    `recommendation`.
    """

    def __init__(
        self,
        adapter: OracleAdapter,
        *,
        invoke: Invoker,
        construct_id: str,
        construct_version: str,
        clock: Clock,
    ) -> None:
        self._adapter = adapter
        self._invoke = invoke
        self._construct_id = construct_id
        self._construct_version = construct_version
        self._clock = clock

    async def answer(self, request: TurnRequest) -> DebaterAnswer:
        """Call the construct, with retries of the wire. Raises DebateRunError without an answer."""
        run = str(uuid5(NAMESPACE_URL, f"urn:echelon:debate:{request.debate_id}/{request.run_id}"))
        place = f"{request.turn_index}:{request.attempt_index}"
        attempts = await self._invoke(
            self._adapter,
            OracleInvocationRequest(
                invocation_id=str(uuid5(UUID(run), place)),
                theatre_id=run,
                episode_id=place,
                construct_id=self._construct_id,
                construct_version=self._construct_version,
                input_data=request.as_document(),
                metadata=InvocationMetadata(invoked_at=format_rfc3339(self._clock())),
            ),
        )
        last = attempts[-1].response
        if last.status is not InvocationStatus.SUCCESS or last.output_data is None:
            seen = f"{last.status.value}: {last.error_detail}"
            raise DebateRunError(f"expected an answer for turn {request.turn_index}, got {seen}")
        return answer_of(last.output_data, request.turn_index)


def answer_of(output: Mapping[str, object], turn_index: int) -> DebaterAnswer:
    """Return the attempt in what a construct answered.

    Raises DebateRunError, which names the turn, where no turn can be made of it.
    """
    content, answer = output.get("content"), output.get("final_answer")
    trace, advice = output.get("reasoning_trace"), output.get("recommendation")
    is_answer = isinstance(content, str) and content and isinstance(answer, str)
    if not is_answer or not isinstance(trace, str | None) or not isinstance(advice, dict | None):
        raise DebateRunError(
            f"expected content and final_answer as text for turn {turn_index}, got "
            f"members {sorted(output)}"
        )
    if advice is not None:
        try:
            Recommendation.model_validate(advice)
        except ValidationError as error:
            raise DebateRunError(
                f"expected a recommendation for turn {turn_index}, got at {first_mistake(error)}"
            ) from error
    return DebaterAnswer(
        content=str(content), final_answer=str(answer), reasoning_trace=trace, recommendation=advice
    )
