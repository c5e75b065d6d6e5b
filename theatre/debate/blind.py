"""The blind projection: what an evaluator may see of a debate, copied; the rest is not there.

Only the members below are taken over. Labels, outcomes, metadata, audits, control state, other
evaluators' output and everything unknown are absent, not hidden.
"""

from dataclasses import dataclass
from functools import cached_property

from theatre.debate.models import Action, Debate, Recommendation, Turn, actions_in, parse_action
from theatre.debate.text import StructuredTurn, read_structure


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindAttempt:
    """What one attempt said."""

    content: str
    final_answer: str
    reasoning: str | None
    recommendation: Recommendation | None


@dataclass(frozen=True, kw_only=True)
class BlindTurn:
    """What one turn said. Text is read once, when it is first asked for."""

    turn_index: int
    speaker_id: str
    content: str
    recommendation: Recommendation | None
    trace_answer: str | None
    trace_steps: str | None
    attempts: tuple[BlindAttempt, ...]

    @cached_property
    def structure(self) -> StructuredTurn | None:
        """Return the turn's sections; None where it is unstructured."""
        return read_structure(self.content)

    @cached_property
    def decision_line(self) -> Action | None:
        """Return the first action of the section DECISION."""
        text = self.structure.section("DECISION") if self.structure else ""
        return next(iter(actions_in(text)), None)

    @property
    def final_answer(self) -> str | None:
        """Return the answer of the trace, else of the accepted attempt."""
        if self.trace_answer is not None:
            return self.trace_answer
        return self.attempts[-1].final_answer if self.attempts else None

    @property
    def reasoning(self) -> str | None:
        """Return the trace of the turn, else of the accepted attempt."""
        if self.trace_steps is not None:
            return self.trace_steps
        return self.attempts[-1].reasoning if self.attempts else None

    @property
    def action(self) -> Action | None:
        """Return what the turn comes down to: recommendation, else decision line, else answer."""
        if self.recommendation is not None:
            return self.recommendation.action
        return self.decision_line or parse_action(self.final_answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindDebate:
    """The turns of a debate, in their order."""

    turns: tuple[BlindTurn, ...]


def blind(debate: Debate) -> BlindDebate:
    """Return what evaluators may see of `debate`."""
    ordered = sorted(debate.turns, key=lambda turn: turn.turn_index)
    return BlindDebate(turns=tuple(blind_turn(turn) for turn in ordered))


def blind_turn(turn: Turn) -> BlindTurn:
    """Return what evaluators may see of one turn."""
    trace = turn.rca_trace
    return BlindTurn(
        turn_index=turn.turn_index,
        speaker_id=turn.speaker_id,
        content=turn.content,
        recommendation=turn.recommendation,
        trace_answer=trace.final_answer if trace else None,
        trace_steps=trace.reasoning_steps if trace else None,
        attempts=tuple(
            BlindAttempt(
                content=attempt.content,
                final_answer=attempt.final_answer,
                reasoning=attempt.reasoning_trace,
                recommendation=attempt.recommendation,
            )
            for attempt in turn.attempts or ()
        ),
    )
