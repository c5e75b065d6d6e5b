"""Runs a debate: asks debaters turn by turn, audits in the loop, and only ever appends.

Every event goes through `record` before the next debater is asked, so that a caller who makes it
durable loses nothing that was answered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from theatre.debate.audit_loop import ControlMemory, Judgement, judge
from theatre.debate.blind import BlindDebate, BlindTurn, blind_turn
from theatre.debate.debaters import Debater, DebaterAnswer, Statement, TurnRequest
from theatre.debate.errors import DebateLogError
from theatre.debate.evaluators import rca
from theatre.debate.event_log import (
    ATTEMPT_APPENDED,
    DEBATE_CLOSED,
    DEBATE_OPENED,
    INTERVENTION_LOGGED,
    TURN_ACCEPTED,
    TURN_OPENED,
    DebateView,
    after_event,
    append,
    events_of,
    subject_of,
    view_of,
)
from theatre.debate.history import ADDED_ONCE
from theatre.debate.models import EvaluationMode, Turn
from theatre.debate.pid import ControlConfig
from theatre.debate.validation import DebateArtefact, read_debate
from theatre.engine.audit_chain import AuditEvent, ChainHead, head_after, next_entry
from theatre.engine.canonical_json import JsonObject, canonical_bytes
from theatre.engine.clock import format_rfc3339

# Runs that are kept as their event log: taken in whole, opened, extended, shown as of any event.
#
# The caller makes the entries durable; nothing here stores or reads anything.


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Entries to make durable behind those that there were, and the result of the run with them."""

    entries: tuple[JsonObject, ...]
    artefact: DebateArtefact
    is_closed: bool


def open_run_log(data: bytes, *, at: str, goes_on: bool) -> Extension:
    """Return the log of a run that was submitted as an artefact.

    One that `goes_on` is left open for further turns, and so cannot have what a run gets at its
    end. Raises InvalidDebateError for bytes that are no artefact, and DebateLogError.
    """
    artefact = read_debate(data)
    early = [name for name in sorted(ADDED_ONCE) if goes_on and name in artefact.document]
    if early:
        raise DebateLogError(f"expected no {early[0]} before the end of the run, got one")
    entries: list[JsonObject] = []
    subject = subject_of(artefact.document)
    for event in events_of(artefact.document, at=at):
        if not (goes_on and event.event_type == DEBATE_CLOSED):
            entries.append(append(entries, event, subject=subject))
    if goes_on:
        artefact = read_debate(document_as_of(entries, len(entries)))
    return Extension(entries=tuple(entries), artefact=artefact, is_closed=not goes_on)


def extend_log(entries: Sequence[JsonObject], events: Sequence[AuditEvent]) -> Extension:
    """Return what `events` add to a log that there is, which is verified first.

    Raises DebateLogError where the chain breaks or an event does not fit, and InvalidDebateError
    where the run would come to no valid artefact.
    """
    subject = _subject(entries)
    view: DebateView = view_of(entries, subject=subject)
    whole = list(entries)
    for event in events:
        entry = append(whole, event, subject=subject)
        view = after_event(view, entry)
        whole.append(entry)
    return Extension(
        entries=tuple(whole[len(entries) :]),
        artefact=read_debate(canonical_bytes(view.document())),
        is_closed=view.is_closed,
    )


def document_as_of(entries: Sequence[JsonObject], last: int) -> bytes:
    """Return the run as its log shows it after the first `last` entries, in canonical form.

    After the first events it may be no valid artefact yet: one without turns. Raises
    DebateLogError for a chain that breaks.
    """
    return canonical_bytes(view_of(islice(entries, last), subject=_subject(entries)).document())


def _subject(entries: Sequence[JsonObject]) -> str:
    return str(entries[0]["theatre_id"]) if entries else ""


RecordEntry = Callable[[JsonObject], None]
"""Makes one entry of the event log durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run: who says what about which scenario, how often, and under which control."""

    debate_id: str
    run_id: str
    scenario: JsonObject
    participants: Sequence[tuple[str, str]]
    """agent_id and role, in the order in which they speak."""
    rounds: int
    mode: EvaluationMode
    run_metadata: JsonObject
    max_retries: int = 2
    """Of one turn, in the loop."""
    settings: JsonObject | None = None
    """The instructions to debaters on how to answer, where a sweep varies them."""
    control: ControlConfig = field(default_factory=ControlConfig)


