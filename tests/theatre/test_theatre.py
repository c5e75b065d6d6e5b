"""The theatre as a value: every step gives the next one and its event, and changes nothing.

One table knows which steps there are."""

import dataclasses
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.runs import COIN
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import CommitmentError, InvalidTransitionError, TheatreError
from theatre.engine.state_machine import (
    VALID_TRANSITIONS,
    TheatreState,
    TheatreStateMachine,
    check_transition,
)
from theatre.engine.theatre import CANCELLED, Theatre

THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
OTHER_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a12"
BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
TEMPLATE: JsonObject = {
    "theatre_id": "product_small_v1",
    "version_pins": {"constructs": {"pilot": "c0ffee0"}},
    "dataset_hashes": {"truth": "ab" * 32},
}

Step = Callable[[Theatre], tuple[Theatre, AuditEvent]]


def minute(number: int) -> datetime:
    return BEGIN + timedelta(minutes=number)


def receipt_for(theatre_id: str, template: JsonObject) -> CommitmentReceipt:
    return CommitmentProtocol.commit(
        theatre_id,
        template,
        coin=COIN,
        scorer_pins={"exact_match": "1"},
        scorer_kinds={"exact_match": "exact"},
        committed_at=minute(1),
    )


RECEIPT = receipt_for(THEATRE_ID, TEMPLATE)

STEPS: dict[str, Step] = {
    "COMMITTED": lambda theatre: theatre.commit(RECEIPT),
    "ACTIVE": lambda theatre: theatre.activate(at=minute(2), detail={"episodes": 3}),
    "SETTLING": lambda theatre: theatre.settle(at=minute(3), detail={}),
    "RESOLVED": lambda theatre: theatre.resolve(at=minute(4), detail={"outcome": "certified"}),
    "ARCHIVED": lambda theatre: theatre.archive(at=minute(5), detail={"by": "operator"}),
}
ORDER = ("DRAFT", *STEPS)


def draft() -> Theatre:
    theatre, _ = Theatre.create(THEATRE_ID, TEMPLATE, at=BEGIN)
    return theatre


def theatre_in(state: str) -> Theatre:
    theatre = draft()
    for name in ORDER[1 : ORDER.index(state) + 1]:
        theatre, _ = STEPS[name](theatre)
    return theatre


def test_a_whole_life_gives_six_values_and_their_six_events() -> None:
    theatre, created = Theatre.create(THEATRE_ID, TEMPLATE, at=BEGIN)
    values, events = [theatre], [created]
    for step in STEPS.values():
        theatre, event = step(theatre)
        values.append(theatre)
        events.append(event)
    assert [value.state for value in values] == list(TheatreState)
    assert values == [
        Theatre(
            theatre_id=THEATRE_ID,
            template=TEMPLATE,
            state=state,
            receipt=None if state is TheatreState.DRAFT else RECEIPT,
        )
        for state in TheatreState
    ]
    assert events == [
        AuditEvent(
            event_type="created",
            from_state=None,
            to_state="DRAFT",
            detail={"template_id": "product_small_v1"},
            at="2026-11-21T12:00:00.000000Z",
        ),
        AuditEvent(
            event_type="committed",
            from_state="DRAFT",
            to_state="COMMITTED",
            detail={"commitment_hash": RECEIPT.commitment_hash},
            at="2026-11-21T12:01:00.000000Z",
        ),
        AuditEvent(
            event_type="activated",
            from_state="COMMITTED",
            to_state="ACTIVE",
            detail={"episodes": 3},
            at="2026-11-21T12:02:00.000000Z",
        ),
        AuditEvent(
            event_type="settling",
            from_state="ACTIVE",
            to_state="SETTLING",
            detail={},
            at="2026-11-21T12:03:00.000000Z",
        ),
        AuditEvent(
            event_type="resolved",
            from_state="SETTLING",
            to_state="RESOLVED",
            detail={"outcome": "certified"},
            at="2026-11-21T12:04:00.000000Z",
        ),
        AuditEvent(
            event_type="archived",
            from_state="RESOLVED",
            to_state="ARCHIVED",
            detail={"by": "operator"},
            at="2026-11-21T12:05:00.000000Z",
        ),
    ]
    assert events[1].at == RECEIPT.committed_at


@pytest.mark.parametrize(
    ("state", "target"),
    [
        (state, target)
        for state, target in itertools.product(ORDER, STEPS)
        if (state, target) not in set(itertools.pairwise(ORDER))
    ],
)
def test_a_step_that_the_lifecycle_does_not_have_is_refused_and_nothing_changes(
    state: str, target: str
) -> None:
    theatre = theatre_in(state)
    before = dataclasses.astuple(theatre)
    with pytest.raises(InvalidTransitionError, match=f"a step from {state} .* to {target}$"):
        STEPS[target](theatre)
    assert dataclasses.astuple(theatre) == before


def test_a_step_leaves_the_theatre_that_it_was_taken_from_as_it_was() -> None:
    theatre = draft()
    committed, _ = theatre.commit(RECEIPT)
    active, _ = committed.activate(at=minute(2), detail={})
    assert (theatre.state, committed.state, active.state) == ("DRAFT", "COMMITTED", "ACTIVE")
    assert theatre.receipt is None
    assert active.receipt is RECEIPT


