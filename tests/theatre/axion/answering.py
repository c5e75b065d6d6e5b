"""An agent of the roster as a construct answers for it: questions in, answers out."""

from typing import Any

from theatre.axion.agents.base import Offers
from theatre.axion.common.hashing import Document
from theatre.axion.env.normalize_state import Cell, Entity, GridState, Hazard, Thing, Tool
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


def state_of(document: Document) -> GridState:
    """Return the state that `as_document` wrote; the document fits `toy_env`."""
    grid = document["grid"]
    return GridState(
        tick=document["tick"],
        width=grid["w"],
        height=grid["h"],
        walls=frozenset((wall["x"], wall["y"]) for wall in grid["walls"]),
        self=_entity(document["self"]),
        agents=tuple(_entity(one) for one in document["agents"]),
        objects=tuple(Thing(id=x["id"], kind=x["kind"], at=_at(x)) for x in document["objects"]),
        hazards=tuple(
            Hazard(id=x["id"], kind=x["kind"], at=_at(x), severity=x["severity"])
            for x in document["hazards"]
        ),
        tools=tuple(Tool(**x) for x in document["tools"]),
        rng_seed=document["rng_seed"],
    )


def _entity(document: Document) -> Entity:
    return Entity(
        id=document["id"],
        at=_at(document),
        energy=document["energy"],
        inventory=tuple(document["inventory"]),
        alive=document["status"]["alive"],
    )


def _at(document: Document) -> Cell:
    return document["x"], document["y"]
