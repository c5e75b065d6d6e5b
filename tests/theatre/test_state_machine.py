"""The lifecycle: five steps in one direction, and nothing else."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.errors import InvalidTransitionError
from theatre.engine.state_machine import (
    VALID_TRANSITIONS,
    TheatreState,
    TheatreStateMachine,
    check_transition,
)

ORDER = ("DRAFT", "COMMITTED", "ACTIVE", "SETTLING", "RESOLVED", "ARCHIVED")
STEPS = set(itertools.pairwise(ORDER))
PAIRS = list(itertools.product(ORDER, repeat=2))


def test_there_are_six_states_in_the_order_of_the_lifecycle() -> None:
    assert tuple(state.value for state in TheatreState) == ORDER
    assert tuple(VALID_TRANSITIONS) == tuple(TheatreState)
    assert len(PAIRS) == 36


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_pair_is_a_step_or_is_refused_and_leaves_the_state(source: str, target: str) -> None:
    current, wanted = TheatreState(source), TheatreState(target)
    machine = TheatreStateMachine("theatre", current)
    assert machine.can_transition(wanted) is ((source, target) in STEPS)
    assert machine.state is current
    if (source, target) in STEPS:
        check_transition(current, wanted)
        assert machine.transition(wanted) is wanted
        assert machine.state is wanted
        return
    with pytest.raises(InvalidTransitionError, match=f"a step from {source} .* to {target}$"):
        check_transition(current, wanted)
    with pytest.raises(InvalidTransitionError, match=f"a step from {source} .* to {target}$"):
        machine.transition(wanted)
    assert machine.state is current


def test_a_refusal_says_what_would_have_been_allowed() -> None:
    with pytest.raises(InvalidTransitionError) as caught:
        check_transition(TheatreState.DRAFT, TheatreState.ACTIVE)
    assert str(caught.value) == ("expected a step from DRAFT to COMMITTED; got a step to ACTIVE")
    with pytest.raises(InvalidTransitionError) as caught:
        check_transition(TheatreState.ARCHIVED, TheatreState.DRAFT)
    assert str(caught.value) == (
        "expected a step from ARCHIVED to nothing, it is the end; got a step to DRAFT"
    )
    assert caught.value.code == "invalid-transition"


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        VALID_TRANSITIONS[TheatreState.ARCHIVED] = (TheatreState.DRAFT,)  # type: ignore[index]


def test_a_machine_knows_its_theatre_and_starts_where_it_is_told() -> None:
    machine = TheatreStateMachine("some-theatre", TheatreState.SETTLING)
    assert (machine.theatre_id, machine.state) == ("some-theatre", TheatreState.SETTLING)


@given(st.sampled_from(TheatreState), st.lists(st.sampled_from(TheatreState), max_size=40))
def test_no_walk_ever_goes_back_stays_or_skips(
    start: TheatreState, attempts: list[TheatreState]
) -> None:
    machine = TheatreStateMachine("theatre", start)
    visited = [start]
    for target in attempts:
        try:
            visited.append(machine.transition(target))
        except InvalidTransitionError:
            assert (machine.state.value, target.value) not in STEPS
    first = ORDER.index(start.value)
    assert tuple(state.value for state in visited) == ORDER[first : first + len(visited)]
    assert machine.state is visited[-1]
