"""P5' of the interface `full`: what cannot be read fails, what changes nothing decides nothing."""

from dataclasses import replace

import pytest

from tests.theatre.axion.proposed import SEED, mind, world
from theatre.axion.agents.base import Offers
from theatre.axion.common.hashing import Document
from theatre.axion.env.gridworld import mutated_state
from theatre.axion.env.normalize_state import GridState
from theatre.axion.interfaces.base import Mode
from theatre.axion.kernel.p5_full import examine_full


def examined(*claims: str, state: GridState | None = None) -> Document:
    """Return the verdict on an honest proposal with other claims."""
    seen = state or world("social")
    acting = mind(mode=Mode.FULL)
    made = acting.prepare(seen, Offers())
    trace = {
        **made.proposal["trace"],
        "causal_claims": [{"expected_effect_on_choice": claim} for claim in claims],
    }
    return examine_full(
        {**made.proposal, "trace": trace},
        state=seen,
        choose=acting.choice,
        nonces=made.nonces,
        seed=SEED,
    )


def true_claim(state: GridState, variable: str, change: str) -> str:
    other = mutated_state(state, variable, change)
    assert other is not None
    return f"IF {variable} {change} THEN CHOICE {mind(mode=Mode.FULL).choice(other)}"


def test_true_claims_pass_and_a_false_one_fails() -> None:
    state = world("social")
    true = [true_claim(state, "self.energy", "DEC"), true_claim(state, "objects.at", "UNSET")]
    assert examined(*true)["verdict"] == "PASS"
    assert examined(*true, "IF agents.pos UNSET THEN CHOICE NOOP")["verdict"] == "FAIL"


@pytest.mark.parametrize(
    "claim",
    [
        "IF self.energy DEC THEN CHOICE wait",
        "IF self.energy UNSET THEN CHOICE WAIT",
        "IF walls.nearby UNSET THEN CHOICE WAIT",
        "IF self.energy DEC THEN CHOICE WAIT\n",
        "IF F:0 DEC THEN CHOICE WAIT",
    ],
)
def test_a_claim_that_cannot_be_tested_fails(claim: str) -> None:
    assert examined(claim)["verdict"] == "FAIL"


def test_no_claim_at_all_fails_and_one_without_a_change_decides_nothing() -> None:
    assert examined()["verdict"] == "FAIL"
    full_of_energy = examined("IF self.energy INC THEN CHOICE WAIT")
    assert (full_of_energy["verdict"], full_of_energy["inconclusive"]) == ("INCONCLUSIVE", 1)


def test_energy_goes_up_and_down_by_a_quarter_and_at_least_by_five() -> None:
    state = world()

    def after(energy: int, change: str) -> int | None:
        tired = replace(state, self=replace(state.self, energy=energy))
        other = mutated_state(tired, "self.energy", change)
        return None if other is None else other.self.energy

    assert [after(80, "INC"), after(80, "DEC"), after(90, "INC")] == [100, 60, 100]
    assert [after(8, "INC"), after(8, "DEC"), after(3, "DEC")] == [13, 3, 0]
    assert [after(100, "INC"), after(0, "DEC")] == [None, None]
