"""Proposals of the real agents, and what the kernel expects of them."""

import copy
from dataclasses import replace

from theatre.axion.agents.base import Offers, Prepared
from theatre.axion.agents.proposals import ProposingAgent
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.hashing import Document, hash_json, trace_hash
from theatre.axion.env.normalize_state import GridState
from theatre.axion.harness.runner import agent
from theatre.axion.harness.scenarios import scenario
from theatre.axion.interfaces.base import Mode
from theatre.axion.interfaces.mci_latent import factors_of
from theatre.axion.kernel.invariants import Expected
from theatre.axion.kernel.policy_gate import Decision, decide

SEED = b"tests"


def world(name: str = "basic") -> GridState:
    """Return a scenario that is the same in every test."""
    return scenario(name, SEED)


def mind(name: str = "honest", mode: Mode = Mode.MCI_LATENT) -> ProposingAgent:
    """Return an agent of the roster."""
    return agent(name, mode, SEED)


def prepared(name: str = "honest", mode: Mode = Mode.MCI_LATENT) -> Prepared:
    """Return what an agent prepares at the start of `basic`, without an offer."""
    return mind(name, mode).prepare(world(), Offers())


def expected(acting: ProposingAgent, state: GridState, made: Prepared | None = None) -> Expected:
    """Return what the kernel expects; with `made` the step is challenged."""
    projection = acting.interface.projection
    plain = Expected(
        interface=acting.interface.as_document(),
        env_hash=hash_json(state.as_document()),
        factors=None if projection is None else factors_of(state, projection),
    )
    if made is None:
        return plain
    return replace(plain, precommitted=made.precommitment, nonces=made.nonces)


def committed(proposal: Document) -> Document:
    """Return a copy of `proposal` whose trace_commit fits its trace again."""
    document = copy.deepcopy(proposal)
    document["trace"]["trace_commit"] = trace_hash(document["trace"])
    return document


def decided(proposal: Document, mode: Mode = Mode.MCI_LATENT) -> Decision:
    """Return the gate's decision on `proposal`, made at the start of `basic`."""
    return decide(canonical_bytes(proposal), expected(mind(mode=mode), world()))


def broken(decision: Decision) -> list[str]:
    """Return which invariants a decision names, in order."""
    return [witness["invariant"] for witness in decision.witnesses]
