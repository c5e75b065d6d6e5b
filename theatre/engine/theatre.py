"""A theatre as a value: its template, its state, its receipt once committed.

Every step returns the theatre after it and the audit event that records it; nothing is changed
in place. Source: spec/theatre-context.md, "Theatre Lifecycle"; design §3 (order of effects).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import CommitmentError, InvalidTransitionError
from theatre.engine.models import freeze_object
from theatre.engine.state_machine import TheatreState, check_transition


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
    ) -> tuple[Theatre, AuditEvent]:
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
        self._check_own(receipt)
        committed = replace(
            self,
            state=TheatreState.COMMITTED,
            receipt=receipt,
            template=receipt.template_snapshot,
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
        return self._moved(TheatreState.ACTIVE, "activated", at, detail)

    def settle(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the SETTLING theatre: no more calls will be made."""
        return self._moved(TheatreState.SETTLING, "settling", at, detail)

    def resolve(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the RESOLVED theatre; `detail` names the outcome."""
        return self._moved(TheatreState.RESOLVED, "resolved", at, detail)

    def archive(self, *, at: datetime, detail: JsonObject) -> tuple[Self, AuditEvent]:
        """Return the ARCHIVED theatre: the end."""
        return self._moved(TheatreState.ARCHIVED, "archived", at, detail)

    @property
    def commitment(self) -> CommitmentReceipt:
        """Return the receipt; InvalidTransitionError where there is none yet."""
        if self.receipt is None:
            raise InvalidTransitionError(
                f"expected a committed theatre, got {self.theatre_id} in {self.state}: "
                "commit it first"
            )
        return self.receipt

    def _check_own(self, receipt: CommitmentReceipt) -> None:
        CommitmentProtocol.verify(receipt)
        own = CommitmentProtocol.hash_template(self.template)
        if (receipt.theatre_id, receipt.commitment_hash) != (self.theatre_id, own):
            raise CommitmentError(
                f"expected the receipt of theatre {self.theatre_id} with commitment {own}, got one "
                f"of {receipt.theatre_id} with {receipt.commitment_hash}"
            )

    def _moved(
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