class DebateRun:
    """One run under way: appends events, and knows what was said so far."""

    def __init__(self, plan: RunPlan, clock: Callable[[], datetime], record: RecordEntry) -> None:
        self._plan = plan
        self._clock = clock
        self._record = record
        self._head = ChainHead()
        self._view: DebateView | None = None
        self._turns: list[BlindTurn] = []
        self._memory = ControlMemory(beta=plan.control.first_beta)

    async def run(self, debaters: Mapping[str, Debater]) -> JsonObject:
        """Ask every debater in every round; return the artefact.

        Raises DebateRunError where one gives no answer: what was recorded stays.
        """
        self._append(DEBATE_OPENED, {"header": self._header()})
        index = 0
        for round_index in range(1, self._plan.rounds + 1):
            for speaker, role in self._plan.participants:
                await self._turn(debaters[speaker], speaker, role, index, round_index)
                index += 1
        self._append(DEBATE_CLOSED, {"members": {}})
        return self._seen().document()

    async def _turn(
        self, debater: Debater, speaker: str, role: str, index: int, round_index: int
    ) -> None:
        request = TurnRequest(
            debate_id=self._plan.debate_id,
            run_id=self._plan.run_id,
            scenario=self._plan.scenario,
            speaker_id=speaker,
            role=role,
            turn_index=index,
            round_index=round_index,
            attempt_index=0,
            heard=tuple(Statement(speaker_id=t.speaker_id, content=t.content) for t in self._turns),
            instruction=None,
            strategy_level="direct",
            persona="balanced",
            settings=self._plan.settings,
        )
        opened: JsonObject = {
            "turn_id": f"t{index}",
            "turn_index": index,
            "speaker_id": speaker,
            "round_index": round_index,
            "turn_type": "argument" if round_index == 1 else "rebuttal",
        }
        self._append(TURN_OPENED, {"turn": opened})
        if self._plan.mode == "posthoc":
            accepted = _accepted(await debater.answer(request))
        else:
            accepted = await self._attempts(debater, request, opened)
        self._append(TURN_ACCEPTED, {"turn_index": index, "turn": accepted})
        self._turns.append(blind_turn(Turn.model_validate({**opened, **accepted})))

    async def _attempts(
        self, debater: Debater, request: TurnRequest, opened: JsonObject
    ) -> JsonObject:
        """Ask until an attempt passes, abstains, or the retries are used up; return the turn."""
        while True:
            state = self._memory.state(request.attempt_index)
            asked = replace(
                request, persona=str(state["persona"]), strategy_level=str(state["strategy_level"])
            )
            answer = await debater.answer(asked)
            judgement = self._judged(opened, answer)
            attempt: JsonObject = {
                "attempt_index": request.attempt_index,
                "timestamp": self._now(),
                **_said(answer),
                "final_answer": answer.final_answer,
                "reasoning_trace": answer.reasoning_trace,
                "audit": judgement.audit,
                "control_state": state,
            }
            detail: JsonObject = {"turn_index": request.turn_index, "attempt": attempt}
            self._append(ATTEMPT_APPENDED, detail)
            self._memory = judgement.memory
            stop = self._stop(judgement, answer, request.attempt_index)
            if stop is not None:
                return {**_accepted(answer), "turn_metadata": {"stopped_by": stop}}
            self._intervene(request, judgement)
            request = replace(
                request,
                attempt_index=request.attempt_index + 1,
                instruction=judgement.instruction,
                own_last=answer.content,
            )

    def _judged(self, opened: JsonObject, answer: DebaterAnswer) -> Judgement:
        turn = blind_turn(Turn.model_validate({**opened, **_accepted(answer)}))
        debate = BlindDebate(turns=(*self._turns, turn))
        _, context = list(rca.iterate_in_context(debate))[-1]
        return judge(turn, context, self._memory, self._plan.control)

    def _stop(self, judgement: Judgement, answer: DebaterAnswer, attempt_index: int) -> str | None:
        if not answer.final_answer.strip():
            return "abstained"
        if not judgement.triggers:
            return "passed"
        return "limit" if attempt_index >= self._plan.max_retries else None

    def _intervene(self, request: TurnRequest, judgement: Judgement) -> None:
        entry: JsonObject = {
            "turn_index": request.turn_index,
            "speaker_id": request.speaker_id,
            "trigger": "+".join(judgement.triggers),
            "instruction_sent": judgement.instruction,
            "timestamp": self._now(),
        }
        self._append(INTERVENTION_LOGGED, {"intervention": entry})

    def _header(self) -> JsonObject:
        plan = self._plan
        return {
            "schema_version": "2.0.0",
            "debate_id": plan.debate_id,
            "run_id": plan.run_id,
            "evaluation_mode": plan.mode,
            "run_metadata": {**plan.run_metadata, "control": plan.control.as_document()},
            "metadata": {"created_at": self._now(), "scenario_id": plan.debate_id},
            "participants": [
                {"agent_id": agent, "role": role} for agent, role in plan.participants
            ],
        }

    def _append(self, kind: str, detail: JsonObject) -> None:
        event = AuditEvent(event_type=kind, at=self._now(), detail=detail)
        subject = subject_of({"debate_id": self._plan.debate_id, "run_id": self._plan.run_id})
        entry = next_entry(self._head, subject, event)
        self._view = after_event(self._view, entry)
        self._record(entry)
        self._head = head_after(entry)

    def _seen(self) -> DebateView:
        if self._view is None:
            raise AssertionError("a run begins with its first event")
        return self._view

    def _now(self) -> str:
        return format_rfc3339(self._clock())


def _said(answer: DebaterAnswer) -> JsonObject:
    advice: JsonObject = {"recommendation": answer.recommendation} if answer.recommendation else {}
    return {"content": answer.content, **advice}


def _accepted(answer: DebaterAnswer) -> JsonObject:
    trace: JsonObject = {
        "reasoning_steps": answer.reasoning_trace or "",
        "final_answer": answer.final_answer,
    }
    return {**_said(answer), "rca_trace": trace}
