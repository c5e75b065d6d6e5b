"""Every claim of an episode, examined once its steps are done.

P5 examines some claims of some steps while it lasts; a liar who knew which would be careful there
and nowhere else. Here nothing is drawn: each claim of each proposal that was allowed is tried, on
the factors that the world had, whatever the agent said they were.

That holds claims against a published model. Those about energy can be checked against the agent: a
world that was is shown once more with the energy that a claim speaks of, and nothing else changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from theatre.axion.common.errors import EffectSyntaxError
from theatre.axion.common.hashing import Document
from theatre.axion.env.mutations import FULL_ENERGY
from theatre.axion.env.state import GridState
from theatre.axion.interfaces.base import K16, Interface
from theatre.axion.interfaces.mci_latent import MCI_LATENT, MCI_LATENT_K16, factors_of
from theatre.axion.kernel.effect_dsl import effect_of
from theatre.axion.kernel.mutation import mutate
from theatre.axion.kernel.p5_full import check_full_claim
from theatre.axion.kernel.probe_engine import FAIL, INCONCLUSIVE, PASS, check_claim
from theatre.axion.kernel.replay import UNIT, model_of, units

ENERGY_FACTOR = 0
"""The factor that a world can have otherwise with all others as they were."""

Recorded = tuple[GridState, Document]
"""The world at a step, and the proposal that was allowed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCount:
    """The result of the claims of an episode; `silent` is how many proposals made none."""

    true: int = 0
    false: int = 0
    inconclusive: int = 0
    pivotal: int = 0
    silent: int = 0

    @property
    def verdict(self) -> str:
        """Return FAIL where one claim is false or a proposal has none, PASS where one is true."""
        if self.false or self.silent:
            return FAIL
        return PASS if self.true else INCONCLUSIVE


def count_claims(
    recorded: Iterable[Recorded],
    interface: Interface,
    choose: Callable[[GridState], str] | None,
) -> ClaimCount:
    """Return the count of all claims; `choose` is asked about other worlds (interface `full`)."""
    results: Counter[str] = Counter()
    pivotal = silent = 0
    for state, proposal in recorded:
        if interface.has_factors:
            checks = _factor_checks(state, proposal["trace"], interface)
        else:
            checks = [] if choose is None else _world_checks(state, proposal["trace"], choose)
        results.update(check["result"] for check in checks)
        pivotal += sum(check["pivotal"] for check in checks)
        silent += not checks
    return ClaimCount(
        true=results[PASS],
        false=results[FAIL],
        inconclusive=results[INCONCLUSIVE],
        pivotal=pivotal,
        silent=silent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisit:
    """A world that was, with another energy, and what was claimed to be chosen in it."""

    state: GridState
    claimed: frozenset[str]


def revisits(recorded: Iterable[Recorded], interface: Interface) -> list[Revisit]:
    """Return the worlds that claims about energy speak of, in the order of the steps."""
    found: list[Revisit] = []
    for state, proposal in recorded:
        claimed: dict[int, set[str]] = {}
        for energy, action in _energy_claims(proposal["trace"]["causal_claims"], state):
            claimed.setdefault(energy, set()).add(action)
        found += [
            Revisit(
                state=replace(state, self=replace(state.self, energy=energy)),
                claimed=frozenset(actions),
            )
            for energy, actions in claimed.items()
        ]
    return found if interface.projection is not None else []


def strictest(*verdicts: str) -> str:
    """Return FAIL where one verdict is, PASS where all are, else INCONCLUSIVE."""
    if FAIL in verdicts:
        return FAIL
    return PASS if set(verdicts) == {PASS} else INCONCLUSIVE


def _energy_claims(claims: Iterable[Document], state: GridState) -> Iterator[tuple[int, str]]:
    """Yield energy and action of the claims about an energy that an agent can have."""
    for claim in claims:
        try:
            effect = effect_of(claim)
        except EffectSyntaxError:
            # It is false already, by the count of all claims.
            continue
        factor = units(state.self.energy / FULL_ENERGY)
        mutation = mutate(factor, effect.change, effect.value)
        if effect.factor == ENERGY_FACTOR and mutation is not None:
            energy, rest = divmod(mutation.value * FULL_ENERGY, UNIT)
            if not rest:
                yield energy, effect.action


def _factor_checks(state: GridState, trace: Document, interface: Interface) -> list[Document]:
    """Return the checks of one step, on the true factors: an agent may have named its own."""
    wide = interface.factor_dim == K16
    projection = (MCI_LATENT_K16 if wide else MCI_LATENT).projection
    factors = [units(factor) for factor in factors_of(state, str(projection))]
    model = model_of(trace["replay_model"], interface.factor_dim)
    choice = model.choice(factors)
    return [
        check_claim(place, claim, model, factors, choice)
        for place, claim in enumerate(trace["causal_claims"])
    ]


def _world_checks(
    state: GridState, trace: Document, choose: Callable[[GridState], str]
) -> list[Document]:
    choice = choose(state)
    return [check_full_claim(claim, state, choose, choice) for claim in trace["causal_claims"]]
