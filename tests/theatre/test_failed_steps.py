"""A step that fails: to its escalation, or to the end of the theatre, and always in the chain."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.forged_bundle import (
    Effort,
    check,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.rated_runs import (
    AGGREGATE,
    details,
    events,
    later,
    rate,
    rated_stage,
    rating,
    rubric_step,
    trail_of,
)
from tests.theatre.runs import (
    PILOT_FINDINGS,
    Finished,
    RunOptions,
    ScriptedAdapter,
    Stage,
    call_step,
    episodes,
    pilot_stage,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import DatasetMismatchError, JournalError, ProgrammeError
from theatre.engine.models import Computation, ScorerKind
from theatre.engine.scoring import Aggregator
from theatre.files.run_journal import FileRunJournal

Compute = Callable[[Iterable[bytes], JsonObject], JsonObject]


def count_lines(lines: Iterable[bytes], _: JsonObject) -> JsonObject:
    return {"lines": len(list(lines))}


def raise_error(_: Iterable[bytes], __: JsonObject) -> JsonObject:
    raise ZeroDivisionError(f"at {object()}")


def returning(output: Any) -> Compute:  # noqa: ANN401  # what a plug-in gives may be anything
    return lambda _, __: output


def step(step_id: str = "compute", **members: JsonValue) -> JsonObject:
    named: JsonObject = {"computation": "one"}
    return {"step_id": step_id, "type": "deterministic_computation", "input_spec": named, **members}


def staged(folder: Path, *steps: JsonObject) -> Stage:
    programme: list[JsonValue] = [call_step(), *steps]
    return pilot_stage(folder, episodes(4), changes={"/resolution_programme": programme})


def installed(compute: Compute) -> dict[str, Computation]:
    return {
        name: Computation(
            name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, compute=compute
        )
        for name in ("one", "provenance_chain")
    }


def computing(compute: Compute) -> RunOptions:
    return {"around": lambda around: replace(around, computations=installed(compute))}


def bundles(stage: Stage) -> list[str]:
    return [path.name for path in stage.folder.iterdir() if "bundle" in path.name]


NOT_JSON = "output-not-json"
SPEC: JsonObject = {"required": ["lines"], "properties": {"lines": {"maximum": 3}}}


@pytest.mark.parametrize(
    ("compute", "reason", "detail"),
    [
        (raise_error, "computation-raised", "ZeroDivisionError"),
        (returning([1]), NOT_JSON, "expected an object, got array"),
        (returning(None), NOT_JSON, "expected an object, got null"),
        (returning({"lines": float("nan")}), NOT_JSON, "nan"),
        (returning({"lines": {1, 2}}), NOT_JSON, "set"),
        (
            returning({}),
            "output-spec",
            "expected output to fit output_spec, got at /: expected member lines",
        ),
        (
            count_lines,
            "output-spec",
            "expected output to fit output_spec, got at /lines: expected a number ≤ 3, got 4",
        ),
    ],
)
def test_a_computation_that_fails_ends_the_theatre_without_a_certificate(
    tmp_path: Path, compute: Compute, reason: str, detail: str
) -> None:
    stage = staged(tmp_path, step(output_spec=SPEC), AGGREGATE)
    finished = stage.run(ScriptedAdapter(), **computing(compute))
    (failed,) = details(finished.trail, "step_failed")
    result = cast("dict[str, str | None]", failed["result"])
    assert detail in str(result["error_detail"])
    assert failed == {
        "step_id": "compute",
        "type": "deterministic_computation",
        "status": "failed",
        "result": {"reason": reason, "error_detail": result["error_detail"], "escalated_to": None},
    }
    assert finished.resolution == {
        "outcome": "failed",
        "outcome_reason": "step-failed:compute",
        "error_detail": f"step compute: {reason}: {result['error_detail']}",
        "statuses": {"success": 4, "timeout": 0, "error": 0, "refused": 0},
        "reasons": [],
    }
    assert events(finished.trail) == ["settling", "step_failed", "resolved"]
    assert bundles(stage) == []


def test_an_output_that_fits_its_spec_completes_the_step(tmp_path: Path) -> None:
    stage = staged(tmp_path, step(output_spec={"required": ["lines"]}), AGGREGATE)
    finished = stage.run(ScriptedAdapter(), **computing(count_lines))
    assert finished.steps()[1]["result"] == {
        "computation": "one@1",
        "over": "episodes",
        "output": {"lines": 4},
    }


def test_a_failure_leads_to_a_later_step_and_what_is_between_is_skipped(tmp_path: Path) -> None:
    stage = staged(
        tmp_path, step(escalation_path="aggregate"), step("never"), step("nor_this"), AGGREGATE
    )
    finished = stage.run(ScriptedAdapter(), **computing(raise_error))
    assert finished.resolution["outcome"] == "certified"
    resolution = finished.document("resolution.json")
    assert resolution["status"] == "completed"
    assert finished.steps()[1:] == [
        {
            "step_id": "compute",
            "type": "deterministic_computation",
            "status": "failed",
            "result": {
                "reason": "computation-raised",
                "error_detail": "ZeroDivisionError",
                "escalated_to": "aggregate",
            },
        },
        *(
            {
                "step_id": name,
                "type": "deterministic_computation",
                "status": "skipped",
                "result": {},
            }
            for name in ("never", "nor_this")
        ),
        {
            "step_id": "aggregate",
            "type": "aggregation",
            "status": "completed",
            "result": {"results_hash": finished.resolution["results_hash"]},
        },
    ]
    assert events(finished.trail) == [
        *("settling", "step_failed", "escalated", "step_skipped", "step_skipped"),
        *("step_completed", "sealed", "resolved"),
    ]
    assert details(finished.trail, "escalated") == [{"step_id": "compute", "to": "aggregate"}]
    told = details(finished.trail, "step_failed") + details(finished.trail, "step_skipped")
    assert [*told, *details(finished.trail, "step_completed")] == finished.steps()[1:]


TIED: JsonObject = {"output_spec": SPEC, "escalation_path": "aggregate"}
CHAIN: JsonObject = {"input_spec": {"computation": "provenance_chain"}}


@pytest.mark.parametrize(
    ("steps", "compute", "caps", "findings"),
    [
        ([step(escalation_path="aggregate")], raise_error, [], ["step-failed:compute"]),
        ([step("compute", **TIED)], raise_error, ["step-failed:compute"], []),
        ([step("compute", **TIED)], count_lines, ["step-failed:compute"], []),
        ([step("compute", **TIED)], returning({"lines": 3}), [], []),
        (
            [step("compute", **CHAIN, escalation_path="aggregate")],
            raise_error,
            ["step-failed:compute"],
            [],
        ),
        ([step("compute", **CHAIN)], returning({"intact": True}), [], []),
        ([step("compute", **CHAIN)], returning({"intact": False}), ["step-failed:compute"], []),
        ([step("compute", **CHAIN)], returning({"intact": 1}), ["step-failed:compute"], []),
        ([step("compute", **CHAIN)], returning({}), ["step-failed:compute"], []),
        ([step("compute")], returning({"intact": False}), [], []),
        (
            [
                step("first", escalation_path="aggregate"),
                step("compute", **TIED),
                step("log", **CHAIN),
            ],
            raise_error,
            ["step-skipped:compute", "step-skipped:log"],
            ["step-failed:first"],
        ),
        (
            [step("b", escalation_path="a"), step("a", escalation_path="aggregate")],
            raise_error,
            [],
            ["step-failed:a", "step-failed:b"],
        ),
    ],
    ids=[
        *("a finding", "raised", "misfit", "fits", "provenance", "intact", "broken"),
        *("intact in no word", "no word of it", "no chain", "skipped", "two findings"),
    ],
)
def test_a_certificate_says_which_steps_failed_and_the_tier_is_capped_by_those_of_integrity(
    tmp_path: Path, steps: list[JsonObject], compute: Compute, caps: list[str], findings: list[str]
) -> None:
    finished = staged(tmp_path, *steps, AGGREGATE).run(ScriptedAdapter(), **computing(compute))
    certificate = finished.document("certificate.json")
    found = [code for code in cast("list[str]", certificate["caps"]) if code.startswith("step-")]
    assert (found, certificate["findings"]) == (caps, sorted([*PILOT_FINDINGS, *findings]))
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert facts["extra_caps"] == caps
    report = check(finished.bundle, computations=installed(compute))
    assert report.failed == ()


@pytest.mark.parametrize(
    ("members", "path", "place", "caught_by"),
    [
        (TIED, "tier.json", "extra_caps", {"tier"}),
        ({"escalation_path": "aggregate"}, "certificate.json", "findings", {"certificate-fields"}),
    ],
)
def test_a_failed_step_that_the_issuer_leaves_out_is_named(
    tmp_path: Path, members: JsonObject, path: str, place: str, caught_by: set[str]
) -> None:
    stage = staged(tmp_path / "stage", step("compute", **members), AGGREGATE)
    finished = stage.run(ScriptedAdapter(), **computing(raise_error))
    files = load(finished.bundle)
    document: Any = parse_object(files[path])
    holder = document["facts"] if path == "tier.json" else document
    assert "step-failed:compute" in holder[place]
    holder[place].remove("step-failed:compute")
    forged = resealed(with_document(files, path, document), Effort.CERTIFIED_HASH)
    report = check(store(forged, tmp_path / "forged"), computations=installed(raise_error))
    assert failed_ids(report) == caught_by


def test_without_an_aggregation_in_reach_the_scores_are_summed_up_all_the_same(
    tmp_path: Path,
) -> None:
    stage = staged(tmp_path, step(escalation_path="last"), AGGREGATE, step("last"))
    # The check computes both once more.
    turns = iter([raise_error, count_lines] * 2)

    def by_turns(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
        return next(turns)(lines, params)

    finished = stage.run(ScriptedAdapter(), **computing(by_turns))
    assert [one["status"] for one in finished.steps()] == [
        *("completed", "failed", "skipped", "completed")
    ]
    assert finished.document("scores/aggregate.json")["scores"] == {"colour": 1, "recall": 1}


class PowerCut(BaseException):
    """The process is about to be gone."""


class CutJournal(FileRunJournal):
    """The journal of a process that dies behind its n-th entry from `settling` on."""

    left = 0

    async def note(self, event: AuditEvent) -> JsonObject:
        entry = await super().note(event)
        self.left -= self.state == "SETTLING"
        if not self.left:
            raise PowerCut
        return entry


@pytest.mark.parametrize("cut", range(1, 8))
def test_what_was_told_of_a_failure_stays_true_whatever_comes_of_it_later(
    tmp_path: Path, cut: int
) -> None:
    """Killed behind each entry; from the second run on the computation would succeed.

    It is not asked again, and what it said stays in the chain. Whoever asks it again is the check:
    what it cannot make again is not published.
    """
    stage = staged(tmp_path, step(escalation_path="aggregate"), step("between"), AGGREGATE)
    journal = CutJournal(stage.folder, stage.theatre_id)
    journal.left = cut
    options = computing(raise_error)
    options["journal"] = lambda _: journal
    try:
        stage.run(ScriptedAdapter(), **options)
    except PowerCut:
        pass
    else:
        assert cut > len(["settling", "failed", "escalated", "skipped", "completed", "sealed"])
        return
    compute = raise_error if cut == 1 else count_lines
    finished = stage.run(ScriptedAdapter(), **computing(compute))
    ending = {1: ["sealed"], 6: ["sealed", "self-check-failed"]}.get(cut, ["self-check-failed"])
    assert events(finished.trail) == [
        *("settling", "step_failed", "escalated", "step_skipped"),
        *("step_completed", *ending, "resolved"),
    ]


def test_a_step_that_comes_to_something_else_than_the_chain_says_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(tmp_path, AGGREGATE)
    journal = CutJournal(stage.folder, stage.theatre_id)
    journal.left = 2
    with pytest.raises(PowerCut):
        stage.run(ScriptedAdapter(), journal=lambda _: journal)
    # Another release of the engine, say, that adds up otherwise.
    finish = Aggregator.finish
    monkeypatch.setattr(
        Aggregator, "finish", lambda *given: {**finish(*given), "results_hash": "another"}
    )
    with pytest.raises(JournalError, match="expected step_completed of step aggregate as it was"):
        stage.run(ScriptedAdapter())
    assert (stage.state, bundles(stage)) == ("SETTLING", [])


def test_data_that_change_under_a_computation_are_no_failure_of_the_step(tmp_path: Path) -> None:
    stage = staged(tmp_path, step(), AGGREGATE)

    def meddle(_: Iterable[bytes], __: JsonObject) -> JsonObject:
        raise DatasetMismatchError("somebody wrote into the file during the run")

    finished = stage.run(ScriptedAdapter(), **computing(meddle))
    assert finished.resolution["outcome_reason"] == "dataset-mismatch"
    assert details(finished.trail, "step_failed") == []


def test_an_output_spec_that_is_no_schema_is_refused_before_the_first_call(tmp_path: Path) -> None:
    stage = staged(tmp_path, step(output_spec={"type": "lines"}), AGGREGATE)
    with pytest.raises(ProgrammeError, match="output_spec of step compute, at /type"):
        stage.run(ScriptedAdapter(), **computing(count_lines))


def run(stage: Stage) -> Finished:
    return stage.run(ScriptedAdapter())


def expired(folder: Path, *steps: JsonObject, ratings: list[JsonObject] | None = None) -> Stage:
    """Return a theatre of which one of two people answered in an hour, and then nobody."""
    stage = rated_stage(folder, episodes(6), steps=steps, ratings=ratings or [rating()])
    items = details(run(stage).trail, "hitl_opened")[0]["items"]
    rate(stage, "Grace", dict.fromkeys(cast("list[str]", items), 3))
    later(stage, 3500)
    assert run(stage).theatre.state == "SETTLING"
    later(stage, 100)
    return stage


TIMELY = rubric_step(timeout_seconds=3600)
TOO_LATE = "expected 2 people with a score for each of 3 items within 3600 s, got 1"


def test_a_rubric_that_expires_ends_the_theatre(tmp_path: Path) -> None:
    stage = expired(tmp_path, TIMELY, AGGREGATE)
    finished = run(stage)
    assert finished.resolution == {
        "outcome": "failed",
        "outcome_reason": "hitl-timeout",
        "error_detail": f"step taste: hitl-timeout: {TOO_LATE}",
        "statuses": {"success": 6, "timeout": 0, "error": 0, "refused": 0},
        "reasons": [],
    }
    assert events(finished.trail) == [
        *("settling", "hitl_opened", "human_score", "human_score", "human_score"),
        *("step_failed", "resolved"),
    ]
    assert bundles(stage) == []


def test_where_a_rubric_that_expires_leads_on_its_criterion_has_no_score(tmp_path: Path) -> None:
    stage = expired(tmp_path, {**TIMELY, "escalation_path": "aggregate"}, AGGREGATE)
    finished = run(stage)
    aggregate = finished.document("scores/aggregate.json")
    assert aggregate["scores"] == {"colour": None, "recall": 1}
    assert aggregate["composite_score"] is None
    human = cast("dict[str, JsonObject]", aggregate["human_scores"])["taste"]
    agreement = cast("JsonObject", human.pop("agreement"))
    assert (agreement["value"], agreement["reason"]) == (None, "not-rated")
    assert human == {
        "criterion_id": "colour",
        "share": 0.5,
        "machine": 1,
        "human": None,
        "items": 3,
        "scorers": 0,
    }
    intervals = cast("dict[str, JsonObject]", aggregate["score_intervals"])
    methods = {name: one["method"] for name, one in intervals.items()}
    assert methods == {"colour": "undefined", "recall": "wilson", "composite_score": "undefined"}
    bounds = cast("JsonObject", aggregate["worst_case_bounds"])
    assert bounds == {"colour": None, "recall": {"low": 1, "high": 1}, "composite_score": None}
    certificate = finished.document("certificate.json")
    assert certificate["scores"] == {"colour": None, "recall": 1}
    assert "human-part-missing:colour" in cast("list[str]", certificate["caps"])
    assert finished.steps()[1]["result"] == {
        "reason": "hitl-timeout",
        "error_detail": TOO_LATE,
        "escalated_to": "aggregate",
    }
    assert len(finished.lines("hitl/taste.jsonl")) == 3


def test_an_expiry_can_lead_to_other_people(tmp_path: Path) -> None:
    other = rating("jury", criterion_id="recall", items=1)
    stage = expired(
        tmp_path,
        {**TIMELY, "escalation_path": "jury"},
        rubric_step("jury"),
        AGGREGATE,
        ratings=[rating(), other],
    )
    opened = details(run(stage).trail, "hitl_opened")
    assert [one["step_id"] for one in opened] == ["taste", "jury"]
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(cast("list[str]", opened[1]["items"]), 3))
    finished = run(stage)
    assert finished.document("scores/aggregate.json")["scores"] == {"colour": None, "recall": 0.75}


def test_a_rubric_that_is_skipped_was_never_opened(tmp_path: Path) -> None:
    programme: list[JsonValue] = [
        call_step(),
        step(escalation_path="aggregate"),
        rubric_step(),
        AGGREGATE,
    ]
    stage = rated_stage(tmp_path, episodes(4), changes={"/resolution_programme": programme})
    finished = stage.run(ScriptedAdapter(), **computing(raise_error))
    assert details(finished.trail, "hitl_opened") == []
    assert not (finished.bundle / "hitl").exists()
    caps = cast("list[str]", finished.document("certificate.json")["caps"])
    assert "human-part-missing:colour" in caps


def test_enough_scores_in_time_count_however_late_the_run_goes_on(tmp_path: Path) -> None:
    stage = rated_stage(tmp_path, episodes(6), steps=[TIMELY, AGGREGATE])
    items = details(run(stage).trail, "hitl_opened")[0]["items"]
    for scorer in ("Grace", "Edsger"):
        rate(stage, scorer, dict.fromkeys(cast("list[str]", items), 3))
    later(stage, 10**6)
    assert run(stage).resolution["outcome"] == "certified"


def test_an_expiry_that_was_told_stays_though_the_clock_is_set_back(tmp_path: Path) -> None:
    stage = expired(tmp_path, TIMELY, AGGREGATE)
    journal = CutJournal(stage.folder, stage.theatre_id)
    journal.left = 1
    with pytest.raises(PowerCut):
        stage.run(ScriptedAdapter(), journal=lambda _: journal)
    assert trail_of(stage)[-1]["event_type"] == "step_failed"
    later(stage, -(10**6))
    assert run(stage).resolution["outcome_reason"] == "hitl-timeout"
