"""A theatre as a value: its template, its state, its receipt once committed.

Every step returns the theatre after it and the audit event that records it; nothing is changed
in place. Source: docs/requirements.md R1; docs/adr/0051.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt, close_by
from theatre.engine.errors import CommitmentError, InvalidTransitionError
from theatre.engine.models import freeze_object
from theatre.engine.state_machine import TheatreState, check_transition
from theatre.engine.templates import ProductTheatreTemplate, view_template

CANCELLED = {"outcome": "void", "outcome_reason": "cancelled"}
OVERDUE = {"outcome": "void", "outcome_reason": "not-closed-in-time"}
"""How a theatre ends that its owner gave up, and one that was not closed in time."""
_OPEN = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE, TheatreState.SETTLING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Theatre:
    """One instance: an id, a deeply frozen template document, a state, a receipt."""

    theatre_id: str
    template: JsonObject
    state: TheatreState
    receipt: CommitmentReceipt | None = None

    @classmethod
    def create(
        cls, theatre_id: str, template: JsonObject, *, at: datetime
    ) -> "tuple[Theatre, AuditEvent]":
        """Return a DRAFT of a validated template."""
        theatre = cls(
            theatre_id=theatre_id, template=freeze_object(template), state=TheatreState.DRAFT
        )
        event = AuditEvent(
            event_type="created",
            to_state=TheatreState.DRAFT.value,
            detail={"template_id": template["theatre_id"]},
            at=format_rfc3339(at),
        )
        return theatre, event

    def commit(self, receipt: CommitmentReceipt) -> tuple[Self, AuditEvent]:
        """Return the COMMITTED theatre. Its event carries the receipt's time and hash.

        Raises CommitmentError for a receipt of another theatre or another template.
        """
        check_transition(self.state, TheatreState.COMMITTED)
        CommitmentProtocol.verify(receipt)
        own = CommitmentProtocol.hash_template(self.template)
        if (receipt.theatre_id, receipt.commitment_hash) != (self.theatre_id, own):
            raise CommitmentError(
                f"expected the receipt of theatre {self.theatre_id} with commitment {own}, got one "
                f"of {receipt.theatre_id} with {receipt.commitment_hash}"
            )
        committed = replace(
            self, state=TheatreState.COMMITTED, receipt=receipt, template=receipt.template_snapshot
        )
        event = AuditEvent(
            event_type="committed",
            from_state=self.state.value,
            to_state=TheatreState.COMMITTED.value,
            detail={"commitment_hash": receipt.commitment_hash},
            at=receipt.committed_at,
        )
        return committed, event

    def activate(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the ACTIVE theatre: execution has begun."""
        return self._move(TheatreState.ACTIVE, "activated", at, detail)

    def settle(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the SETTLING theatre: no more calls will be made."""
        return self._move(TheatreState.SETTLING, "settling", at, detail)

    def resolve(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the RESOLVED theatre; `detail` names the outcome."""
        return self._move(TheatreState.RESOLVED, "resolved", at, detail)

    def end(self, *, at: datetime, outcome: JsonObject) -> tuple[Self, tuple[AuditEvent, ...]]:
        """Return the RESOLVED theatre and the steps that lead there without another call.

        From COMMITTED, ACTIVE or SETTLING; the steps belong into one transaction.
        """
        reason = outcome["outcome_reason"]
        theatre = self
        events: list[AuditEvent] = []
        if theatre.state in {TheatreState.DRAFT, TheatreState.COMMITTED}:
            theatre, event = theatre.activate(at=at, detail={"episodes": 0, "reason": reason})
            events.append(event)
        if theatre.state is TheatreState.ACTIVE:
            theatre, event = theatre.settle(at=at, detail={"reason": reason})
            events.append(event)
        theatre, event = theatre.resolve(at=at, detail=outcome)
        return theatre, (*events, event)

    def archive(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the ARCHIVED theatre: the end."""
        return self._move(TheatreState.ARCHIVED, "archived", at, detail)

    @property
    def commitment(self) -> CommitmentReceipt:
        """Return the receipt; InvalidTransitionError where there is none yet."""
        if self.receipt is None:
            raise InvalidTransitionError(
                f"The theatre must be committed first: {self.theatre_id} is in state {self.state}"
            )
        return self.receipt

    @property
    def close_by(self) -> datetime | None:
        """Return until when a committed theatre must be closed; None for what is never run."""
        template = self.commitment.template_snapshot
        if not isinstance(view_template(template), ProductTheatreTemplate):
            return None
        return close_by(template, parse_rfc3339(self.commitment.committed_at))

    def is_overdue(self, now: datetime) -> bool:
        """Return whether the theatre is COMMITTED and may not begin any more."""
        return self.state is TheatreState.COMMITTED and self.is_open_too_long(now)

    def is_open_too_long(self, now: datetime) -> bool:
        """Return whether the theatre is committed, and not resolved by its `close_by`."""
        is_open = self.state in _OPEN
        return is_open and self.close_by is not None and now > self.close_by

    def require_in_time(self, now: datetime) -> None:
        """Raise InvalidTransitionError for a theatre that is overdue."""
        if self.is_overdue(now):
            raise InvalidTransitionError(
                f"The theatre is overdue: it had to begin by {self.close_by:%Y-%m-%dT%H:%M:%SZ} "
                "(execution_policy.close_within_days, 30 days by default), and ends as void. "
                "Commit its template again and run that theatre."
            )

    def _move(
        self, target: TheatreState, event_type: str, at: datetime, detail: JsonObject
    ) -> tuple[Self, AuditEvent]:
        check_transition(self.state, target)
        event = AuditEvent(
            event_type=event_type,
            from_state=self.state.value,
            to_state=target.value,
            detail=detail,
            at=format_rfc3339(at),
        )
        return replace(self, state=target), event
