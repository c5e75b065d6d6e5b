"""The event log of a run: entries of the engine's audit chain, of which the artefact is a view.

A chain cannot show a cut tail or a full rewrite by itself: keep its head elsewhere
(docs/debate.md, "History").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from theatre.debate.errors import DebateLogError
from theatre.debate.history import ADDED_ONCE
from theatre.engine.audit_chain import (
    AuditEvent,
    ChainHead,
    head_after,
    next_entry,
    verified_entries,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import ChainBrokenError
from theatre.engine.schema_registry import quote

DEBATE_OPENED = "debate_opened"
TURN_OPENED = "turn_opened"
ATTEMPT_APPENDED = "attempt_appended"
INTERVENTION_LOGGED = "intervention_logged"
TURN_ACCEPTED = "turn_accepted"
DEBATE_CLOSED = "debate_closed"

_OF_AN_ATTEMPT = ("content", "recommendation")
"""What a turn has from its last attempt (rule R10)."""
_AT_ACCEPTANCE = (*_OF_AN_ATTEMPT, "rca_trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenTurn:
    members: JsonObject
    attempts: tuple[JsonObject, ...] = ()

    def shown(self) -> JsonObject | None:
        """Return the turn as the artefact shows it; None before its first attempt."""
        if not self.attempts:
            return None
        last = self.attempts[-1]
        accepted: JsonObject = {
            name: last[name] for name in _OF_AN_ATTEMPT if last.get(name) is not None
        }
        return {**self.members, **accepted, "attempts": list(self.attempts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateView:
    """The result of the events so far. Each event gives the next view."""

    header: JsonObject
    turns: tuple[JsonObject, ...] = ()
    interventions: tuple[JsonObject, ...] = ()
    open_turn: _OpenTurn | None = None
    closing: JsonObject = field(default_factory=dict)
    is_closed: bool = False

    def document(self) -> JsonObject:
        """Return the artefact as of these events (without turns, it is no valid one yet)."""
        last = self.open_turn.shown() if self.open_turn else None
        turns: list[JsonValue] = [*self.turns, *([last] if last else [])]
        log: JsonObject = (
            {"intervention_log": list(self.interventions)} if self.interventions else {}
        )
        return {**self.header, "turns": turns, **log, **self.closing}


def subject_of(header: JsonObject) -> str:
    """Return the name under which a run's chain is stored: `debate_id/run_id`."""
    return f"{header['debate_id']}/{header['run_id']}"


def append(entries: list[JsonObject], event: AuditEvent, *, subject: str) -> JsonObject:
    """Return the entry that puts `event` behind `entries`; the caller makes it durable."""
    head = head_after(entries[-1]) if entries else ChainHead()
    return next_entry(head, subject, event)


def view_of(entries: Iterable[JsonObject], *, subject: str) -> DebateView:
    """Verify a whole log and return its result.

    Raises DebateLogError with the line at which the chain breaks, or at which an event does not
    fit behind the ones before it.
    """
    view: DebateView | None = None
    try:
        for entry in verified_entries(entries, theatre_id=subject):
            view = after_event(view, entry)
    except ChainBrokenError as error:
        raise DebateLogError(f"the chain breaks at {error}") from error
    if view is None:
        raise DebateLogError(f"expected an event {DEBATE_OPENED}, got an empty log")
    return view


def after_event(view: DebateView | None, entry: JsonObject) -> DebateView:
    """Return the view after `entry`. Raises DebateLogError where the event does not fit."""
    try:
        return _apply_step(view, str(entry["event_type"]), cast("JsonObject", entry["detail"]))
    except DebateLogError as error:
        raise DebateLogError(f"line {cast('int', entry['seq']) + 1}: {error}") from error


def _apply_step(view: DebateView | None, kind: str, detail: JsonObject) -> DebateView:
    if view is None:
        return DebateView(header=_opening(kind, detail))
    if view.is_closed:
        raise DebateLogError(f"expected no event after {DEBATE_CLOSED}, got {quote(kind)}")
    step = _STEPS.get(kind)
    if step is None:
        raise DebateLogError(f"expected an event of a debate, got {quote(kind)}")
    return step(view, detail)


def events_of(document: JsonObject, *, at: str) -> Iterator[AuditEvent]:
    """Yield the events that a valid artefact comes to, for one that was made without a log.

    `at` (RFC 3339, UTC) is when it was taken in: the log says nothing of when turns were made.
    """
    closing: JsonObject = {name: document[name] for name in ADDED_ONCE if name in document}
    apart = {"turns", *(["intervention_log"] if document.get("intervention_log") else []), *closing}
    header = {name: value for name, value in document.items() if name not in apart}
    yield AuditEvent(event_type=DEBATE_OPENED, at=at, detail={"header": header})
    for turn in cast("list[JsonObject]", document["turns"]):
        yield from _turn_events(turn, at)
    for entry in cast("list[JsonObject]", document.get("intervention_log") or []):
        yield AuditEvent(event_type=INTERVENTION_LOGGED, at=at, detail={"intervention": entry})
    yield AuditEvent(event_type=DEBATE_CLOSED, at=at, detail={"members": closing})


