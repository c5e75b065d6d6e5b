"""The hook of inspect_ai, given what inspect_ai's own log says: commit, record, seal.

`tests/benchmarks/peers.py` runs it in inspect_ai itself, which is too heavy to be here.
"""

import asyncio
import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.forged_bundle import check, document, failed_ids, load
from tests.theatre.harness.conftest import LOGS
from theatre.api import inspect_recording
from theatre.api.inspect_hook import VARIABLE
from theatre.api.inspect_recording import TaskRecording, begin_task
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.errors import TheatreError
from theatre.harness.inspect_log import declared
from theatre.oracles.in_process import LiveAnswers

LOG = json.loads((LOGS / "sums-12.json").read_bytes())
SAMPLES = LOG["samples"]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What inspect_ai says of a task that is about to start, and a store for it."""
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "issuer"))
    (tmp_path / "template.yaml").write_text("display_name: 2026-11-27\n")
    (tmp_path / "task.py").write_text("# the task\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "template.yaml"))
    own = {"task_file": str(tmp_path / "task.py"), "scorers": [{"name": "match"}]}
    return {**LOG["eval"], **own}


@pytest.fixture
def task(spec: dict[str, Any]) -> TaskRecording:
    """A task that is committed, and about to be asked."""
    spec["scorers"].append({"name": "inspect_ai/includes"})
    return begin_task(spec, LOG["plan"], SAMPLES)


def right(seq: int) -> dict[str, Any]:
    """Return a sample whose answer was read from its target."""
    content = {"choices": [{"message": {"content": str(seq)}}]}
    asked = {"id": f"sum-{seq}", "epoch": 1, "input": f"{seq} + 0?", "target": str(seq)}
    return asked | {"output": content, "scores": {"match": {"value": "C"}}}


def bundle_of(task: TaskRecording) -> Path:
    view = Workspace.from_environment().store.view(task.run.theatre_id)
    (bundle,) = view.folder.glob("evidence_bundle_*")
    return bundle


def test_what_is_loaded_is_not_looked_through_again_and_what_comes_later_is(
    spec: dict[str, Any],
) -> None:
    inspect_recording.load_engine.cache_clear()
    loaded_before: list[list[int]] = [[] for _ in range(1000)]
    frozen = gc.get_freeze_count()
    begin_task(spec, LOG["plan"], SAMPLES).give_up()
    assert gc.get_freeze_count() >= frozen + len(loaded_before)
    assert gc.isenabled()
    # Once a process: what an earlier task has made is collected.
    frozen = gc.get_freeze_count()
    begin_task({**spec, "eval_id": "another"}, LOG["plan"], SAMPLES).give_up()
    assert gc.get_freeze_count() <= frozen


def test_it_is_committed_before_the_first_sample_and_scores_as_the_harness_did(
    task: TaskRecording,
) -> None:
    view = Workspace.from_environment().store.view(task.run.theatre_id)
    assert view.recorded == 0
    committed: Any = view.template
    declared = committed["metadata"]["declared"]
    assert (declared["model"], declared["task"]) == ("mockllm/model", "sums")
    assert len(declared["task_source_sha256"]) == 64
    # The order in which they end does not matter.
    for sample in reversed(SAMPLES):
        task.end_sample(sample)
    assert task.seal() == f"theatre {task.run.theatre_id}: certified, UNVERIFIED"
    bundle = bundle_of(task)
    certificate: Any = document(load(bundle), "certificate.json")
    reported = {
        one["name"]: round(one["metrics"]["accuracy"]["value"], 9)
        for one in LOG["results"]["scores"]
    }
    scores = certificate["scores"]
    assert {name: scores[name] for name in reported} == reported
    assert {name: scores[f"{name}_reported"] for name in reported} == reported
    assert "harness:inspect_ai@0.3.285" in certificate["findings"]
    assert certificate["version_source"] == "declared"
    assert "construct-not-isolated" in certificate["caps"]
    assert "evidence:imported" not in certificate["caps"]
    assert failed_ids(check(bundle)) == set()


def test_a_model_of_any_name_is_committed(spec: dict[str, Any]) -> None:
    # Theatre ids have no digits, nor an underscore before their version.
    long = f"openai-api/local/{'gemma3-' * 9}270m"
    for model in ("openai/gpt-4o-mini", "hf/meta-llama/Llama-3.1-70B-Instruct", long, "7b"):
        task = begin_task(spec | {"model": model, "eval_id": model}, LOG["plan"], SAMPLES)
        task.end_sample(SAMPLES[0])
        assert task.seal() == f"theatre {task.run.theatre_id}: certified, UNVERIFIED"


def test_another_limit_and_another_server_are_another_version(spec: dict[str, Any]) -> None:
    twins: tuple[dict[str, Any], ...] = (
        {"config": spec["config"] | {"message_limit": 3}},
        {"model_base_url": "http://127.0.0.1:1/v1"},
        {"model_generate_config": {"temperature": 0.9}},
        {"model_roles": {"grader": {"model": "m", "config": {}}}},
        {},
    )
    versions = {canonical_sha256(declared(spec | twin, LOG["plan"])) for twin in twins}
    assert len(versions) == len(twins)


def test_what_may_be_a_key_is_not_committed(spec: dict[str, Any]) -> None:
    parameters = {"extra_headers": {"X-Team": "hush"}, "seed": 1}
    address = "https://user:hush@models.example/v1?key=hush"
    grader = {"model": "m", "config": parameters, "base_url": address, "args": {}}
    own = {"model_generate_config": parameters, "model_base_url": address}
    said = declared(spec | own | {"model_roles": {"grader": grader}}, LOG["plan"])
    shown = {"extra_headers": ["X-Team"], "seed": 1}, "https://models.example/v1"
    assert (said["model_generate_config"], said["model_base_url"]) == shown
    role = said["model_roles"]["grader"]
    assert (role["config"], role["base_url"]) == shown
    assert "hush" not in json.dumps(said)


def test_a_harness_that_answers_from_the_targets_gets_no_tier(spec: dict[str, Any]) -> None:
    samples = [right(seq) for seq in range(1, 61)]
    task = begin_task(spec, LOG["plan"], samples)
    for sample in samples:
        task.end_sample(sample)
    task.seal()
    bundle = load(bundle_of(task))
    certificate: Any = document(bundle, "certificate.json")
    assert (certificate["scores"]["match"], certificate["verification_tier"]) == (1, "UNVERIFIED")
    # Nothing else is missing: a score that is recomputed has no cap of its own.
    assert certificate["caps"] == ["construct-not-isolated"]


def test_a_score_that_only_the_harness_computed_has_a_cap(spec: dict[str, Any]) -> None:
    spec["scorers"] = [{"name": "model_graded_qa"}]
    task = begin_task(spec, LOG["plan"], SAMPLES[:1])
    task.end_sample(SAMPLES[0] | {"scores": {"model_graded_qa": {"value": "P"}}})
    task.seal()
    certificate: Any = document(load(bundle_of(task)), "certificate.json")
    assert certificate["scores"] == {"model_graded_qa_reported": 0.5}
    assert "scores-by-harness:model_graded_qa_reported" in certificate["caps"]


def test_a_dropped_and_a_retried_sample_count_as_failed(task: TaskRecording) -> None:
    task.note_retry("sum-3", 1)
    for sample in SAMPLES:
        if sample["id"] != "sum-2":
            task.end_sample(sample)
    task.seal()
    files = load(bundle_of(task))
    certificate: Any = document(files, "certificate.json")
    assert certificate["episode_counts"]["error"] == 2
    trail = files["audit_trail.jsonl"].decode()
    assert "no-recorded-answer" in trail
    assert "answered at a later attempt than the first" in trail


@pytest.mark.parametrize("edit", ["the task file", "a target", "a second answer"])
def test_what_is_not_as_committed_gets_no_certificate(
    task: TaskRecording, tmp_path: Path, edit: str
) -> None:
    for sample in SAMPLES:
        # Another target makes a wrong answer right.
        edited = edit == "a target" and sample["id"] == "sum-4"
        task.end_sample(sample | {"target": "21"} if edited else sample)
    if edit == "the task file":
        (tmp_path / "task.py").write_text("# another task\n")
    if edit == "a second answer":
        task.end_sample(SAMPLES[0])
    assert ": failed, harness-changed: expected " in task.seal()
    view = Workspace.from_environment().store.view(task.run.theatre_id)
    assert not list(view.folder.glob("evidence_bundle_*"))


def test_a_score_on_another_scale_is_never_left_out_of_a_mean(spec: dict[str, Any]) -> None:
    spec["scorers"].append({"name": "grade"})
    task = begin_task(spec, LOG["plan"], SAMPLES)
    for sample, grade in zip(SAMPLES, [1, 0, 7, "yes", "no"], strict=False):
        scores = {**sample["scores"], "grade": {"value": grade}}
        task.end_sample(sample | {"scores": scores})
    assert "as grade of sample" in task.give_up()
    chosen = {"match": {"scorer": "text_match", "params": {"field": "completion"}}}
    Path(os.environ[VARIABLE]).write_text(json.dumps({"criteria_scorers": chosen}))
    alone = begin_task(spec | {"eval_id": "other"}, LOG["plan"], SAMPLES)
    assert alone.measures == ()
    alone.give_up()


def test_a_task_that_ends_before_its_samples_has_failed(task: TaskRecording) -> None:
    task.end_sample(SAMPLES[0])
    assert task.give_up().endswith(
        ": failed, harness-changed: expected all samples of the task, got its end before"
    )
    assert not list(
        Workspace.from_environment().store.view(task.run.theatre_id).folder.glob("evidence_*")
    )


def test_a_task_without_a_scorer_is_not_committed(spec: dict[str, Any]) -> None:
    with pytest.raises(TheatreError, match="expected a task with a scorer, got none"):
        begin_task(spec | {"scorers": []}, LOG["plan"], SAMPLES)


def test_a_template_of_another_form_names_what_it_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "template.yaml").write_text("tier: PROVEN\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "template.yaml"))
    with pytest.raises(TheatreError, match=r"expected of construct, .*got tier"):
        begin_task(LOG["eval"], LOG["plan"], SAMPLES)


@pytest.mark.parametrize(("given", "seconds"), [(LiveAnswers.GROUP, 3600.0), (1, 0.0)])
def test_a_run_that_waits_is_woken_by_a_group_or_after_a_while(
    monkeypatch: pytest.MonkeyPatch, given: int, seconds: float
) -> None:
    monkeypatch.setattr(LiveAnswers, "MOST_SECONDS", seconds)
    answers = LiveAnswers([str(seq) for seq in range(LiveAnswers.GROUP + 1)])

    async def ask() -> JsonObject | None:
        waiting = asyncio.ensure_future(answers.wait("0"))
        await asyncio.sleep(0)
        for seq in range(given):
            answers.give(str(seq), {"output_data": {"seq": seq}})
        return await waiting

    assert asyncio.run(ask()) == {"output_data": {"seq": 0}}
    with pytest.raises(TheatreError, match="one answer to each episode"):
        answers.give("0", {})
