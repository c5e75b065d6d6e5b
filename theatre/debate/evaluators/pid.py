"""pid/1: are the controller's stored values what their inputs come to? Sees no text at all."""

from collections.abc import Iterator

from theatre.debate.evaluators.results import Evaluation, TurnFinding
from theatre.debate.models import ControlState, Debate, PidAudit
from theatre.debate.pid import TOLERANCE, mismatches, routing_mismatches, stored_steps
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScorerKind

NAME = "pid/1"


def evaluate(debate: Debate) -> Evaluation:
    """Return whether every stored value replays, and every applied state is of the step before.

    `control_replay_ok` is None where nothing is stored that could be replayed.
    """
    steps = list(stored_steps(debate))
    findings = [
        TurnFinding(
            turn_index=one.turn_index,
            code="CONTROL_REPLAY_MISMATCH",
            detail=f"{one.stored!r} at {one.pointer}, expected {one.expected!r}",
        )
        for one in (*mismatches(debate), *routing_mismatches(debate))
    ]
    replayed = not findings if steps else None
    findings += _not_applied(debate)
    rows: list[JsonObject] = [
        {
            "turn_index": step.turn_index,
            "attempt_index": step.number,
            "e_t": step.error,
            "u_t": step.output,
        }
        for step in steps
    ]
    summary: JsonObject = {"steps": len(steps), "control_replay_ok": replayed}
    return Evaluation(
        evaluator=NAME, kind=ScorerKind.EXACT, summary=summary, turns=rows, findings=findings
    )


def _not_applied(debate: Debate) -> Iterator[TurnFinding]:
    """Yield each control state whose error, output or strength is not the audit's before it."""
    before: PidAudit | None = None
    for turn in debate.turns:
        for attempt in turn.attempts or ():
            state = attempt.control_state
            if before is not None and state is not None and not _agree(before, state):
                detail = f"attempt {attempt.attempt_index} was not under the state before it"
                yield TurnFinding(
                    turn_index=turn.turn_index, code="CONTROL_STATE_MISMATCH", detail=detail
                )
            before = attempt.audit.pid if attempt.audit and attempt.audit.pid else before


def _agree(stored: PidAudit, applied: ControlState) -> bool:
    strength = (stored.model_extra or {}).get("beta_applied")
    pairs: tuple[tuple[object, object], ...] = (
        (stored.e_t, applied.e_t),
        (stored.u_t, applied.u_t),
        (strength, (applied.model_extra or {}).get("beta")),
    )
    numbers = (
        (one, other)
        for one, other in pairs
        if isinstance(one, int | float) and isinstance(other, int | float)
    )
    return all(abs(one - other) <= TOLERANCE for one, other in numbers)
