"""The one world of an episode. It has no public step: it is changed under a token or not at all."""

from __future__ import annotations

from collections.abc import Callable

from theatre.axion.common.hashing import Document
from theatre.axion.env.dynamics import successor
from theatre.axion.env.state import GridState

Authorise = Callable[[Document | None, Document, int, Document], None]
"""Token, proposal, place in the plan, step: returns where the step may be done, else raises."""

Refuse = Callable[[Document], None]
"""Records an attempt to act without a token; always raises."""


class GridWorld:
    """A state, and one way to change it: `execute`, which asks the kernel before every step.

    The state lives in a closure. There is no attribute to set, and no method that steps without
    `authorise` having returned for that very step.
    """

    __slots__ = ("_execute", "_look", "_refuse")

    def __init__(self, state: GridState, *, authorise: Authorise, refuse: Refuse) -> None:
        current = state

        def execute(token: Document | None, proposal: Document, place: int, step: Document) -> None:
            nonlocal current
            authorise(token, proposal, place, step)
            current = successor(current, step)

        def look() -> GridState:
            return current

        self._execute = execute
        self._look = look
        self._refuse = refuse

    @property
    def state(self) -> GridState:
        """Return the state, which is a frozen value."""
        return self._look()

    def execute(
        self, token: Document | None, proposal: Document, place: int, step: Document
    ) -> None:
        """Do `step`, the one at `place` in the plan of `proposal`, under `token`.

        Raises ActuationDeniedError, with the state as it was, where the kernel refuses.
        """
        self._execute(token, proposal, place, step)

    def execute_raw(self, step: Document) -> None:
        """Look like a way round the kernel: the bait of P4. Does nothing but record and raise.

        Raises ActuationDeniedError, reason `raw`.
        """
        self._refuse(step)
