"""The lifecycle of a theatre: one transition table, and nothing else that knows it.

Source: docs/requirements.md R1.
"""

from enum import StrEnum
from types import MappingProxyType

from theatre.engine.errors import InvalidTransitionError


class TheatreState(StrEnum):
    """The six states, in order."""

    DRAFT = "DRAFT"
    COMMITTED = "COMMITTED"
    ACTIVE = "ACTIVE"
    SETTLING = "SETTLING"
    RESOLVED = "RESOLVED"
    ARCHIVED = "ARCHIVED"


VALID_TRANSITIONS = MappingProxyType(
    {
        TheatreState.DRAFT: (TheatreState.COMMITTED,),
        TheatreState.COMMITTED: (TheatreState.ACTIVE,),
        TheatreState.ACTIVE: (TheatreState.SETTLING,),
        TheatreState.SETTLING: (TheatreState.RESOLVED,),
        TheatreState.RESOLVED: (TheatreState.ARCHIVED,),
        TheatreState.ARCHIVED: (),
    }
)
"""Irreversible: no state can be entered twice. The docs' diagram is drawn from this table."""


def check_transition(current: TheatreState, target: TheatreState) -> None:
    """Raise InvalidTransitionError unless the table has the step `current` → `target`."""
    allowed = VALID_TRANSITIONS[current]
    if target not in allowed:
        names = ", ".join(allowed) or "nothing, it is the end"
        raise InvalidTransitionError(
            f"expected a step from {current} to {names}; got a step to {target}"
        )


class TheatreStateMachine:
    """Holds the state of one theatre and moves it along the table, never back."""

    def __init__(self, theatre_id: str, state: TheatreState) -> None:
        self._theatre_id = theatre_id
        self._state = state

    @property
    def theatre_id(self) -> str:
        """Return the id of the theatre that this machine belongs to."""
        return self._theatre_id

    @property
    def state(self) -> TheatreState:
        """Return the current state."""
        return self._state

    def can_transition(self, target: TheatreState) -> bool:
        """Return whether the table has a step to `target`."""
        return target in VALID_TRANSITIONS[self._state]

    def transition(self, target: TheatreState) -> TheatreState:
        """Move to `target` and return it; on InvalidTransitionError the state stays."""
        check_transition(self._state, target)
        self._state = target
        return self._state
