"""The programme: what can be executed is, what cannot is refused before the first call."""

from __future__ import annotations

import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ProgrammeError
from theatre.engine.resolution import (
    EPISODE_STEPS,
    ResolutionStateMachine,
    StepResult,
    resolution_document,
)
from theatre.engine.templates import ResolutionStep

INVOKE = ResolutionStep(step_id="invoke", type="construct_invocation", construct_id="pilot")
ASK_ANOTHER = ResolutionStep(step_id="ask", type="construct_invocation", construct_id="other")
AGGREGATE = ResolutionStep(step_id="aggregate", type="aggregation")
COMPUTE = ResolutionStep(step_id="chain_check", type="deterministic_computation")
RATE = ResolutionStep(step_id="panel", type="hitl_rubric")

RECORDED: JsonObject = {"episodes_recorded": 7, "episodes_discarded": 1}
HASHED: JsonObject = {"results_hash": "ab" * 32}
COMPUTED: JsonObject = {"computation": "sum@1", "over": "episodes", "output": {"sum": 3}}
OUTCOMES = {"invoke": RECORDED, "ask": RECORDED, "aggregate": HASHED, "chain_check": COMPUTED}


def test_every_step_gets_its_result_in_committed_order() -> None:
    programme = ResolutionStateMachine([INVOKE, COMPUTE, ASK_ANOTHER, AGGREGATE])
    results = programme.settle(OUTCOMES)
    assert results == (
        StepResult(step_id="invoke", type="construct_invocation", result=RECORDED),
        StepResult(step_id="chain_check", type="deterministic_computation", result=COMPUTED),
        StepResult(step_id="ask", type="construct_invocation", result=RECORDED),
        StepResult(step_id="aggregate", type="aggregation", result=HASHED),
    )
    assert resolution_document(results[:2]) == {
        "status": "completed",
        "steps": [
            {
                "step_id": "invoke",
                "type": "construct_invocation",
                "status": "completed",
                "result": RECORDED,
            },
            {
                "step_id": "chain_check",
                "type": "deterministic_computation",
                "status": "completed",
                "result": COMPUTED,
            },
        ],
    }


def test_a_programme_of_one_call_is_enough() -> None:
    assert ResolutionStateMachine([INVOKE]).settle(OUTCOMES) == (
        StepResult(step_id="invoke", type="construct_invocation", result=RECORDED),
    )


def test_steps_for_each_episode_are_the_invocations_alone() -> None:
    assert frozenset({"construct_invocation"}) == EPISODE_STEPS


def test_steps_that_cannot_be_executed_are_refused_all_by_name() -> None:
    later = ResolutionStep(step_id="jury", type="hitl_rubric")
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([INVOKE, RATE, AGGREGATE, later])
    assert str(caught.value) == (
        "expected steps of type aggregation, construct_invocation, deterministic_computation; "
        "this version cannot execute: panel (hitl_rubric), jury (hitl_rubric)"
    )
    assert caught.value.code == "programme-refused"


def test_a_programme_without_a_call_is_refused() -> None:
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([AGGREGATE, COMPUTE])
    assert str(caught.value) == "expected a construct_invocation step, got none"
