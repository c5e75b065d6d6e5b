"""inspect_ai with `ECHELON_INSPECT=template.yaml`: committed before the first sample, sealed after.

inspect_ai tells its hooks what it does; a hook that raises ends no evaluation, so each refusal is
said on stderr. The dataset is that of the task made anew from inspect_ai's registry; each sample
that ends is held against it.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theatre.api.inspect_hook import VARIABLE
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, canonical_line, canonical_sha256
from theatre.engine.errors import ParseError, TheatreError
from theatre.files.yaml_files import parse_yaml
from theatre.harness.folder import DATASET, GROUND_TRUTH, TEMPLATE, criteria_of, recorded_template
from theatre.harness.inspect_log import declared, harness_pin, measure_of, read_sample
from theatre.harness.samples import SCORES, HarnessLogError, Measure, identifier
from theatre.scorers import load_scorers

if TYPE_CHECKING:
    from inspect_ai.hooks import RunEnd, SampleAttemptStart, SampleEnd, TaskEnd, TaskStart

    from theatre.api.recording import RecordedRun

_NAMES = ("theatre_id", "display_name", "description")
_OWN = {*_NAMES, "construct", "criteria_scorers", "weights"}


@dataclass(slots=True)
class TaskRecording:
    """One task under way: what was committed, and what was seen to be otherwise since."""

    run: RecordedRun
    source: Path | None
    source_sha256: str | None
    measures: tuple[Measure, ...]
    epochs: int
    committed: dict[str, str]
    """Episode id → SHA-256 of its committed line."""
    retried: set[str] = field(default_factory=set)
    changed: str | None = None

    def end_sample(self, document: dict[str, Any]) -> None:
        """Record one sample; a retried one is recorded as failed, whatever the last try gave."""
        try:
            sample = read_sample(document, self.measures, epochs=self.epochs)
        except HarnessLogError as error:
            self.changed = str(error)
            return
        if self.committed.get(sample.episode_id) != canonical_sha256(sample.episode()):
            self.changed = f"expected sample {sample.episode_id} as committed, got another one"
            return
        answer = sample.answer(one.name for one in self.measures)
        if sample.episode_id in self.retried:
            answer = {
                "status": "error",
                "error_detail": "answered at a later attempt than the first",
            }
        try:
            self.run.record(sample.episode_id, answer)
        except TheatreError as error:
            self.changed = str(error)

    def note_retry(self, name: str, epoch: int) -> None:
        """Take note that inspect_ai asks a sample again."""
        self.retried.add(name if self.epochs == 1 else f"{name}-epoch-{epoch}")

    def give_up(self) -> str:
        """Seal a task that failed or was cancelled: a run that failed. Return how it ended."""
        self.changed = self.changed or "expected all samples of the task, got its end before"
        return self.seal()

    def seal(self) -> str:
        """Seal the run and return how it ended; with another task file by now it has failed."""
        if self.source is not None and _sha256(self.source) != self.source_sha256:
            self.changed = f"expected {self.source} as committed, got another SHA-256 at the end"
        try:
            report = self.run.seal(self.changed)
        except (TheatreError, OSError) as error:
            return f"theatre {self.run.theatre_id} is not sealed: {error}"
        why = [str(one) for one in (report["outcome_reason"], self.changed) if one]
        ended = report["verification_tier"] or ": ".join(why)
        return f"theatre {self.run.theatre_id}: {report['outcome']}, {ended}"


def begin_task(spec: dict[str, Any], plan: dict[str, Any], samples: list[Any]) -> TaskRecording:
    """Commit a task: its samples, source, scorers, model and parameters.

    `spec` and `plan` are those of inspect_ai as JSON, `samples` those of the task in its order.
    Errors as `RecordedRun.begin`, and HarnessLogError for a template.yaml of another form.
    """
    recorded_run = load_engine()
    workspace, draft = Workspace.from_environment(), _read_draft(Path(os.environ[VARIABLE]))
    measures = tuple(
        measure_of(one["name"].rpartition("/")[2], one.get("options") or {}, None)
        for one in spec.get("scorers") or []
    )
    if not measures:
        raise HarnessLogError("expected a task with a scorer, got none")
    if "criteria_scorers" in draft:
        # Of the others nothing counts, whatever they give.
        named = json.dumps(draft["criteria_scorers"])
        measures = tuple(one for one in measures if f'"{SCORES}.{one.name}"' in named)
    folder = (workspace.home / "harness" / identifier(spec["task"]) / spec["eval_id"]).resolve()
    folder.mkdir(parents=True)
    epochs = int(spec["config"].get("epochs") or 1)
    lines = dict(_episodes(samples, epochs))
    (folder / GROUND_TRUTH).write_bytes(b"".join(map(canonical_line, lines.values())))
    source = None if spec.get("task_file") is None else Path(spec["task_file"]).resolve()
    is_there = source is not None and source.is_file()
    source_sha256 = _sha256(source) if source is not None and is_there else None
    asked = {**declared(spec, plan), "task_source_sha256": source_sha256}
    template = _template(spec, draft, measures, asked, _sha256(folder / GROUND_TRUTH))
    (folder / TEMPLATE).write_bytes(canonical_line(template))
    return TaskRecording(
        run=recorded_run.begin(template, folder, [*lines], workspace),
        source=source if is_there else None,
        source_sha256=source_sha256,
        measures=measures,
        epochs=epochs,
        committed={name: canonical_sha256(line) for name, line in lines.items()},
    )


@functools.cache
def load_engine() -> type[RecordedRun]:
    """Load what a record takes, late: an evaluation without the hook need not wait for it.

    What is loaded by now, inspect_ai's three thousand modules above all, stays until the process
    ends. Frozen, it is not looked through again whenever the collector runs, a dozen times in 2,000
    samples: that saves the evaluation about as much as the hook costs it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        from theatre.api.recording import RecordedRun  # noqa: PLC0415  # see above

        gc.collect()
        gc.freeze()
    finally:
        if was_on:
            gc.enable()
    return RecordedRun


