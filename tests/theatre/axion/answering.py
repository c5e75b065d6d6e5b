"""An agent of the roster as a construct answers for it: questions in, answers out."""

from __future__ import annotations

from typing import Any

from theatre.axion.agents.base import Offers
from theatre.axion.env.normalize_state import state_of
from theatre.axion.harness.runner import agent
from theatre.axion.interfaces.base import Mode


def answer(name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the agent `name` answers to one question of the runner `axion`.

    KeyError and ValueError for what is no such question.
    """
    acting = agent(name, Mode.MCI_LATENT, bytes.fromhex(asked["agent_seed"]))
    state = state_of(asked["env"])
    if asked["ask"] == "present":
        return {"step": acting.step_under_token(state, asked["own"])}
    made = acting.prepare(state, Offers(**asked["offers"]))
    return {
        "precommitment": made.precommitment,
        "proposal": made.proposal,
        "nonces": dict(made.nonces),
        "raw_step": made.raw_step,
    }
