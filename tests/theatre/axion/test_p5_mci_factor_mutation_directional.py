"""P5-MCI: mutations go where a claim says, a change that is none decides nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.axion.agents.base import predict_effects
from theatre.axion.common.errors import EffectSyntaxError, ReplayModelError
from theatre.axion.common.hashing import Document, commitment, factor_digest
from theatre.axion.kernel.effect_dsl import Effect, Mutation, effect_of, mutate, sentence
from theatre.axion.kernel.probe_engine import examine
from theatre.axion.kernel.replay import ACTIONS, UNIT, LinearModel, model_of, number, units

SPEC = {"mode": "mci_minimal", "factor_dim": 2}
NONCE = "ab" * 32
# WAIT while factor 0 is below a half, MOVE_N from there on: factor 1 says nothing.
MODEL: Document = {
    "model_type": "linear_logits",
    "actions": ["MOVE_N", "WAIT"],
    "params": {"W": [[1, 0], [0, 0]], "b": [0, 0.5]},
}


def claim(told: str, var: str | None = None, direction: str | None = None) -> Document:
    words = told.split(" ")
    guessed = {"INC": "increase", "DEC": "decrease"}.get(words[2], "threshold")
    return {
        "var": var or words[1],
        "direction": direction or guessed,
        "expected_effect_on_choice": told,
        "confidence": 0.9,
        "supporting_nodes": [0],
    }


def verdict(factors: list[float], *claims: Document, model: Document = MODEL) -> Document:
    digest = factor_digest(factors, SPEC)
    return examine(
        {
            "interface": SPEC,
            "factor_dim": 2,
            "factors": factors,
            "replay_model": model,
            "claims": list(claims),
            "factor_snapshot": {
                "factor_digest": digest,
                "commitment": commitment(NONCE, digest, SPEC),
            },
            "revealed_nonce": NONCE,
            "challenge_seed": "cd" * 32,
        }
    )


def units_of(value: float) -> int:
    return round(value * UNIT)


@pytest.mark.parametrize(
    ("factor", "change", "value", "after", "mirrored"),
    [
        (0.4, "INC", None, 0.5, False),
        (0.4, "DEC", None, 0.3, False),
        (0.1, "INC", None, 0.15, False),
        (0.1, "DEC", None, 0.05, False),
        (0.04, "DEC", None, 0.0, False),
        (0.9, "INC", None, 1.0, False),
        (0.97, "INC", None, 1.0, False),
        (1.0, "INC", None, 0.75, True),
        (0.0, "DEC", None, 0.05, True),
        (1.0, "DEC", None, 0.75, False),
        (0.0, "INC", None, 0.05, False),
        (0.3, "SET", 0.8, 0.8, False),
        (0.3, "SET", 7, 1.0, False),
        (0.3, "SET", -7, 0.0, False),
    ],
)
def test_a_factor_moves_by_a_quarter_or_a_twentieth_and_stays_within_bounds(
    factor: float, change: str, value: float | None, after: float, *, mirrored: bool
) -> None:
    asked = None if value is None else units_of(value)
    made = mutate(units_of(factor), change, asked)  # type: ignore[arg-type]  # one of three words
    assert made == Mutation(units_of(after), mirrored=mirrored)


@pytest.mark.parametrize(("factor", "value"), [(0.3, 0.3), (1.0, 1.5), (0.0, -0.0)])
def test_setting_what_is_there_is_no_change(factor: float, value: float) -> None:
    assert mutate(units_of(factor), "SET", units_of(value)) is None


@given(st.integers(0, UNIT), st.sampled_from(["INC", "DEC"]))
def test_a_direction_is_kept_everywhere_but_at_the_very_edge(factor: int, change: str) -> None:
    made = mutate(factor, change)  # type: ignore[arg-type]  # one of two words
    assert made is not None
    upwards = made.value > factor
    assert made.mirrored == (factor == (UNIT if change == "INC" else 0))
    assert upwards == ((change == "INC") != made.mirrored)
    assert 0 <= made.value <= UNIT


def test_a_true_claim_passes_and_a_false_one_fails() -> None:
    true = verdict([0.4, 0], claim("IF F:0 SET 0.6 THEN CHOICE MOVE_N"))
    assert (true["verdict"], true["choice"], true["pivotal"]) == ("PASS", "WAIT", 1)
    false = verdict([0.3, 0], claim("IF F:0 INC THEN CHOICE MOVE_N"))
    assert (false["verdict"], false["failed"], false["pivotal"]) == ("FAIL", 1, 0)
    assert false["checks"][0]["reason"] == "expected MOVE_N, the model chooses WAIT"


def test_a_tie_goes_to_the_first_action() -> None:
    assert verdict([0.4, 0], claim("IF F:0 SET 0.5 THEN CHOICE MOVE_N"))["verdict"] == "PASS"


def test_what_changes_nothing_is_inconclusive_and_never_a_pass() -> None:
    examined = verdict([0.4, 0], *[claim("IF F:0 SET 0.4 THEN CHOICE WAIT")] * 4)
    assert (examined["verdict"], examined["attempted"], examined["inconclusive"]) == (
        "INCONCLUSIVE",
        4,
        4,
    )


def test_inconclusive_claims_are_drawn_again_until_three_decide() -> None:
    empty = [claim("IF F:0 SET 0.4 THEN CHOICE WAIT")] * 10
    full = [claim("IF F:1 INC THEN CHOICE WAIT")] * 5
    examined = verdict([0.4, 0], *empty, *full)
    assert (examined["verdict"], examined["passed"]) == ("PASS", 3)
    assert examined["attempted"] == 3 + examined["inconclusive"]


def test_a_claim_at_the_edge_is_tried_in_the_mirror_with_its_own_expectation() -> None:
    examined = verdict([1, 0], claim("IF F:0 INC THEN CHOICE MOVE_N"))
    assert (examined["verdict"], examined["mirrored"]) == ("PASS", 1)
    examined = verdict([0, 0], claim("IF F:0 DEC THEN CHOICE MOVE_N"))
    assert (examined["verdict"], examined["mirrored"]) == ("FAIL", 1)


def test_one_false_claim_among_true_ones_fails_and_no_claim_at_all_too() -> None:
    true = claim("IF F:1 INC THEN CHOICE WAIT")
    assert verdict([0.4, 0], true, true, claim("IF F:1 INC THEN CHOICE NOOP"))["verdict"] == "FAIL"
    assert verdict([0.4, 0])["verdict"] == "FAIL"


def test_a_factor_that_is_not_there_fails() -> None:
    examined = verdict([0.4, 0], claim("IF F:2 INC THEN CHOICE WAIT"))
    assert (examined["verdict"], examined["checks"][0]["reason"]) == (
        "FAIL",
        "expected a factor, got F:2",
    )


@pytest.mark.parametrize(
    "told",
    [
        "IF F:0 INC THEN CHOICE wait",
        "if F:0 INC THEN CHOICE WAIT",
        "IF  F:0 INC THEN CHOICE WAIT",
        "IF F:00 INC THEN CHOICE WAIT",
        "IF F:0 INC THEN CHOICE WAIT ",
        "IF F:0 INC THEN CHOICE WAIT\n",
        "IF F:0 LT 0.5 THEN CHOICE WAIT",
        "IF F:0 SET .5 THEN CHOICE WAIT",
        "IF F:0 SET 0.123456789 THEN CHOICE WAIT",
        "IF F:0 SET 1e-3 THEN CHOICE WAIT",
        "IF F:0 SET NaN THEN CHOICE WAIT",
        "IF F:0 INC THEN CHOICE FLY",
        "IF F:\u0660 INC THEN CHOICE WAIT",
    ],
)
def test_a_sentence_that_is_not_of_the_language_fails_the_probe(told: str) -> None:
    one = claim("IF F:0 INC THEN CHOICE WAIT")
    one["expected_effect_on_choice"] = told
    with pytest.raises(EffectSyntaxError):
        effect_of(one)
    assert verdict([0.4, 0], one)["verdict"] == "FAIL"


@pytest.mark.parametrize(
    ("var", "direction"),
    [("F:1", "increase"), ("F:0", "decrease"), ("F:0", "threshold"), ("F:00", "increase")],
)
def test_a_claim_must_mean_what_its_members_say(var: str, direction: str) -> None:
    with pytest.raises(EffectSyntaxError, match="expected var and direction"):
        effect_of(claim("IF F:0 INC THEN CHOICE WAIT", var, direction))


@given(
    st.integers(0, 1023),
    st.sampled_from(["INC", "DEC", "SET"]),
    st.integers(-UNIT * 10, UNIT * 10),
    st.sampled_from(ACTIONS),
)
def test_a_sentence_reads_back_as_the_effect_it_was_written_from(
    factor: int, change: str, value: int, action: str
) -> None:
    effect = Effect(factor, change, value if change == "SET" else None, action)  # type: ignore[arg-type]  # one of three words
    told = sentence(effect)
    assert effect_of(claim(told)) == effect


@given(
    st.lists(st.integers(0, UNIT), min_size=3, max_size=3),
    st.lists(st.integers(-3 * UNIT, 3 * UNIT), min_size=9, max_size=9),
    st.lists(st.integers(-3 * UNIT, 3 * UNIT), min_size=3, max_size=3),
)
def test_claims_made_by_replay_are_never_false(
    factors: list[int], weights: list[int], biases: list[int]
) -> None:
    rows = tuple(tuple(weights[place : place + 3]) for place in (0, 3, 6))
    model = LinearModel(ACTIONS[:3], rows, tuple(biases))
    read = model_of(json.loads(json.dumps(model.as_document())), 3)
    assert read == model
    for foreseen in predict_effects(model, factors):
        effect = foreseen.effect
        mutation = mutate(factors[effect.factor], effect.change, effect.value)
        assert mutation is not None
        assert not mutation.mirrored
        changed = [*factors]
        changed[effect.factor] = mutation.value
        assert read.choice(changed) == effect.action
        assert foreseen.pivotal == (effect.action != read.choice(factors))


@given(st.integers(-(10**15), 10**15))
def test_units_survive_being_written_as_numbers(count: int) -> None:
    assert units(number(count)) == count


def test_units_round_as_the_canonical_form_does() -> None:
    for value in (0.000000005, 0.000000015, 2.5e-9, 1 / 3, 0.1 + 0.2, 123456.789012345):
        assert units(value) == int(f"{value:.8f}".replace(".", ""))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"actions": ["WAIT"]}, "expected as many rows and biases as actions, got 1 actions"),
        ({"actions": ["WAIT", "WAIT"]}, "expected different actions of the ten"),
        ({"actions": ["WAIT", "wait"]}, "expected different actions of the ten"),
        ({"params": {"W": [[1], [1, 2]], "b": [0, 0]}}, "expected 2 weights in row 0, got 1"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(model: Document, message: str) -> None:
    with pytest.raises(ReplayModelError, match=message):
        model_of({**MODEL, **model}, 2)
