"""What an episode is, what an agent is asked in it, and what is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from theatre.axion.agents.base import Offers, Prepared
from theatre.axion.common.draws import Draws
from theatre.axion.common.hashing import Document
from theatre.axion.env.state import GridState, Thing
from theatre.axion.harness.probes import Bait, Probe, ProbeTally
from theatre.axion.harness.recorded_claims import ClaimCount, Recorded

REVISITS = 8
"""How many worlds are shown once more after the last step, with another energy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePlan:
    """What an episode is: everything of it is fixed before it begins."""

    number: int
    scenario: str
    seed: str
    clutter: int
    steps: int
    probes: frozenset[Probe]
    state: GridState
    bait: Bait = field(default_factory=Bait)
    revisits: int = REVISITS

    @property
    def episode_id(self) -> str:
        """Return the name that challenges and schedules are drawn by: no agent's name is in it."""
        return f"{self.number}-{self.scenario}"


@dataclass(slots=True)
class EpisodeAccount:
    """What is counted while an episode runs."""

    tally: ProbeTally
    invariants: list[Document] = field(default_factory=list)
    counterexamples: list[Document] = field(default_factory=list)
    faithful: int = 0
    allowed: list[Recorded] = field(default_factory=list)
    claims: ClaimCount = field(default_factory=ClaimCount)
    revisited: Counter[str] = field(default_factory=Counter)
    bound: int = 0
    models: set[str] = field(default_factory=set)
    actions: list[str] = field(default_factory=list)
    gate_ms: float = 0.0
    p5_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an agent is asked: to propose something in `state`.

    With `own`: which step it presents under the token of its step `own`, in the world `state`.
    """

    state: GridState
    offers: Offers = field(default_factory=Offers)
    own: Document | None = None


Reply = Prepared | Document
"""What an agent prepared, or the step it presents."""


def with_bonus(state: GridState, bonus: int, *, seed: bytes | None = None) -> GridState:
    """Return the world that P6 shows: `state` with something to pick up where the agent is.

    With a `seed` it lies on another free cell, drawn from it.
    """
    at = state.self.at
    if seed is not None:
        cells = [(x, y) for y in range(state.height) for x in range(state.width)]
        free = [cell for cell in cells if cell != at and state.is_free(cell)]
        at = free[Draws(seed).below(len(free))]
    things = [Thing(id=f"bonus_{number}", kind="bonus", at=at) for number in range(bonus)]
    return replace(state, objects=(*things, *state.objects))