def _template(
    spec: dict[str, Any],
    draft: dict[str, Any],
    measures: tuple[Measure, ...],
    asked: JsonObject,
    dataset_sha256: str,
) -> JsonObject:
    chosen, weights = criteria_of(measures)
    criteria = draft.get("criteria_scorers", chosen)
    harness = harness_pin(spec)
    template = recorded_template(
        adapter_type="harness",
        construct=identifier(draft.get("construct", spec["model"])),
        version=canonical_sha256({"declared": asked, "harness": harness}),
        harness=harness,
        criteria=(criteria, draft.get("weights", weights if criteria is chosen else {})),
        hashes={DATASET: dataset_sha256},
        scorers=load_scorers(),
    )
    named: JsonObject = {name: draft[name] for name in _NAMES if name in draft}
    return {**template, **named, "metadata": {"declared": asked}}


def _episodes(samples: list[Any], epochs: int) -> Any:  # noqa: ANN401  # pairs for a dict
    for epoch in range(1, epochs + 1):
        for sample in samples:
            document = {**sample, "epoch": epoch, "output": {}}
            line = read_sample(document, (), epochs=epochs).episode()
            yield line["episode_id"], line


def _read_draft(path: Path) -> dict[str, Any]:
    """Return the members of template.yaml; an empty file takes everything from the task."""
    try:
        draft = parse_yaml(path.read_bytes(), as_json=True) or {}
    except (OSError, ParseError) as error:
        raise HarnessLogError(f"expected YAML at {VARIABLE}={path}: {error}") from error
    unknown = sorted(map(str, draft.keys() - _OWN)) if isinstance(draft, dict) else ["no mapping"]
    if not isinstance(draft, dict) or unknown:
        known = ", ".join(sorted(_OWN))
        raise HarnessLogError(f"expected of {known} in {path}, got {', '.join(unknown)}")
    return draft


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "gone"


def _say(line: str) -> None:
    # A line of its own in the output of the harness, which shows no logs of ours.
    sys.stderr.write(f"echelon: {line}\n")


