"""The programme: what can be executed is, what cannot is refused before the first call."""

from __future__ import annotations

import pytest

from theatre.engine.errors import ProgrammeError
from theatre.engine.resolution import (
    EPISODE_STEPS,
    ResolutionStateMachine,
    StepResult,
    resolution_document,
)
from theatre.engine.templates import ResolutionStep

INVOKE = ResolutionStep(step_id="invoke", type="construct_invocation", construct_id="pilot")
AGGREGATE = ResolutionStep(step_id="aggregate", type="aggregation")
COMPUTE = ResolutionStep(step_id="chain_check", type="deterministic_computation")
RATE = ResolutionStep(step_id="panel", type="hitl_rubric")
HASH = "ab" * 32


def test_every_step_gets_its_result_in_committed_order() -> None:
    later = ResolutionStep(step_id="aggregate_again", type="aggregation")
    programme = ResolutionStateMachine([INVOKE, AGGREGATE, later])
    results = programme.settle(recorded=7, results_hash=HASH)
    assert results == (
        StepResult(step_id="invoke", type="construct_invocation", result={"episodes_recorded": 7}),
        StepResult(step_id="aggregate", type="aggregation", result={"results_hash": HASH}),
        StepResult(step_id="aggregate_again", type="aggregation", result={"results_hash": HASH}),
    )
    assert resolution_document(results) == {
        "status": "completed",
        "steps": [
            {
                "step_id": "invoke",
                "type": "construct_invocation",
                "status": "completed",
                "result": {"episodes_recorded": 7},
            },
            {
                "step_id": "aggregate",
                "type": "aggregation",
                "status": "completed",
                "result": {"results_hash": HASH},
            },
            {
                "step_id": "aggregate_again",
                "type": "aggregation",
                "status": "completed",
                "result": {"results_hash": HASH},
            },
        ],
    }


def test_a_programme_of_one_call_is_enough() -> None:
    programme = ResolutionStateMachine([INVOKE])
    assert programme.invocations == (INVOKE,)
    assert programme.settle(recorded=0, results_hash=HASH) == (
        StepResult(step_id="invoke", type="construct_invocation", result={"episodes_recorded": 0}),
    )


def test_steps_for_each_episode_are_the_invocations_alone() -> None:
    assert frozenset({"construct_invocation"}) == EPISODE_STEPS
    assert ResolutionStateMachine([AGGREGATE, INVOKE]).invocations == (INVOKE,)


def test_steps_that_cannot_be_executed_are_refused_all_by_name() -> None:
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([INVOKE, COMPUTE, RATE, AGGREGATE])
    assert str(caught.value) == (
        "expected steps of type aggregation, construct_invocation; this version cannot execute: "
        "chain_check (deterministic_computation), panel (hitl_rubric)"
    )
    assert caught.value.code == "programme-refused"


@pytest.mark.parametrize("calls", [0, 2, 3])
def test_a_programme_without_exactly_one_call_is_refused(calls: int) -> None:
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([INVOKE] * calls + [AGGREGATE])
    assert str(caught.value) == (
        f"expected exactly one construct_invocation step (chains come later), got {calls}"
    )
