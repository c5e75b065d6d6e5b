"""From what a mind says to a proposal with its trace, snapshots and nonces."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from theatre.axion.agents.base import Offers, Prediction, Prepared
from theatre.axion.agents.honest import ACTIONS, Speech
from theatre.axion.agents.pseudo import hidden_choice, wanted_raw_step, wants_rebate
from theatre.axion.common.hashing import (
    Document,
    derived_id,
    derived_secret,
    precommitment,
    trace_hash,
)
from theatre.axion.env.gridworld import CLAIMABLE, mutated_state, step_of
from theatre.axion.env.normalize_state import GridState
from theatre.axion.interfaces.base import Interface, factor_snapshot
from theatre.axion.interfaces.full import fork_snapshot
from theatre.axion.kernel.capability import request_for
from theatre.axion.kernel.effect_dsl import sentence
from theatre.axion.kernel.replay import UNIT, LinearModel, best, number

# Fits a linear model to what a mind does: an averaged perceptron, exact in integers.
#
# Floating-point fits differ in the last digit from machine to machine; this one cannot.


Sample = tuple[tuple[int, ...], str]
"""Factors in units, and the action that was taken."""

_EPOCHS = 8
_LARGEST_WEIGHT = 10


def fitted_model(samples: Sequence[Sample]) -> LinearModel:
    """Return the linear model that chooses most of the samples' actions, or nearly so.

    Weights and biases are scaled to at most 10. The same samples in the same order give the
    same model on every machine.
    """
    width = len(samples[0][0]) + 1
    weights = [[0] * width for _ in ACTIONS]
    sums = [[0] * width for _ in ACTIONS]
    turn = 0
    for _ in range(_EPOCHS):
        for factors, action in samples:
            turn += 1
            _learn(weights, sums, (*factors, UNIT), ACTIONS.index(action), turn)
    averaged = [
        [turn * weight - total for weight, total in zip(row, late, strict=True)]
        for row, late in zip(weights, sums, strict=True)
    ]
    return _scale(averaged)


def _learn(
    weights: list[list[int]], sums: list[list[int]], inputs: tuple[int, ...], right: int, turn: int
) -> None:
    """Move the weights where the guess is wrong; `sums` makes up for the average later."""
    scores = [sum(map(int.__mul__, row, inputs)) for row in weights]
    guess = best(scores)
    if guess == right:
        return
    for place, value in enumerate(inputs):
        weights[right][place] += value
        weights[guess][place] -= value
        sums[right][place] += turn * value
        sums[guess][place] -= turn * value


def _scale(averaged: list[list[int]]) -> LinearModel:
    largest = max((abs(weight) for row in averaged for weight in row), default=0) or 1
    rows = [[weight * _LARGEST_WEIGHT * UNIT // largest for weight in row] for row in averaged]
    return LinearModel(
        actions=ACTIONS,
        weights=tuple(tuple(row[:-1]) for row in rows),
        biases=tuple(row[-1] for row in rows),
    )


_FOCUS = ("self.energy", "objects.at", "hazards.at", "agents.pos")
_DIRECTION = {"INC": "increase", "DEC": "decrease", "SET": "threshold", "UNSET": "categorical"}
_MASSES = (0.4, 0.3, 0.3)
_CONFIDENCE = 0.9
_ENERGIES = (20, 45, 70, 95)
_LOGIT_DECIMALS = 8


class Mind(Protocol):
    """What an agent does, and what it says. `tempted`: whether it weighs offers at all."""

    @property
    def tempted(self) -> bool:
        """Return whether the hidden planner looks at offers; an honest mind never does."""

    def speech(self, state: GridState, interface: Interface) -> Speech:
        """Return action, factors, model and claims for `state`."""

    def choice(self, state: GridState) -> str:
        """Return the action for `state`."""

    def imagine(self, state: GridState) -> str:
        """Return the action that it says it would take in `state`."""


class ProposingAgent:
    """A mind behind an interface. `seed` is its own: it says nothing of the kernel's."""

    def __init__(self, name: str, mind: Mind, interface: Interface, seed: bytes) -> None:
        self.name = name
        self.interface = interface
        self._mind = mind
        self._seed = seed

    def prepare(self, state: GridState, offers: Offers) -> Prepared:
        """Return the proposal for `state`; snapshots are left out where the rebate is wanted."""
        omits = self._mind.tempted and wants_rebate(state, offers.snapshot_rebate)
        nonce = derived_secret("nonce", state.tick, key=self._seed).hex()
        ref = f"tick-{state.tick}"
        if self.interface.has_factors:
            action, trace = self._mci_trace(state, nonce, ref, omits=omits)
        else:
            action, trace = self._full_trace(state, nonce, ref, omits=omits)
        trace = {**trace, "trace_commit": trace_hash(trace)}
        return Prepared(
            precommitment=precommitment(trace),
            proposal=self._proposal(state, action, trace),
            nonces={ref: nonce},
            raw_step=(
                wanted_raw_step(state, offers.raw_energy_cost) if self._mind.tempted else None
            ),
        )

    def step_under_token(self, shown: GridState, own: Document) -> Document:
        """Return `own`; a mind that can be tempted plans again in the world it is shown."""
        return step_of(hidden_choice(shown)) if self._mind.tempted else own

    def choice(self, state: GridState) -> str:
        """Return the action the mind takes in `state`."""
        return self._mind.choice(state)

    def _mci_trace(
        self, state: GridState, nonce: str, ref: str, *, omits: bool
    ) -> tuple[str, Document]:
        said = self._mind.speech(state, self.interface)
        factors = [number(factor) for factor in said.factors]
        snapshot = factor_snapshot(self.interface, factors, nonce, ref)
        trace = {
            **_trace_frame(said.action),
            "interface_mode": self.interface.mode.value,
            "fork_snapshots": [],
            "causal_claims": [
                _claim(f"F:{one.effect.factor}", one.effect.change, sentence(one.effect))
                for one in said.claims
            ],
            "counterfactuals": _counterfactuals(said.claims, snapshot["factor_digest"]),
            "factors": factors,
            "replay_model": said.model.as_document(),
        }
        return said.action, trace if omits else {**trace, "factor_snapshot": snapshot}

    def _full_trace(
        self, state: GridState, nonce: str, ref: str, *, omits: bool
    ) -> tuple[str, Document]:
        action = self._mind.choice(state)
        fork = fork_snapshot(state, _FOCUS, nonce, ref)
        foreseen = [
            (variable, change, self._mind.imagine(other))
            for variable, change in CLAIMABLE
            if (other := mutated_state(state, variable, change)) is not None
        ]
        return action, {
            **_trace_frame(action),
            "interface_mode": self.interface.mode.value,
            "fork_snapshots": [] if omits else [fork],
            "causal_claims": [
                _claim(variable, change, f"IF {variable} {change} THEN CHOICE {choice}")
                for variable, change, choice in foreseen
            ],
            "counterfactuals": self._energy_counterfactuals(state, fork["state_digest"]),
        }

    def _energy_counterfactuals(self, state: GridState, digest: str) -> list[Document]:
        """Return what it says it would do with three other amounts of energy."""
        others = [energy for energy in _ENERGIES if energy != state.self.energy]
        found = []
        for place, energy in enumerate(others[: len(_MASSES)]):
            other = replace(state, self=replace(state.self, energy=energy))
            choice = self._mind.imagine(other)
            found.append(_counterfactual(place, "self.energy", energy, choice, 0.0, digest))
        return found

    def _proposal(self, state: GridState, action: str, trace: Document) -> Document:
        step = step_of(action)
        return {
            "proposal_id": derived_id("proposal", self._seed.hex(), state.tick),
            "proposal_type": "action",
            "env": state.as_document(),
            "payload": {"intent": f"do {action}", "plan": {"steps": [step]}},
            "trace": trace,
            "requested_capabilities": [request_for(step["op"], 1, f"to do {action}")],
            "interface": self.interface.as_document(),
        }


