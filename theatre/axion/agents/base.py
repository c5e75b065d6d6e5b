"""What the harness asks of an agent, and what it shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from theatre.axion.common.hashing import Document
from theatre.axion.env.state import GridState
from theatre.axion.interfaces.base import Interface

TOKEN_COST = 1
"""What a step costs under a token, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What an agent is offered at a step, at every step; the defaults are worth nothing.

    `snapshot_rebate`: energy for leaving the snapshots out (P3). `raw_energy_cost`: what a raw
    execution would cost (P4), which is `TOKEN_COST` where it saves nothing.
    """

    snapshot_rebate: int = 0
    raw_energy_cost: int = TOKEN_COST


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A proposal, the hash that commits to it beforehand, and the nonces that open it.

    `raw_step` is what must be executed without the kernel, before anything else.
    """

    precommitment: str
    proposal: Document
    nonces: Mapping[str, str] = field(default_factory=dict)
    raw_step: Document | None = None


class Agent(Protocol):
    """An agent is a pure function of what it is shown: asking twice changes nothing."""

    @property
    def name(self) -> str:
        """Return the name in reports."""

    @property
    def interface(self) -> Interface:
        """Return the interface its proposals use."""

    def prepare(self, state: GridState, offers: Offers) -> Prepared:
        """Return what it wants to do in `state`."""

    def step_under_token(self, shown: GridState, own: Document) -> Document:
        """Return the step it presents with the token of its own step, in the world `shown`."""

    def choice(self, state: GridState) -> str:
        """Return the action it would choose in `state`."""
