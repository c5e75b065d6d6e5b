"""`deterministic_computation` steps: computed once, over what was committed, and kept twice."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import rfc8785

from tests.theatre.arrivals import HeldAdapter, answered_one_by_one, play
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    REFUSED,
    SANITISED,
    WRONG,
    Finished,
    RunOptions,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    call_step,
    episodes,
    pilot_stage,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import ProgrammeError
from theatre.engine.models import Computation, ScorerKind
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.files.run_journal import FileRunJournal
from theatre.scorers import load_computations

STEPS = "/resolution_programme"
CHECKOUT = Path(__file__).parents[2]
PARAMS_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"salt": {"type": "integer"}},
    "additionalProperties": False,
}


def collect(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return all that the computation was given."""
    return {"lines": [line.decode() for line in lines], "params": params}


COLLECT = Computation(
    name="collect", version="3", kind=ScorerKind.EXACT, params_schema=PARAMS_SCHEMA, compute=collect
)


def compute_step(**spec: JsonValue) -> JsonObject:
    return {"step_id": "compute", "type": "deterministic_computation", "input_spec": spec}


def collecting(**more: Computation) -> RunOptions:
    """Return options for a run that has COLLECT installed."""
    installed = {"collect": COLLECT, **more}
    return {"around": lambda around: replace(around, computations=installed)}


def staged(
    folder: Path,
    records: Sequence[JsonObject],
    *steps: JsonObject,
    changes: Mapping[str, JsonValue] | None = None,
    further: Mapping[str, bytes] | None = None,
) -> Stage:
    """Return a theatre that calls the construct and goes on with `steps`."""
    programme: list[JsonValue] = [call_step(), *steps]
    return pilot_stage(
        folder, records, changes={STEPS: programme, **(changes or {})}, further=further
    )


def computed(finished: Finished, step_id: str = "compute") -> JsonObject:
    """Return the result of a step, which the audit trail must hold as well."""
    (step,) = [step for step in finished.steps() if step["step_id"] == step_id]
    assert step == {
        "step_id": step_id,
        "type": "deterministic_computation",
        "status": "completed",
        "result": step["result"],
    }
    noted = [entry["detail"] for entry in finished.trail if entry["event_type"] == "step_completed"]
    assert noted.count(step) == 1
    return cast("JsonObject", step["result"])


def lines_of(result: JsonObject) -> list[str]:
    return cast("dict[str, list[str]]", result["output"])["lines"]


def canonical(document: JsonObject) -> str:
    return rfc8785.dumps(document).decode()


def test_over_episodes_there_is_a_canonical_line_for_each_one_that_was_run(tmp_path: Path) -> None:
    records = episodes(5, {2: ERROR, 3: REFUSED, 4: WRONG})
    del records[4]["expected_output"]
    gold: list[JsonObject] = [
        {"episode_id": "pilot-4", "label": {"hue": "teal"}, "labeller": "a test"}
    ]
    stage = staged(
        tmp_path,
        records,
        compute_step(computation="collect"),
        changes={
            "/product_theatre_config/gold_label_set": "gold_labels.jsonl",
            "/execution_policy/on_threshold": "continue",
        },
        further={"gold_labels.jsonl": b"".join(canonical(one).encode() + b"\n" for one in gold)},
    )
    finished = stage.run(ScriptedAdapter(answer_as_asked), **collecting())
    result = computed(finished)
    assert (result["computation"], result["over"]) == ("collect@3", "episodes")
    outcomes = ["scored", "missing", "excluded", "scored", "unscored"]
    hops: list[JsonValue] = [
        {"pilot": {**EXPECTED}},
        {},
        {},
        {"pilot": WRONG["output_data"]},
        {"pilot": {**EXPECTED}},
    ]
    assert [line["outcome"] for line in finished.lines("scores/per_episode.jsonl")] == outcomes
    assert lines_of(result) == [
        canonical(
            {
                "episode_id": f"pilot-{n}",
                "input_data": records[n - 1]["input_data"],
                "expected_output": records[n - 1].get("expected_output"),
                "label": {"hue": "teal"} if n == 4 else None,
                "outcome": outcomes[n - 1],
                "hops": hops[n - 1],
            }
        )
        for n in range(1, 6)
    ]
    assert cast("JsonObject", finished.trail[2]["detail"])["computations"] == {"collect": "3"}


