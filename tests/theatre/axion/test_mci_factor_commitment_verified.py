"""Commit and reveal: what is challenged was fixed before, and the snapshot opens to it."""

import copy
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.theatre.axion.proposed import SEED, broken, committed, expected, mind, world
from theatre.axion.agents.base import Offers
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.hashing import Document, commitment, hash_json
from theatre.axion.env.normalize_state import normalize_state
from theatre.axion.interfaces.base import Mode
from theatre.axion.kernel.p5_full import examine_full
from theatre.axion.kernel.policy_gate import decide
from theatre.axion.kernel.probe_engine import examine, p5_input

FACTOR_MODES = [Mode.MCI_LATENT, Mode.MCI_MINIMAL]


def test_a_commitment_is_the_hmac_of_digest_and_context_under_the_nonce() -> None:
    nonce, digest, spec = "11" * 32, "22" * 32, {"mode": "full", "factor_dim": 8}
    message = b"\x22" * 32 + b"\0" + hashlib.sha256(canonical_bytes(spec)).digest()
    expected_mac = hmac.new(b"\x11" * 32, message, hashlib.sha256).hexdigest()
    assert commitment(nonce, digest, spec) == expected_mac
    assert commitment("12" + "11" * 31, digest, spec) != expected_mac


@pytest.mark.parametrize("mode", FACTOR_MODES)
def test_a_challenged_proposal_that_opens_its_commitments_is_allowed(mode: Mode) -> None:
    acting = mind(mode=mode)
    made = acting.prepare(world(), Offers())
    decision = decide(canonical_bytes(made.proposal), expected(acting, world(), made))
    assert (decision.allowed, decision.witnesses) == (True, ())


@pytest.mark.parametrize("mode", FACTOR_MODES)
def test_a_nonce_that_does_not_open_the_snapshot_is_denied(mode: Mode) -> None:
    acting = mind(mode=mode)
    made = acting.prepare(world(), Offers())
    for nonces in ({}, dict.fromkeys(made.nonces, "0" * 64)):
        challenged = replace(expected(acting, world(), made), nonces=nonces)
        assert broken(decide(canonical_bytes(made.proposal), challenged)) == ["I3"]


def test_claims_that_are_swapped_after_the_commitment_are_denied() -> None:
    acting = mind()
    made = acting.prepare(world(), Offers())
    proposal = copy.deepcopy(made.proposal)
    proposal["trace"]["causal_claims"].reverse()
    decision = decide(canonical_bytes(committed(proposal)), expected(acting, world(), made))
    assert broken(decision) == ["COMMIT"]


@pytest.mark.parametrize(
    ("mode", "edit"),
    [
        (Mode.MCI_LATENT, lambda trace: trace["replay_model"]["params"]["b"].__setitem__(0, 0.5)),
        (Mode.MCI_LATENT, lambda trace: trace["factor_snapshot"].update(snapshot_id="another")),
        (Mode.MCI_LATENT, lambda trace: trace["causal_claims"].pop()),
        (Mode.FULL, lambda trace: trace["fork_snapshots"][0].update(fork_id="another")),
        (Mode.FULL, lambda trace: trace["causal_claims"].pop()),
    ],
)
def test_whatever_was_committed_to_cannot_be_changed_before_the_challenge(
    mode: Mode, edit: Callable[[Document], object]
) -> None:
    acting = mind(mode=mode)
    made = acting.prepare(world(), Offers())
    proposal = copy.deepcopy(made.proposal)
    edit(proposal["trace"])
    decision = decide(canonical_bytes(committed(proposal)), expected(acting, world(), made))
    assert broken(decision) == ["COMMIT"]


def p5_document(**changes: object) -> Document:
    made = mind().prepare(world(), Offers())
    (nonce,) = made.nonces.values()
    document = p5_input(made.proposal, episode_id="0-basic", step=0, nonce=nonce, seed=SEED)
    return {**document, **changes}


def test_the_probe_itself_fails_factors_that_are_not_the_committed_ones() -> None:
    assert examine(p5_document())["verdict"] == "PASS"
    factors = [0.5, *p5_document()["factors"][1:]]
    for changes in ({"revealed_nonce": "0" * 64}, {"factors": factors}):
        verdict = examine(p5_document(**changes))
        assert (verdict["verdict"], verdict["snapshot_opens"]) == ("FAIL", False)


def test_a_fork_snapshot_opens_to_the_true_state_alone() -> None:
    acting, state = mind(mode=Mode.FULL), world()
    made = acting.prepare(state, Offers())

    def verdict(seen: object = state, **nonces: str) -> bool:
        examined = examine_full(
            made.proposal,
            state=seen,  # type: ignore[arg-type]  # a state
            choose=acting.choice,
            nonces={**made.nonces, **nonces},
            seed=SEED,
        )
        return bool(examined["snapshot_opens"])

    weaker = replace(state, self=replace(state.self, energy=99))
    assert verdict()
    assert not verdict(weaker)
    assert not verdict(**dict.fromkeys(made.nonces, "0" * 64))


def test_the_normalised_state_holds_what_was_asked_for_in_one_order() -> None:
    state = world("social")
    shown = normalize_state(state, ["self.energy", "agents.pos", "self.energy"])
    assert shown == {
        "tick": 0,
        "grid": {"w": 12, "h": 12},
        "rng_seed": state.rng_seed,
        "self": {"id": "self", "x": state.self.at[0], "y": state.self.at[1]},
        "focus": {
            "agents.pos": [[agent.id, *agent.at] for agent in state.agents],
            "self.energy": 100,
        },
    }
    turned = replace(state, agents=state.agents[::-1], walls=frozenset(sorted(state.walls)[::-1]))
    names = ["agents.pos", "walls.nearby", "objects.at", "hazards.at"]
    assert hash_json(normalize_state(turned, names)) == hash_json(normalize_state(state, names))


def test_walls_stand_in_the_order_of_their_cells_whatever_order_a_set_has() -> None:
    near = [(x, y) for x in range(8) for y in range(8)]
    state = replace(world(), self=replace(world().self, at=(4, 4)), walls=frozenset(near))
    assert list(state.walls) != sorted(state.walls)
    seen = normalize_state(state, ["walls.nearby"])["focus"]["walls.nearby"]
    assert seen == sorted(seen)
    assert len(seen) == 25


def test_things_stand_in_the_order_of_their_names() -> None:
    state = world("resource")
    everywhere = [replace(thing, at=state.self.at) for thing in state.objects]
    names = sorted(thing.id for thing in everywhere)
    for order in (everywhere, everywhere[::-1]):
        shown = normalize_state(replace(state, objects=tuple(order)), ["objects.at"])
        assert [thing["id"] for thing in shown["focus"]["objects.at"]] == names
    assert len(names) == 3
