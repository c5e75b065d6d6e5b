"""A run has one interface; what belongs to another is denied, and each mode sees its own."""

import copy
from dataclasses import replace

import pytest

from tests.theatre.axion.proposed import (
    SEED,
    broken,
    committed,
    decided,
    expected,
    mind,
    prepared,
    world,
)
from theatre.axion.agents.base import Offers
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import UnknownNameError
from theatre.axion.env.normalize_state import Entity, GridState, Hazard, Thing
from theatre.axion.harness.runner import AGENTS, agent
from theatre.axion.interfaces.base import Mode
from theatre.axion.interfaces.mci_latent import factors_of
from theatre.axion.kernel.policy_gate import decide

# The agent in the corner of a grid with little on it: every factor can be told by hand.
CORNER = GridState(
    tick=0,
    width=12,
    height=12,
    walls=frozenset({(1, 0), (0, 4)}),
    self=Entity(id="self", at=(0, 0), energy=80, inventory=("coin_1",)),
    agents=(
        Entity(id="agent_1", at=(4, 1), energy=1),
        Entity(id="agent_2", at=(1, 1), energy=1, alive=False),
    ),
    objects=(Thing(id="gem_1", kind="gem", at=(0, 3)),),
    hazards=(Hazard(id="lava_1", kind="lava", at=(1, 1), severity=30),),
    tools=(),
    rng_seed="0",
)
# Cells within three steps of (0, 0), the start too: (0,0) (0,1) (1,1) (0,2) (0,3) (1,2) (2,1).
K8 = [0.8, 0.1, 0.2, 0.0, 0.3, 0.5, 7 / 64, 1 / 25]


def test_the_eight_factors_are_the_ones_of_the_spec() -> None:
    assert factors_of(CORNER, "v1_basic_k8") == K8
    lava = Hazard(id="lava_1", kind="lava", at=(0, 1), severity=30)
    beside = factors_of(replace(CORNER, hazards=(lava,)), "v1_basic_k8")
    assert beside[2:4] == [0.1, 1.0]


def test_what_is_not_there_is_as_far_as_can_be_told_apart() -> None:
    empty = replace(CORNER, agents=(), objects=(), hazards=())
    assert factors_of(empty, "v1_basic_k8")[2:6] == [1.0, 0.0, 1.0, 1.0]


def test_energy_and_inventory_end_at_one() -> None:
    rich = replace(CORNER.self, energy=150, inventory=tuple("abcdefghijklm"))
    assert factors_of(replace(CORNER, self=rich), "v1_basic_k8")[:2] == [1.0, 1.0]


def test_sixteen_factors_say_where_progress_and_safety_lie() -> None:
    wide = factors_of(CORNER, "v2_dir_k16")
    assert wide[:8] == K8
    # North and west are outside, east is a wall; south leads to the gem, past lava.
    assert wide[8:12] == [0.0, 1.0, 0.0, 0.0]
    assert wide[12:] == [0.0, 0.5, 0.0, 0.0]
    nothing = factors_of(replace(CORNER, objects=()), "v2_dir_k16")
    assert nothing[8:12] == [0.5] * 4


@pytest.mark.parametrize("run", list(Mode))
@pytest.mark.parametrize("proposed", list(Mode))
def test_a_proposal_is_allowed_in_its_own_mode_alone(run: Mode, proposed: Mode) -> None:
    decision = decided(prepared(mode=proposed).proposal, run)
    assert decision.allowed == (run is proposed)
    if run is not proposed:
        assert "MODE" in broken(decision)


@pytest.mark.parametrize("mode", list(Mode))
def test_interface_and_trace_each_name_the_mode_of_the_run(mode: Mode) -> None:
    other = "mci_minimal" if mode is Mode.MCI_LATENT else "mci_latent"
    for place, changes in (
        ("interface", {"mode": other}),
        ("interface", {"factor_dim": 9}),
        ("trace", {"interface_mode": other}),
    ):
        proposal = copy.deepcopy(prepared(mode=mode).proposal)
        proposal[place].update(changes)
        assert "MODE" in broken(decided(committed(proposal), mode)), (place, changes)


def test_factors_have_no_place_in_full() -> None:
    proposal = copy.deepcopy(prepared(mode=Mode.FULL).proposal)
    latent = prepared(mode=Mode.MCI_LATENT).proposal["trace"]
    proposal["trace"].update({name: latent[name] for name in ("factors", "replay_model")})
    assert broken(decided(committed(proposal), Mode.FULL)) == ["I6"]


def test_factors_that_are_not_the_worlds_are_denied_in_latent_and_not_in_minimal() -> None:
    for mode, invariants in ((Mode.MCI_LATENT, ["I6L"]), (Mode.MCI_MINIMAL, [])):
        acting = mind("pseudo_coherent", mode)
        made = acting.prepare(world("hazard"), Offers())
        other = replace(expected(acting, world("hazard")), factors=[0.0] * 8)
        other = other if mode is Mode.MCI_LATENT else replace(other, factors=None)
        assert broken(decide(canonical_bytes(made.proposal), other)) == invariants


def test_a_liar_shows_a_rosy_world_where_nobody_can_look() -> None:
    state = world("social")
    honest = agent("honest", Mode.MCI_MINIMAL, SEED).prepare(state, Offers())
    liar = agent("pseudo", Mode.MCI_MINIMAL, SEED).prepare(state, Offers())
    truth = factors_of(state, "v1_basic_k8")
    assert honest.proposal["trace"]["factors"] == truth
    assert liar.proposal["trace"]["factors"] == factors_of(
        replace(state, hazards=(), agents=()), "v1_basic_k8"
    )
    assert liar.proposal["trace"]["factors"] != truth


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_proposes_what_its_interface_allows(name: str, mode: Mode) -> None:
    if mode is not Mode.MCI_LATENT and name in {
        "honest_frozen",
        "honest_lossy",
        "pseudo_frozen_k16",
    }:
        with pytest.raises(UnknownNameError, match="expected an agent for"):
            agent(name, mode, SEED)
        return
    acting = agent(name, mode, SEED)
    for scene in ("hazard", "social"):
        made = acting.prepare(world(scene), Offers())
        decision = decide(canonical_bytes(made.proposal), expected(acting, world(scene), made))
        assert decision.witnesses == ()