def test_over_episodes_of_a_chain_there_are_the_outputs_of_the_hops_that_succeeded(
    tmp_path: Path,
) -> None:
    seen: JsonObject = {"shape": "round"}

    def pilot(request: OracleInvocationRequest) -> JsonObject:
        second = request.input_data["episode"]["seq"] == 2
        return {**ERROR, "output_data": {"half": 1}} if second else {"output_data": {**EXPECTED}}

    stage = staged(
        tmp_path,
        episodes(2),
        compute_step(computation="collect"),
        changes={
            **CHAIN,
            "/execution_policy/deterministic_sample": 2,
            "/execution_policy/on_threshold": "continue",
        },
    )
    finished = stage.run(
        {
            EASEL: ScriptedAdapter(lambda _: {"output_data": {**seen}}, version=EASEL_VERSION),
            "pilot": ScriptedAdapter(pilot),
        },
        **collecting(),
    )
    hops = [json.loads(line)["hops"] for line in lines_of(computed(finished))]
    assert hops == [{EASEL: seen, "pilot": EXPECTED}, {EASEL: seen}]


def test_over_episodes_the_input_is_that_of_the_dataset(tmp_path: Path) -> None:
    records = episodes(1)
    records[0]["input_data"] = {"seq": 1, "text": "he\u200bllo\u2028there\x0b"}
    stage = staged(tmp_path, records, compute_step(computation="collect"), changes=SANITISED)
    (line,) = lines_of(computed(stage.run(ScriptedAdapter(), **collecting())))
    assert json.loads(line)["input_data"] == records[0]["input_data"]


def test_what_was_discarded_or_not_run_has_no_line(tmp_path: Path) -> None:
    failing = dict.fromkeys(range(3, 8), ERROR)
    stage = staged(
        tmp_path,
        episodes(20, failing),
        compute_step(computation="collect"),
        changes={"/execution_policy/max_concurrency": 16},
    )
    construct = HeldAdapter(answer_as_asked)

    async def scene() -> Finished:
        options: RunOptions = {**collecting(), "batch_size": 100}
        run = asyncio.create_task(stage.perform(construct, **options))
        order = iter([16, 15, *range(1, 8)])
        return await answered_one_by_one(run, construct, lambda _: next(order))

    finished = play(scene)
    assert finished.steps()[0]["result"] == {"episodes_recorded": 7, "episodes_discarded": 2}
    ids = [json.loads(line)["episode_id"] for line in lines_of(computed(finished))]
    assert ids == [f"pilot-{seq}" for seq in range(1, 8)]


LINES = b'{"b": 1,  "a": 2}\r\n\n{"a": \xff}\nno line feed at the end'


def test_over_a_dataset_there_are_its_lines_as_they_are(tmp_path: Path) -> None:
    def hexes(lines: Iterable[bytes], _: JsonObject) -> JsonObject:
        return {"lines": [line.hex() for line in lines]}

    stage = staged(
        tmp_path,
        episodes(2),
        compute_step(computation="hexes", over="more"),
        changes={"/product_theatre_config/dataset_paths": {"more": "more.jsonl"}},
        further={"more.jsonl": LINES},
    )
    hexed = Computation(
        name="hexes", version="1", kind=ScorerKind.EXACT, params_schema={}, compute=hexes
    )
    result = computed(stage.run(ScriptedAdapter(), **collecting(hexes=hexed)))
    assert result == {
        "computation": "hexes@1",
        "over": "more",
        "output": {"lines": [line.hex() for line in LINES.split(b"\n")]},
    }