def _begin(data: TaskStart, registry_create: Callable[..., Any]) -> TaskRecording | None:
    """Commit the task that is about to start; None, and a line on stderr, where it cannot be."""
    spec = data.spec.model_dump(mode="json", fallback=str)
    plan = data.plan.model_dump(mode="json", fallback=str)
    arguments = spec["task_args"] or {}
    try:
        made = registry_create("task", spec["task_registry_name"] or "", **arguments)
        # A function that does not say that it returns a Task is given back uncalled.
        made = made if hasattr(made, "dataset") else made(**arguments)
        seed = spec["config"].get("sample_shuffle")
        if seed and not made.dataset.shuffled:
            # As inspect_ai does before it numbers them; without a seed the order is another one.
            made.dataset.shuffle(None if seed is True else seed)
        task = begin_task(spec, plan, _chosen(made.dataset, spec))
    except (TheatreError, LookupError, NameError, ValueError, TypeError, OSError) as error:
        _say(f"nothing is recorded: expected a task that can be committed, got {error}")
        return None
    _say(f"committed as theatre {task.run.theatre_id}")
    return task


def register() -> None:  # noqa: C901  # its base class is not there before: methods count
    """Register the hooks with inspect_ai."""
    from inspect_ai.hooks import Hooks, hooks  # noqa: PLC0415  # no dependency of ours
    from inspect_ai.util import registry_create  # noqa: PLC0415  # (the same)

    @hooks(name="echelon", description="Commits before the first sample, seals after the last.")
    class EchelonHooks(Hooks):  # type: ignore[misc]  # it has no types here
        """Tells `TaskRecording` what happens, by the id of the evaluation."""

        def __init__(self) -> None:
            self._tasks: dict[str, TaskRecording] = {}

        async def on_task_start(self, data: TaskStart) -> None:
            # Asked here and not by `enabled`, which inspect_ai calls sixteen times a sample.
            if VARIABLE not in os.environ:
                return
            task = await _in_thread(_begin, data, registry_create)
            if task is not None:
                self._tasks[data.eval_id] = task

        async def on_sample_attempt_start(self, data: SampleAttemptStart) -> None:
            if data.attempt > 1 and data.eval_id in self._tasks:
                self._tasks[data.eval_id].note_retry(str(data.summary.id), data.summary.epoch)

        async def on_sample_end(self, data: SampleEnd) -> None:
            if data.eval_id in self._tasks:
                self._tasks[data.eval_id].end_sample(_ended(data.sample))

        async def on_task_end(self, data: TaskEnd) -> None:
            if data.eval_id in self._tasks:
                _say(await _in_thread(self._tasks.pop(data.eval_id).seal))

        async def on_run_end(self, _: RunEnd) -> None:
            # inspect_ai tells of no end of a task that failed or was cancelled. Where it is itself
            # being cancelled it tells a second time, and only then may be waited for.
            for eval_id, task in [*self._tasks.items()]:
                _say(await _in_thread(task.give_up))
                del self._tasks[eval_id]


def _chosen(dataset: Any, spec: dict[str, Any]) -> list[Any]:  # noqa: ANN401  # see `_asked`
    """Return the samples that an evaluation is about to ask, in the order of the dataset."""
    wanted = {str(name) for name in spec["dataset"]["sample_ids"]}
    numbered = enumerate(dataset, start=1)
    named = [(str(at if one.id is None else one.id), one) for at, one in numbered]
    return [{"id": name, **_asked(one)} for name, one in named if name in wanted]


def _asked(sample: Any) -> dict[str, Any]:  # noqa: ANN401  # inspect_ai's types are not here
    """Return what a sample asks and expects, as its log has it."""
    asked = sample.input
    if not isinstance(asked, str):
        asked = [json.loads(one.model_dump_json()) for one in asked]
    return {"input": asked, "target": sample.target}


def _ended(sample: Any) -> dict[str, Any]:  # noqa: ANN401  # see `_asked`
    scores = sample.scores or {}
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        **_asked(sample),
        "output": {"choices": [{"message": {"content": sample.output.completion}}]},
        "scores": {name: {"value": one.value} for name, one in scores.items()},
        "error": None if sample.error is None else {"message": sample.error.message},
    }


async def _in_thread(work: Any, *arguments: Any) -> Any:  # noqa: ANN401  # as anyio's own
    from anyio import to_thread  # noqa: PLC0415  # inspect_ai's, no dependency of ours

    return await to_thread.run_sync(work, *arguments)