def test_a_theatre_and_its_template_cannot_be_changed() -> None:
    source = cast("JsonObject", {"theatre_id": "product_small_v1", "scoring": {"deep": [1]}})
    theatre, _ = Theatre.create(THEATRE_ID, source, at=BEGIN)
    cast("JsonObject", source["scoring"])["deep"] = []
    assert theatre.template == {"theatre_id": "product_small_v1", "scoring": {"deep": [1]}}
    with pytest.raises(TypeError, match="cannot be changed"):
        cast("JsonObject", theatre.template["scoring"])["deep"] = []
    with pytest.raises(dataclasses.FrozenInstanceError):
        theatre.state = TheatreState.RESOLVED  # type: ignore[misc]  # the refusal under test


def test_there_is_no_commitment_before_the_commit() -> None:
    with pytest.raises(InvalidTransitionError) as caught:
        _ = draft().commitment
    assert str(caught.value) == (
        f"The theatre must be committed first: {THEATRE_ID} is in state DRAFT"
    )
    assert [theatre_in(state).commitment for state in ORDER[1:]] == [RECEIPT] * 5


@pytest.mark.parametrize(
    ("receipt", "message"),
    [
        (receipt_for(OTHER_ID, TEMPLATE), f"got one of {OTHER_ID} with {RECEIPT.commitment_hash}"),
        (
            receipt_for(THEATRE_ID, TEMPLATE | {"display_name": "Another"}),
            (
                f"expected the receipt of theatre {THEATRE_ID} with commitment "
                f"{RECEIPT.commitment_hash}, got one of {THEATRE_ID} with "
            ),
        ),
        (dataclasses.replace(RECEIPT, dataset_hashes={}), "expected the receipt's dataset_hashes"),
        (dataclasses.replace(RECEIPT, commitment_hash="0" * 64), f"expected commitment {'0' * 64}"),
    ],
    ids=["another theatre", "another template", "other hashes", "a wrong hash"],
)
def test_only_the_own_and_sound_receipt_commits_a_theatre(
    receipt: CommitmentReceipt, message: str
) -> None:
    theatre = draft()
    with pytest.raises(CommitmentError) as caught:
        theatre.commit(receipt)
    assert message in str(caught.value)
    assert (theatre.state, theatre.receipt) == (TheatreState.DRAFT, None)


def test_a_theatre_needs_times_that_name_a_moment() -> None:
    naive = BEGIN.replace(tzinfo=None)
    with pytest.raises(TheatreError, match="expected a timezone-aware time"):
        Theatre.create(THEATRE_ID, TEMPLATE, at=naive)
    with pytest.raises(TheatreError, match="expected a timezone-aware time"):
        theatre_in("COMMITTED").activate(at=naive, detail={})


@pytest.mark.parametrize(
    ("state", "steps"),
    [
        ("COMMITTED", ["activated", "settling", "resolved"]),
        ("ACTIVE", ["settling", "resolved"]),
        ("SETTLING", ["resolved"]),
    ],
)
def test_a_theatre_that_ends_takes_every_step_that_is_left(state: str, steps: list[str]) -> None:
    ended, events = theatre_in(state).end(at=minute(4), outcome={**CANCELLED})
    assert ended == dataclasses.replace(theatre_in(state), state=TheatreState.RESOLVED)
    assert [event.event_type for event in events] == steps
    assert [event.from_state for event in events] == list(ORDER[ORDER.index(state) : 4])
    assert events[-1].detail == {"outcome": "void", "outcome_reason": "cancelled"}
    assert {event.at for event in events} == {"2026-11-21T12:04:00.000000Z"}


@pytest.mark.parametrize("state", ["DRAFT", "RESOLVED", "ARCHIVED"])
def test_what_was_not_committed_or_has_ended_does_not_end(state: str) -> None:
    with pytest.raises(InvalidTransitionError):
        theatre_in(state).end(at=minute(4), outcome={**CANCELLED})


LIFECYCLE = ("DRAFT", "COMMITTED", "ACTIVE", "SETTLING", "RESOLVED", "ARCHIVED")
ALLOWED = set(itertools.pairwise(LIFECYCLE))
PAIRS = list(itertools.product(LIFECYCLE, repeat=2))


def test_there_are_six_states_in_the_order_of_the_lifecycle() -> None:
    assert tuple(state.value for state in TheatreState) == LIFECYCLE
    assert tuple(VALID_TRANSITIONS) == tuple(TheatreState)
    assert len(PAIRS) == 36


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_pair_is_a_step_or_is_refused_and_leaves_the_state(source: str, target: str) -> None:
    current, wanted = TheatreState(source), TheatreState(target)
    machine = TheatreStateMachine("theatre", current)
    assert machine.can_transition(wanted) is ((source, target) in ALLOWED)
    assert machine.state is current
    if (source, target) in ALLOWED:
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
            assert (machine.state.value, target.value) not in ALLOWED
    first = LIFECYCLE.index(start.value)
    assert tuple(state.value for state in visited) == LIFECYCLE[first : first + len(visited)]
    assert machine.state is visited[-1]