def test_over_the_replay_dataset_there_are_all_lines_also_of_what_was_not_run(
    tmp_path: Path,
) -> None:
    stage = staged(
        tmp_path,
        episodes(10, dict.fromkeys(range(2, 6), ERROR)),
        compute_step(computation="collect", over="truth"),
    )
    finished = stage.run(ScriptedAdapter(answer_as_asked), **collecting())
    assert finished.document("scores/aggregate.json")["coverage"] == 0.25
    truth = (tmp_path / "truth.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines_of(computed(finished)) == truth


def test_params_reach_the_computation_and_are_empty_where_none_are_committed(
    tmp_path: Path,
) -> None:
    salted = compute_step(computation="collect", params={"salt": 7})
    plain = compute_step(computation="collect") | {"step_id": "plain"}
    finished = staged(tmp_path, episodes(1), salted, plain).run(ScriptedAdapter(), **collecting())
    params = [
        cast("JsonObject", computed(finished, step)["output"])["params"]
        for step in ("compute", "plain")
    ]
    assert params == [{"salt": 7}, {}]


def test_steps_stand_in_committed_order_and_each_reads_all_lines(tmp_path: Path) -> None:
    aggregate: JsonObject = {"step_id": "sum_up", "type": "aggregation"}
    first = compute_step(computation="collect")
    second = compute_step(computation="collect") | {"step_id": "again"}
    stage = staged(tmp_path, episodes(3), first, aggregate, second)
    finished = stage.run(ScriptedAdapter(), **collecting())
    assert [step["step_id"] for step in finished.steps()] == [
        *("call_pilot", "compute", "sum_up", "again")
    ]
    noted = [
        cast("JsonObject", entry["detail"])["step_id"]
        for entry in finished.trail
        if entry["event_type"] == "step_completed"
    ]
    assert noted == ["compute", "sum_up", "again"]
    assert computed(finished) == computed(finished, "again")


def test_what_is_larger_than_the_memory_for_it_waits_on_the_disk_and_is_read_in_full(
    tmp_path: Path,
) -> None:
    """Two MiB of lines; a computation may also stop reading, and the next begins at the first."""
    records = episodes(200)
    for record in records:
        cast("JsonObject", record["input_data"])["text"] = "x" * 10_000

    def count_bytes(lines: Iterable[bytes], _: JsonObject) -> JsonObject:
        sizes = [len(line) for line in lines]
        return {"lines": len(sizes), "bytes": sum(sizes)}

    def take_one(lines: Iterable[bytes], _: JsonObject) -> JsonObject:
        return {"first": json.loads(next(iter(lines)))["episode_id"]}

    more = {
        name: Computation(
            name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, compute=compute
        )
        for name, compute in (("count_bytes", count_bytes), ("take_one", take_one))
    }
    steps = [
        compute_step(computation=name) | {"step_id": f"step_{n}"}
        for n, name in enumerate(("take_one", "count_bytes", "take_one"))
    ]
    finished = staged(tmp_path, records, *steps).run(ScriptedAdapter(), **collecting(**more))
    outputs = [computed(finished, f"step_{n}")["output"] for n in range(3)]
    expected = [
        canonical({**record, "label": None, "outcome": "scored", "hops": {"pilot": {**EXPECTED}}})
        for record in records
    ]
    assert outputs == [
        {"first": "pilot-1"},
        {"lines": 200, "bytes": sum(map(len, expected))},
        {"first": "pilot-1"},
    ]


NOT_INSTALLED = (
    "step compute: expected input_spec.computation to name an installed computation (collect), got "
)
NO_DATASET = (
    "step compute: expected input_spec.over to be episodes or the name of a dataset of the "
    "template, got "
)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"computation": "sum_up"}, f"{NOT_INSTALLED}'sum_up'"),
        ({}, f"{NOT_INSTALLED}None"),
        ({"computation": ["collect"]}, f"{NOT_INSTALLED}['collect']"),
        ({"computation": "collect", "over": "elsewhere"}, f"{NO_DATASET}'elsewhere'"),
        ({"computation": "collect", "over": None}, f"{NO_DATASET}None"),
        ({"computation": "collect", "over": ["truth"]}, f"{NO_DATASET}['truth']"),
        (
            {"computation": "collect", "params": {"salt": "much"}},
            "step compute: input_spec.params/salt: expected integer, got string",
        ),
        (
            {"computation": "collect", "params": {"sugar": 1}},
            "step compute: input_spec.params/sugar: expected only salt; got 'sugar'",
        ),
        (
            {"computation": "collect", "params": None},
            "step compute: input_spec.params: expected object, got null",
        ),
        (
            {"computation": "collect", "dataset": "truth"},
            (
                "step compute: expected an input_spec of computation, over, params, in_aggregate, "
                "got dataset"
            ),
        ),
    ],
)
def test_a_computation_that_cannot_be_made_is_refused_before_the_first_call(
    tmp_path: Path, spec: JsonObject, message: str
) -> None:
    stage = staged(tmp_path, episodes(1), compute_step(**spec))
    construct = ScriptedAdapter()
    with pytest.raises(ProgrammeError) as caught:
        stage.run(construct, **collecting())
    assert str(caught.value) == message
    assert (stage.state, construct.asked) == ("COMMITTED", [])