def _turn_events(turn: JsonObject, at: str) -> Iterator[AuditEvent]:
    index = turn["turn_index"]
    attempts = cast("list[JsonObject]", turn.get("attempts") or [])
    late = {*_AT_ACCEPTANCE, *(["attempts"] if attempts else [])}
    opened = {name: value for name, value in turn.items() if name not in late}
    accepted: JsonObject = {name: turn[name] for name in _AT_ACCEPTANCE if name in turn}
    yield AuditEvent(event_type=TURN_OPENED, at=at, detail={"turn": opened})
    for attempt in attempts:
        detail: JsonObject = {"turn_index": index, "attempt": attempt}
        yield AuditEvent(event_type=ATTEMPT_APPENDED, at=at, detail=detail)
    detail = {"turn_index": index, "turn": accepted}
    yield AuditEvent(event_type=TURN_ACCEPTED, at=at, detail=detail)


def _opening(kind: str, detail: JsonObject) -> JsonObject:
    if kind != DEBATE_OPENED:
        raise DebateLogError(f"expected {DEBATE_OPENED} first, got {quote(kind)}")
    header = _object(detail, "header")
    _refuse(header, {"turns", *ADDED_ONCE}, "in a header")
    if header.get("intervention_log"):
        raise DebateLogError("expected interventions by events of their own, got some in a header")
    return header


def _open_turn(view: DebateView, detail: JsonObject) -> DebateView:
    if view.open_turn is not None:
        raise DebateLogError("expected the open turn to be accepted first, got another turn")
    members = _object(detail, "turn")
    _refuse(members, _AT_ACCEPTANCE, "of a turn that is being opened")
    if members.get("attempts"):
        raise DebateLogError("expected attempts by events of their own, got some with the turn")
    return replace(view, open_turn=_OpenTurn(members=members))


def _append_attempt(view: DebateView, detail: JsonObject) -> DebateView:
    turn, attempt = _open_turn_of(view, detail), _object(detail, "attempt")
    if attempt.get("attempt_index") != len(turn.attempts):
        seen = quote(attempt.get("attempt_index"))
        raise DebateLogError(f"expected attempt {len(turn.attempts)} next, got {seen}")
    return replace(view, open_turn=replace(turn, attempts=(*turn.attempts, attempt)))


def _accept_turn(view: DebateView, detail: JsonObject) -> DebateView:
    turn, accepted = _open_turn_of(view, detail), _object(detail, "turn")
    _refuse(accepted, {"attempts", *turn.members}, "of a turn that is open, a second time")
    for member in _OF_AN_ATTEMPT if turn.attempts else ():
        if accepted.get(member) != turn.attempts[-1].get(member):
            raise DebateLogError(f"expected the {member} of the last attempt, got another")
    attempts: JsonObject = {"attempts": list(turn.attempts)} if turn.attempts else {}
    whole = {**turn.members, **attempts, **accepted}
    return replace(view, turns=(*view.turns, whole), open_turn=None)


def _log_intervention(view: DebateView, detail: JsonObject) -> DebateView:
    entry = _object(detail, "intervention")
    return replace(view, interventions=(*view.interventions, entry))


def _close(view: DebateView, detail: JsonObject) -> DebateView:
    if view.open_turn is not None:
        raise DebateLogError("expected the open turn to be accepted first, got the end")
    members = _object(detail, "members")
    _refuse(members, set(members) - ADDED_ONCE, "at the end")
    return replace(view, closing=members, is_closed=True)


_STEPS = {
    TURN_OPENED: _open_turn,
    ATTEMPT_APPENDED: _append_attempt,
    TURN_ACCEPTED: _accept_turn,
    INTERVENTION_LOGGED: _log_intervention,
    DEBATE_CLOSED: _close,
}


def _open_turn_of(view: DebateView, detail: JsonObject) -> _OpenTurn:
    if view.open_turn is None:
        raise DebateLogError(f"expected {TURN_OPENED} first, got no open turn")
    if detail.get("turn_index") != view.open_turn.members.get("turn_index"):
        expected = quote(view.open_turn.members.get("turn_index"))
        raise DebateLogError(
            f"expected turn {expected}, the open one, got {quote(detail.get('turn_index'))}"
        )
    return view.open_turn


def _refuse(given: JsonObject, names: Collection[str], where: str) -> None:
    """Refuse members that would stand in the place of what other events say, or said."""
    taken = sorted(set(given) & set(names))
    if taken:
        raise DebateLogError(f"expected no {quote(taken[0])} {where}, got one")


def _object(detail: JsonObject, member: str) -> JsonObject:
    value = detail.get(member)
    if not isinstance(value, dict):
        raise DebateLogError(f"expected an object {member}, got {quote(value)}")
    return value
