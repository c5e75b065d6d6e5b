"""The independent check of steps that fail, are skipped, or ask people: every sort of run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.forged_bundle import (
    Effort,
    Files,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
    with_document,
)
from tests.theatre.rated_runs import (
    AGGREGATE,
    details,
    later,
    rate,
    rated_stage,
    rating,
    rubric_step,
)
from tests.theatre.runs import (
    ERROR,
    REFUSED,
    WRONG,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    call_step,
    episodes,
    pilot_stage,
)
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Computation, ScorerKind

Compute = Callable[[Iterable[bytes], JsonObject], Any]


def finished(stage: Stage, *people: str, score: float = 4) -> Path:
    """Run a theatre to its end; everybody scores every item of each rating that is opened."""
    while True:
        run = stage.run(ScriptedAdapter(answer_as_asked))
        if run.theatre.state != "SETTLING":
            assert run.bundle.is_dir(), run.resolution
            return run.bundle
        opened = details(run.trail, "hitl_opened")[-1]
        items = cast("list[str]", opened["items"])
        for number, scorer in enumerate(people):
            scores = {item: score - (n + number) % 3 for n, item in enumerate(items)}
            rate(stage, scorer, cast("dict[str, JsonValue]", scores))


def two_panels(folder: Path) -> Path:
    """One of them has the whole share of a criterion."""
    stage = rated_stage(
        folder,
        episodes(7, {2: WRONG, 3: ERROR, 5: REFUSED}),
        steps=[rubric_step(), rubric_step("memory"), AGGREGATE],
        ratings=[rating(), rating("memory", criterion_id="recall", share=1, items=2)],
    )
    return finished(stage, "Grace", "Edsger")


def clusters(folder: Path) -> Path:
    """Some answers belong together, others to nobody."""
    records = episodes(12, {2: WRONG, 5: WRONG})
    for number, record in enumerate(records):
        if number % 4:
            record["cluster_key"] = f"cluster {number % 4}"
    stage = rated_stage(folder, records, ratings=[rating(items=9, share=0.3)])
    return finished(stage, "Grace", "Edsger", "Niklaus")


def no_share(folder: Path) -> Path:
    """The rating is published beside the score."""
    entry = {name: value for name, value in rating(items=20).items() if name != "share"}
    stage = rated_stage(folder, episodes(14, {4: WRONG}), ratings=[entry])
    return finished(stage, "Grace", "Edsger")


def one_person(folder: Path) -> Path:
    """Whoever wrote the template, and nobody else."""
    alone: JsonObject = {"scorer_must_not_be_author": False}
    scale: JsonObject = {"min": -0.5, "max": 7.25}
    entry = rating(identity_separation=alone, scoring_scale=scale, share=0.1)
    return finished(rated_stage(folder, episodes(5), ratings=[entry]), "Ada Author")


def no_aggregation(folder: Path) -> Path:
    """The aggregate is made at the end."""
    return finished(rated_stage(folder, episodes(5), steps=[rubric_step()]), "Grace", "Edsger")


def ended_early(folder: Path) -> Path:
    """The run ends at its threshold: people rate what was scored before."""
    stage = rated_stage(folder, episodes(10, {4: ERROR, 5: ERROR, 6: ERROR}))
    return finished(stage, "Grace", "Edsger")


LIMITED = rubric_step(timeout_seconds=60, escalation_path="aggregate")


def expired(folder: Path) -> Path:
    """One of two people answered in time: the criterion has no score, and a cap."""
    stage = rated_stage(folder, episodes(6), steps=[LIMITED, AGGREGATE])
    items = details(stage.run(ScriptedAdapter()).trail, "hitl_opened")[0]["items"]
    rate(stage, "Grace", dict.fromkeys(cast("list[str]", items), 3))
    later(stage, 100)
    return finished(stage)


HONEST = [two_panels, clusters, no_share, one_person, no_aggregation, ended_early, expired]


@pytest.mark.parametrize("honest", HONEST)
def test_an_honest_bundle_passes(tmp_path: Path, honest: Callable[[Path], Path]) -> None:
    report = check(honest(tmp_path))
    assert [(line.id, line.expected, line.actual) for line in report.failed] == []
    assert report.consistent


def test_a_cap_for_a_human_part_that_is_missing_cannot_be_left_out(tmp_path: Path) -> None:
    files = load(expired(tmp_path / "run"))
    cap = "human-part-missing:colour"
    tier = cast("dict[str, Any]", document(files, "tier.json"))
    certificate = cast("dict[str, Any]", document(files, "certificate.json"))
    assert tier["facts"]["extra_caps"][-1] == cap
    tier["facts"]["extra_caps"].remove(cap)
    unmet = tier["assessment"]["caps"]
    tier["assessment"]["caps"] = [one for one in unmet if one != cap]
    certificate["caps"] = tier["assessment"]["caps"]
    forged = with_document(with_document(files, "tier.json", tier), "certificate.json", certificate)
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    assert failed_ids(report) == {"tier"}


def test_without_the_scorers_it_is_not_known_who_was_to_be_asked(tmp_path: Path) -> None:
    report = check(two_panels(tmp_path), scorers={})
    assert report.failed == ()
    assert [line.id for line in report.unavailable] == [
        *("scorers", "scores", "human-scores", "aggregate", "data-audit", "baselines")
    ]


# Computations that fail


def step(step_id: str, **members: JsonValue) -> JsonObject:
    spec: JsonObject = {"input_spec": {"computation": "one"}}
    return {"step_id": step_id, "type": "deterministic_computation", **spec, **members}


def raising(_: Iterable[bytes], __: JsonObject) -> JsonObject:
    raise ZeroDivisionError("by nothing")


def giving(output: object) -> Compute:
    return lambda _, __: output


def counting(lines: Iterable[bytes], _: JsonObject) -> JsonObject:
    return {"lines": len(list(lines))}


def installed(compute: Compute) -> Mapping[str, Computation]:
    return {
        "one": Computation(
            name="one", version="1", kind=ScorerKind.EXACT, params_schema={}, compute=compute
        )
    }


def computed(folder: Path, compute: Compute) -> Files:
    """Return the bundle of a run whose computation leads to the aggregation, if it fails."""
    spec: JsonObject = {"properties": {"lines": {"maximum": 3}}}
    steps: list[JsonValue] = [
        call_step(),
        step("compute", output_spec=spec, escalation_path="aggregate"),
        rubric_step(timeout_seconds=1, escalation_path="aggregate"),
        AGGREGATE,
    ]
    changes: dict[str, JsonValue] = {"/resolution_programme": steps, "/hitl_steps": [rating()]}
    stage = pilot_stage(folder, episodes(4), changes=changes)
    run = stage.run(
        ScriptedAdapter(), around=lambda around: replace(around, computations=installed(compute))
    )
    return load(run.bundle)


def checked_with(files: Files, folder: Path, compute: Compute | None) -> CheckReport:
    return check(store(files, folder), computations={} if compute is None else installed(compute))


FAILING: list[tuple[str, Compute]] = [
    ("computation-raised", raising),
    ("output-not-json", giving([1])),
    ("output-not-json", giving({"lines": float("nan")})),
    ("output-spec", counting),
]


@pytest.mark.parametrize(("reason", "compute"), FAILING)
def test_a_computation_fails_in_the_check_as_it_failed_in_the_run(
    tmp_path: Path, reason: str, compute: Compute
) -> None:
    files = computed(tmp_path, compute)
    steps = cast("list[dict[str, Any]]", document(files, "resolution.json")["steps"])
    assert (steps[1]["result"]["reason"], steps[2]["status"]) == (reason, "skipped")
    report = checked_with(files, tmp_path / "bundle", compute)
    assert [(line.id, line.expected, line.actual) for line in report.failed] == []
    unknown = checked_with(files, tmp_path / "unknown", None)
    assert unknown.failed == ()
    assert [line.id for line in unknown.unavailable] == ["resolution"]


def other_error(_: Iterable[bytes], __: JsonObject) -> JsonObject:
    raise KeyError


@pytest.mark.parametrize("compute", [other_error, giving({"lines": 4}), giving(None)])
def test_a_computation_that_fails_otherwise_in_the_check_is_named(
    tmp_path: Path, compute: Compute
) -> None:
    files = computed(tmp_path, raising)
    report = checked_with(files, tmp_path / "bundle", compute)
    assert failed_ids(report) == {"resolution"}


def test_a_computation_that_fails_only_in_the_run_is_named_with_the_cap_for_it(
    tmp_path: Path,
) -> None:
    files = computed(tmp_path, raising)
    report = checked_with(files, tmp_path / "bundle", giving({}))
    assert failed_ids(report) == {"resolution", "tier", "certificate-fields"}