def test_where_nothing_is_installed_the_refusal_says_so(tmp_path: Path) -> None:
    stage = staged(tmp_path, episodes(1), compute_step(computation="collect"))
    with pytest.raises(ProgrammeError, match=r"an installed computation \(none\), got 'collect'"):
        stage.run(ScriptedAdapter(), around=lambda around: replace(around, computations={}))


class PowerCut(BaseException):
    """The process is about to be gone."""


class CutJournal(FileRunJournal):
    """The journal of a process that dies right after the first step is noted."""

    async def note(self, event: AuditEvent) -> JsonObject:
        entry = await super().note(event)
        if event.event_type == "step_completed":
            raise PowerCut
        return entry


def test_a_step_is_noted_once_though_the_process_dies_behind_it(tmp_path: Path) -> None:
    aggregate: JsonObject = {"step_id": "sum_up", "type": "aggregation"}
    stage = staged(tmp_path, episodes(3), compute_step(computation="collect"), aggregate)
    options: RunOptions = {
        **collecting(),
        "journal": lambda _: CutJournal(stage.folder, stage.theatre_id),
    }
    with pytest.raises(PowerCut):
        stage.run(ScriptedAdapter(), **options)
    assert stage.state == "SETTLING"
    again = ScriptedAdapter()
    finished = stage.run(again, **collecting())
    assert again.asked == []
    assert len(lines_of(computed(finished))) == 3
    noted = [entry for entry in finished.trail if entry["event_type"] == "step_completed"]
    assert len(noted) == 2


def test_the_documented_step_verifies_the_log_that_it_names(tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "scorers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (step,) = [json.loads(block) for block in blocks if "deterministic_computation" in block]
    log = CHECKOUT / "fixtures" / "ground_truth" / "product_observer_provenance_v1.jsonl"
    raw = log.read_bytes()
    stage = staged(
        tmp_path,
        episodes(2),
        {**step, "input_spec": {**step["input_spec"], "params": {"required": ["content"]}}},
        changes={"/product_theatre_config/dataset_paths": {"records": "records.jsonl"}},
        further={"records.jsonl": raw},
    )
    result = computed(stage.run(ScriptedAdapter()), step["step_id"])
    installed = load_computations()["provenance_chain"]
    assert result == {
        "computation": "provenance_chain@1",
        "over": "records",
        "output": installed.compute(raw.splitlines(), {"required": ["content"]}),
    }
    assert cast("JsonObject", result["output"])["intact"] is True
