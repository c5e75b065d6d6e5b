"""Every recorded claim is examined, on the factors that the world had, and some in that world."""

from dataclasses import replace
from typing import Any

import pytest

from tests.theatre.axion.proposed import mind, world
from theatre.axion.agents.base import Offers
from theatre.axion.common.hashing import Document
from theatre.axion.env.normalize_state import GridState
from theatre.axion.harness.records import ClaimCount, count_claims, revisits, strictest
from theatre.axion.interfaces.base import Mode
from theatre.axion.interfaces.full import FULL
from theatre.axion.interfaces.mci_latent import MCI_LATENT
from theatre.axion.interfaces.mci_minimal import MCI_MINIMAL


def proposal(
    name: str = "honest", mode: Mode = Mode.MCI_LATENT, state: GridState | None = None
) -> Document:
    return mind(name, mode).prepare(state or world(), Offers()).proposal


def claiming(
    sentence: str, *, var: str = "F:0", direction: str = "threshold", state: GridState | None = None
) -> Document:
    """Return an honest proposal with one claim of its own."""
    told: dict[str, Any] = proposal(state=state)
    claim = {
        **told["trace"]["causal_claims"][0],
        "var": var,
        "direction": direction,
        "expected_effect_on_choice": sentence,
    }
    return {**told, "trace": {**told["trace"], "causal_claims": [claim]}}


def test_all_claims_of_an_honest_agent_are_true() -> None:
    states = [world(name) for name in ("basic", "hazard", "resource", "social")]
    count = count_claims(((one, proposal(state=one)) for one in states), MCI_LATENT, None)
    assert (count.true, count.false, count.inconclusive, count.silent) == (24, 0, 0, 0)
    assert count.verdict == "PASS"


@pytest.mark.parametrize(
    ("sentence", "var", "direction", "expected"),
    [
        ("IF F:0 SET 0 THEN CHOICE MOVE_N", "F:0", "threshold", ClaimCount(true=1)),
        ("IF F:4 SET 0 THEN CHOICE PICKUP", "F:4", "threshold", ClaimCount(true=1, pivotal=1)),
        ("IF F:4 SET 0 THEN CHOICE MOVE_N", "F:4", "threshold", ClaimCount(false=1, pivotal=1)),
        ("IF F:0 SET 1 THEN CHOICE WAIT", "F:0", "threshold", ClaimCount(inconclusive=1)),
        ("IF F:99 INC THEN CHOICE WAIT", "F:99", "increase", ClaimCount(false=1)),
        ("energy matters", "self.energy", "increase", ClaimCount(false=1)),
    ],
)
def test_a_claim_is_what_a_replay_on_the_true_factors_says(
    sentence: str, var: str, direction: str, expected: ClaimCount
) -> None:
    told = claiming(sentence, var=var, direction=direction)
    assert count_claims([(world(), told)], MCI_LATENT, None) == expected


def test_a_proposal_without_a_claim_is_silent_which_is_no_pass() -> None:
    told: dict[str, Any] = proposal()
    silent = {**told, "trace": {**told["trace"], "causal_claims": []}}
    count = count_claims([(world(), told), (world(), silent)], MCI_LATENT, None)
    assert (count.true, count.silent, count.verdict) == (6, 1, "FAIL")
    assert count_claims([], MCI_LATENT, None).verdict == "INCONCLUSIVE"


def test_factors_are_the_worlds_where_an_agent_names_its_own() -> None:
    fresh = replace(world(), objects=())
    tired = replace(fresh, self=replace(fresh.self, energy=20))
    told = claiming("IF F:1 SET 0.5 THEN CHOICE WAIT", var="F:1", state=tired)
    # Who says that it is tired speaks the truth about a world that it is not in.
    assert count_claims([(tired, told)], MCI_MINIMAL, None).verdict == "PASS"
    assert count_claims([(fresh, told)], MCI_MINIMAL, None).verdict == "FAIL"


def test_claims_of_full_are_tried_in_other_worlds() -> None:
    state = world("social")
    honest = count_claims(
        [(state, proposal(mode=Mode.FULL, state=state))], FULL, mind(mode=Mode.FULL).choice
    )
    liar = mind("pseudo", Mode.FULL)
    pseudo = count_claims([(state, proposal("pseudo", Mode.FULL, state))], FULL, liar.choice)
    assert (honest.false, honest.verdict, pseudo.verdict) == (0, "PASS", "FAIL")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("PASS", "PASS", "PASS"), "PASS"),
        (("PASS", "FAIL", "INCONCLUSIVE"), "FAIL"),
        (("PASS", "INCONCLUSIVE", "PASS"), "INCONCLUSIVE"),
    ],
)
def test_the_strictest_verdict_counts(verdicts: tuple[str, ...], expected: str) -> None:
    assert strictest(*verdicts) == expected


def test_a_world_is_shown_once_more_for_each_energy_that_was_claimed_about() -> None:
    state = replace(world(), self=replace(world().self, energy=60))
    told = claiming("IF F:0 SET 0.25 THEN CHOICE WAIT")
    (found,) = revisits([(state, told)], MCI_LATENT)
    assert found.state == replace(state, self=replace(state.self, energy=25))
    assert found.claimed == {"WAIT"}


@pytest.mark.parametrize(
    ("sentence", "direction", "energy", "expected"),
    [
        ("IF F:0 INC THEN CHOICE WAIT", "increase", 60, [75]),
        ("IF F:0 DEC THEN CHOICE WAIT", "decrease", 60, [45]),
        ("IF F:0 DEC THEN CHOICE WAIT", "decrease", 61, []),
        ("IF F:0 SET 0.255 THEN CHOICE WAIT", "threshold", 60, []),
        ("IF F:0 SET 0.6 THEN CHOICE WAIT", "threshold", 60, []),
        ("IF F:1 SET 0.5 THEN CHOICE WAIT", "threshold", 60, []),
        ("nothing", "threshold", 60, []),
    ],
)
def test_only_an_energy_that_an_agent_can_have_is_shown(
    sentence: str, direction: str, energy: int, expected: list[int]
) -> None:
    state = replace(world(), self=replace(world().self, energy=energy))
    var = "F:1" if "F:1" in sentence else "F:0"
    told = claiming(sentence, var=var, direction=direction)
    assert [one.state.self.energy for one in revisits([(state, told)], MCI_LATENT)] == expected
    assert revisits([(state, told)], MCI_MINIMAL) == []