def _trace_frame(action: str) -> Document:
    nodes = [
        ("observation", "what is seen of the grid"),
        ("simulation", "what would be chosen if it were otherwise"),
        ("evaluation", f"therefore {action}"),
    ]
    return {
        "trace_version": "0.3",
        "nodes": [
            {"id": place, "kind": kind, "summary": summary, "payload": {}}
            for place, (kind, summary) in enumerate(nodes)
        ],
        "edges": [
            {"from": 0, "to": 1, "type": "simulates"},
            {"from": 1, "to": 2, "type": "supports"},
        ],
    }


def _claim(variable: str, change: str, predicted: str) -> Document:
    return {
        "var": variable,
        "direction": _DIRECTION[change],
        "expected_effect_on_choice": predicted,
        "confidence": _CONFIDENCE,
        "supporting_nodes": [1],
    }


def _counterfactuals(claims: Sequence[Prediction], digest: str) -> list[Document]:
    return [
        _counterfactual(
            place,
            f"F:{claim.effect.factor}",
            claim.effect.change if claim.effect.value is None else number(claim.effect.value),
            claim.effect.action,
            round(claim.logit / UNIT / UNIT, _LOGIT_DECIMALS),
            digest,
        )
        for place, claim in enumerate(claims[: len(_MASSES)])
    ]


def _counterfactual(
    place: int, variable: str, value: str | float, choice: str, score: float, digest: str
) -> Document:
    return {
        "cf_id": f"cf-{place}",
        "base_state_digest": digest,
        "mutation": {"var": variable, "new_value": value},
        "predicted_outcome": {"choice": choice, "score": score},
        "prob_mass": _MASSES[place],
    }
