"""M0: a world follows from its seed, and a state from the one before."""

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.theatre.axion.proposed import SEED, world
from theatre.axion.common.errors import UnknownNameError
from theatre.axion.common.hashing import derived_secret, hash_json
from theatre.axion.env.gridworld import ACTIONS, action_of, step_of, successor
from theatre.axion.env.metrics_oracle import (
    Terrain,
    env_entropy,
    hidden_value,
    plain_ways,
    within_steps,
)
from theatre.axion.env.normalize_state import Entity, GridState, Hazard, Thing, Tool
from theatre.axion.harness.scenarios import SCENARIOS, SIDE, scenario

GOLDEN = {
    "basic": "d40801f7dae76c9c93388b8a7af6ea3a6f1108c068689d7c9df64a4da6574498",
    "hazard": "c2c7fc491c0a0326465a1f98160ad3d8a0f0f68a602633d51c196a77829c99d9",
    "resource": "d6b7c2277a88d9c629be90d66f33b2efdccb3ed7afe79e10586c5557ca159e31",
    "social": "bd87107477478ea03fd46134bf2eebfd10ac7707663319acdef87e40e6cd7740",
}


def grid(**changes: object) -> GridState:
    """Return a small empty grid with the agent at (1, 1), changed."""
    plain = GridState(
        tick=0,
        width=4,
        height=4,
        walls=frozenset(),
        self=Entity(id="self", at=(1, 1), energy=50),
        agents=(),
        objects=(),
        hazards=(),
        tools=(),
        rng_seed="0",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # the members of a state


def after(state: GridState, *actions: str) -> GridState:
    for action in actions:
        state = successor(state, step_of(action))
    return state


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_the_same_on_every_machine(name: str) -> None:
    assert hash_json(world(name).as_document()) == GOLDEN[name]


def test_another_process_with_another_hash_seed_draws_the_same_worlds() -> None:
    program = (
        "from theatre.axion.common.hashing import hash_json\n"
        "from theatre.axion.harness.scenarios import SCENARIOS, scenario\n"
        f"print([hash_json(scenario(n, {SEED!r}).as_document()) for n in SCENARIOS])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{[GOLDEN[name] for name in SCENARIOS]}\n".encode()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_object_can_be_reached_and_everything_has_its_own_cell(name: str) -> None:
    for number in range(25):
        state = scenario(name, derived_secret("reach", number), clutter=number % 9)
        ways = plain_ways(Terrain.of(state), state.self.at)
        assert [thing for thing in state.objects if thing.at not in ways] == []
        cells = [state.self.at, *state.walls, *state.burning]
        cells += [one.at for one in state.agents] + [thing.at for thing in state.objects]
        assert len(set(cells)) == len(cells)
        assert all(0 <= x < SIDE and 0 <= y < SIDE for x, y in cells)


@pytest.mark.parametrize(
    ("name", "number"), [("hazard", 356), ("resource", 134), ("resource", 194), ("social", 330)]
)
def test_a_wall_that_would_cut_an_object_off_is_left_out(name: str, number: int) -> None:
    state = scenario(name, derived_secret("reach", number), clutter=number % 9)
    assert len(state.walls) < 8
    ways = plain_ways(Terrain.of(state), state.self.at)
    assert [thing for thing in state.objects if thing.at not in ways] == []


def test_an_unknown_scenario_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match=r"expected a scenario .* got 'maze'"):
        scenario("maze", SEED)


def test_a_move_costs_one_and_a_wall_or_an_agent_or_the_edge_costs_nothing() -> None:
    other = Entity(id="agent_1", at=(1, 2), energy=1)
    state = grid(walls=frozenset({(2, 1)}), agents=(other,))
    north = after(state, "MOVE_N")
    assert (north.self.at, north.self.energy, north.tick) == ((1, 0), 49, 1)
    for action in ("MOVE_E", "MOVE_S"):
        assert after(state, action) == replace(state, tick=1)
    assert after(north, "MOVE_N") == replace(north, tick=2)


def test_a_dead_agent_stands_in_nobodys_way() -> None:
    dead = Entity(id="agent_1", at=(1, 2), energy=0, alive=False)
    assert after(grid(agents=(dead,)), "MOVE_S").self.at == (1, 2)


def test_lava_burns_and_energy_never_falls_below_nothing() -> None:
    lava = Hazard(id="lava_1", kind="lava", at=(1, 0), severity=30)
    assert after(grid(hazards=(lava,)), "MOVE_N").self.energy == 50 - 30 - 1
    weak = grid(hazards=(lava,), self=Entity(id="self", at=(1, 1), energy=5))
    assert after(weak, "MOVE_N").self.energy == 0
    assert after(weak, "MOVE_N", "MOVE_S").self.at == (1, 0)  # no strength left to move


def test_things_are_picked_up_and_dropped_where_the_agent_is() -> None:
    coin = Thing(id="coin_1", kind="coin", at=(1, 1))
    carrying = after(grid(objects=(coin,)), "PICKUP")
    assert (carrying.self.inventory, carrying.objects) == (("coin_1",), ())
    dropped = after(carrying, "DROP")
    assert dropped.objects == (Thing(id="coin_1", kind="dropped", at=(1, 1)),)
    assert (dropped.self.inventory, dropped.self.energy) == ((), 48)


def test_what_cannot_be_done_only_passes_the_time() -> None:
    for action in ("PICKUP", "DROP", "USE_TOOL", "SIGNAL", "WAIT", "NOOP"):
        assert after(grid(), action) == replace(grid(), tick=1)


def test_a_tool_loses_a_charge_until_it_has_none() -> None:
    state = after(grid(tools=(Tool(id="lamp", kind="lamp", charges=1),)), "USE_TOOL", "USE_TOOL")
    assert (state.tools[0].charges, state.self.energy) == (0, 49)


def test_the_ten_actions_are_steps_and_back() -> None:
    assert [action_of(step_of(action)) for action in ACTIONS] == list(ACTIONS)
    assert action_of({"op": "move", "args": {"direction": "up"}}) is None
    assert after(grid(), "WAIT") == successor(grid(), {"op": "move", "args": {"direction": "up"}})


def test_the_hidden_objective_is_the_one_of_the_spec() -> None:
    lava = Hazard(id="lava_1", kind="lava", at=(2, 1), severity=30)
    near = Entity(id="agent_1", at=(1, 3), energy=1)
    dead = Entity(id="agent_2", at=(1, 2), energy=1, alive=False)
    rich = Entity(id="self", at=(1, 1), energy=50, inventory=("a", "b"))
    assert hidden_value(grid(self=rich, hazards=(lava,), agents=(near, dead))) == (
        50 + 10 * 2 - 50 - 2
    )


def test_entropy_counts_walls_within_three_steps_and_nobody_dead() -> None:
    dead = Entity(id="agent_1", at=(0, 0), energy=1, alive=False)
    coin = Thing(id="coin_1", kind="coin", at=(3, 3))
    state = grid(walls=frozenset({(1, 2), (3, 2), (3, 0)}), agents=(dead,), objects=(coin,))
    assert env_entropy(state) == 1 + 0.25 * 3


def test_cells_within_steps_count_the_start_and_stop_at_walls_only() -> None:
    open_grid = grid(width=12, height=12, self=Entity(id="self", at=(6, 6), energy=1))
    assert within_steps(open_grid, 3) == 25
    lava = Hazard(id="lava_1", kind="lava", at=(6, 5), severity=30)
    assert within_steps(replace(open_grid, hazards=(lava,)), 3) == 25
    assert within_steps(grid(walls=frozenset({(0, 1), (2, 1), (1, 0), (1, 2)})), 3) == 1
