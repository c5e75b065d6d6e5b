"""The programme as a state machine: what is next, what a failure leads to, and that it ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import ProgrammeError
from theatre.engine.resolution import (
    EPISODE_STEPS,
    EXECUTABLE,
    FAIL,
    Completed,
    Failed,
    ProgrammeStatus,
    ResolutionStateMachine,
    StepOutcome,
    StepResult,
    StepStatus,
    resolution_document,
)
from theatre.engine.templates import ResolutionStep

RECORDED: JsonObject = {"episodes_recorded": 7, "episodes_discarded": 1}
HASHED: JsonObject = {"results_hash": "ab" * 32}
BROKEN = Failed("computation-raised", "ValueError")


def step(step_id: str, kind: str, escalation_path: str | None = None) -> ResolutionStep:
    return ResolutionStep.model_validate(
        {"step_id": step_id, "type": kind, "escalation_path": escalation_path}
    )


INVOKE = step("invoke", "construct_invocation")
COMPUTE = step("compute", "deterministic_computation")
RATE = step("rate", "hitl_rubric")
AGGREGATE = step("aggregate", "aggregation")


def current(machine: ResolutionStateMachine) -> str | None:
    return None if machine.current is None else machine.current.step_id


def ended(machine: ResolutionStateMachine) -> list[tuple[str, str]]:
    return [(result.step_id, result.status.value) for result in machine.results]


def test_steps_come_one_by_one_in_committed_order_with_their_results() -> None:
    machine = ResolutionStateMachine([INVOKE, AGGREGATE])
    assert (machine.status, current(machine)) == (ProgrammeStatus.RUNNING, "invoke")
    machine = machine.advance("invoke", Completed(RECORDED))
    assert (machine.status, current(machine)) == (ProgrammeStatus.RUNNING, "aggregate")
    machine = machine.advance("aggregate", Completed(HASHED))
    assert (machine.status, current(machine)) == (ProgrammeStatus.COMPLETED, None)
    assert machine.results[1] == StepResult(
        step_id="aggregate", type="aggregation", status=StepStatus.COMPLETED, result=HASHED
    )
    assert resolution_document(machine.results) == {
        "status": "completed",
        "steps": [
            {
                "step_id": "invoke",
                "type": "construct_invocation",
                "status": "completed",
                "result": RECORDED,
            },
            {
                "step_id": "aggregate",
                "type": "aggregation",
                "status": "completed",
                "result": HASHED,
            },
        ],
    }


def test_a_rubric_is_where_the_programme_waits_for_people() -> None:
    machine = ResolutionStateMachine([INVOKE, RATE]).advance("invoke", Completed({}))
    assert (machine.status, current(machine)) == (ProgrammeStatus.PENDING_HITL, "rate")
    assert machine.advance("rate", Completed({})).status is ProgrammeStatus.COMPLETED


def test_advancing_changes_nothing_in_place() -> None:
    machine = ResolutionStateMachine([INVOKE, AGGREGATE])
    machine.advance("invoke", Completed({}))
    assert (machine.results, current(machine)) == ((), "invoke")


@pytest.mark.parametrize("path", [None, FAIL])
def test_a_failure_that_leads_nowhere_ends_the_programme(path: str | None) -> None:
    machine = ResolutionStateMachine(
        [INVOKE, step("compute", "deterministic_computation", path), AGGREGATE]
    ).advance("invoke", Completed({}))
    failed = machine.advance("compute", BROKEN)
    assert (failed.status, failed.failure, current(failed)) == (
        ProgrammeStatus.FAILED,
        BROKEN,
        None,
    )
    assert ended(failed) == [("invoke", "completed"), ("compute", "failed")]
    assert failed.results[1].result == {
        "reason": "computation-raised",
        "error_detail": "ValueError",
        "escalated_to": None,
    }


def test_a_failure_leads_to_its_escalation_and_what_stands_between_is_skipped() -> None:
    machine = ResolutionStateMachine(
        [
            INVOKE,
            step("compute", "deterministic_computation", "aggregate"),
            RATE,
            step("ask", "construct_invocation"),
            step("rate_again", "hitl_rubric"),
            AGGREGATE,
        ]
    ).advance("invoke", Completed({}))
    machine = machine.advance("compute", BROKEN)
    # What ran in ACTIVE cannot be skipped any more.
    assert (current(machine), machine.status) == ("ask", ProgrammeStatus.RUNNING)
    machine = machine.advance("ask", Completed({})).advance("aggregate", Completed({}))
    assert machine.status is ProgrammeStatus.COMPLETED
    assert ended(machine) == [
        ("invoke", "completed"),
        ("compute", "failed"),
        ("rate", "skipped"),
        ("ask", "completed"),
        ("rate_again", "skipped"),
        ("aggregate", "completed"),
    ]
    assert machine.results[1].result["escalated_to"] == "aggregate"
    assert machine.results[2].result == {}


def test_an_escalation_to_the_next_step_skips_nothing() -> None:
    machine = ResolutionStateMachine(
        [INVOKE, step("compute", "deterministic_computation", "rate"), RATE]
    ).advance("invoke", Completed({}))
    machine = machine.advance("compute", BROKEN)
    assert (current(machine), ended(machine)[-1]) == ("rate", ("compute", "failed"))


@pytest.mark.parametrize("step_id", ["aggregate", "elsewhere"])
def test_no_step_is_settled_before_its_turn(step_id: str) -> None:
    machine = ResolutionStateMachine([INVOKE, AGGREGATE])
    with pytest.raises(ProgrammeError) as caught:
        machine.advance(step_id, Completed({}))
    assert str(caught.value) == f"expected step invoke, got step {step_id}"


def test_nothing_is_settled_behind_the_end() -> None:
    machine = ResolutionStateMachine([INVOKE]).advance("invoke", Completed({}))
    with pytest.raises(ProgrammeError, match="expected the end of the programme, got step invoke"):
        machine.advance("invoke", Completed({}))


def test_steps_for_each_episode_are_the_invocations_alone() -> None:
    assert frozenset({"construct_invocation"}) == EPISODE_STEPS


def test_steps_that_cannot_be_executed_are_refused_all_by_name() -> None:
    dance = ResolutionStep.model_construct(step_id="dance", type="dance")  # type: ignore[arg-type]  # what a later version may have
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([INVOKE, dance, AGGREGATE])
    assert str(caught.value) == (
        "expected steps of type aggregation, construct_invocation, deterministic_computation, "
        "hitl_rubric; this version cannot execute: dance (dance)"
    )
    assert caught.value.code == "programme-refused"


def test_a_programme_without_a_call_is_refused() -> None:
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([AGGREGATE, COMPUTE])
    assert str(caught.value) == "expected a construct_invocation step, got none"


@pytest.mark.parametrize("path", ["invoke", "compute", "nowhere", ""])
def test_an_escalation_that_does_not_lead_forward_is_refused(path: str) -> None:
    with pytest.raises(ProgrammeError) as caught:
        ResolutionStateMachine([INVOKE, step("compute", "deterministic_computation", path)])
    assert str(caught.value) == (
        f"expected the escalation_path of step compute to be a later step or {FAIL}, got {path}"
    )


PATHS = st.sampled_from([*(f"step_{n}" for n in range(12)), FAIL, None, "nowhere"])


@st.composite
def programmes(draw: st.DrawFn, *, forward: bool) -> list[ResolutionStep]:
    """Draw up to twelve steps of all types; `forward` escalations, or any at all."""
    count = draw(st.integers(min_value=1, max_value=12))
    steps = []
    for n in range(count):
        later = st.sampled_from([*(f"step_{k}" for k in range(n + 1, count)), FAIL, None])
        kind = draw(st.sampled_from(sorted(EXECUTABLE))) if n else "construct_invocation"
        steps.append(step(f"step_{n}", kind, draw(later if forward else PATHS)))
    return steps


OUTCOMES = st.lists(
    st.sampled_from([Completed({}), BROKEN, Failed("hitl-timeout", "nobody came")]),
    min_size=12,
    max_size=12,
)


@settings(deadline=None, max_examples=drawn(500))
@given(programmes(forward=True), OUTCOMES)
def test_whatever_fails_a_programme_ends_and_settles_no_step_twice(
    steps: list[ResolutionStep], outcomes: list[StepOutcome]
) -> None:
    machine, carried_out = ResolutionStateMachine(steps), []
    for outcome in outcomes:
        if machine.current is None:
            break
        carried_out.append(machine.current.step_id)
        machine = machine.advance(machine.current.step_id, outcome)
    assert machine.current is None
    assert machine.status in {ProgrammeStatus.COMPLETED, ProgrammeStatus.FAILED}
    settled = [result.step_id for result in machine.results]
    assert settled == [one.step_id for one in steps][: len(settled)]
    assert (len(settled) == len(steps)) or machine.failure is not None
    by_status = {result.step_id: result.status for result in machine.results}
    assert carried_out == [s for s in settled if by_status[s] is not StepStatus.SKIPPED]
    assert not any(
        result.status is StepStatus.SKIPPED and result.type in EPISODE_STEPS
        for result in machine.results
    )
    assert expected_statuses(steps, outcomes) == [result.status for result in machine.results]


def expected_statuses(steps: list[ResolutionStep], outcomes: list[StepOutcome]) -> list[StepStatus]:
    """Walk through the programme by hand."""
    statuses, left, wanted = [], iter(outcomes), None
    for one in steps:
        if one.step_id == wanted:
            wanted = None
        if wanted is not None and one.type not in EPISODE_STEPS:
            statuses.append(StepStatus.SKIPPED)
            continue
        if isinstance(next(left), Completed):
            statuses.append(StepStatus.COMPLETED)
            continue
        statuses.append(StepStatus.FAILED)
        if one.escalation_path in {None, FAIL}:
            break
        wanted = one.escalation_path
    return statuses


@settings(deadline=None, max_examples=drawn(500))
@given(programmes(forward=False))
def test_a_programme_that_could_go_back_cannot_be_made(steps: list[ResolutionStep]) -> None:
    ids = [one.step_id for one in steps]
    backward = any(
        one.escalation_path not in {None, FAIL} and one.escalation_path not in ids[at + 1 :]
        for at, one in enumerate(steps)
    )
    if backward:
        with pytest.raises(ProgrammeError, match="a later step or FAIL"):
            ResolutionStateMachine(steps)
    else:
        assert ResolutionStateMachine(steps).status is ProgrammeStatus.RUNNING
