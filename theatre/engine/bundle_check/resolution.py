"""The committed programme, carried out once more, checked against resolution, trail and aggregate.

Source: docs/contract/evidence.md §8; docs/contract/template.md §5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from theatre.engine.bundle_check.arithmetic import VERDICT_OF, published
from theatre.engine.bundle_check.batches import Recorded, stored_records
from theatre.engine.bundle_check.calls import survives
from theatre.engine.bundle_check.commitment import bare_lines, episodes
from theatre.engine.bundle_check.evidence import Evidence
from theatre.engine.bundle_check.folder import RESOLUTION, BundleFolder
from theatre.engine.bundle_check.human_scores import Panel
from theatre.engine.bundle_check.plan import (
    AGGREGATION,
    EPISODES,
    INVOCATION,
    CommittedComputation,
    CommittedPlan,
    CommittedStep,
)
from theatre.engine.bundle_check.report import (
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    text_members,
)
from theatre.engine.bundle_check.results import RunEvidence
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import JUDGE_SEED, JUDGEMENTS, Computation, EpisodeOutcome
from theatre.engine.schema_registry import SchemaRegistry

COMPLETED, FAILED, SKIPPED = "completed", "failed", "skipped"
RAISED, NOT_JSON, MISFIT = "computation-raised", "output-not-json", "output-spec"
CONTROLS = "controls-"
"""The findings of a computation that stand on the certificate begin so."""
FAILURES = frozenset({RAISED, NOT_JSON, MISFIT})
"""Why a computation fails its step."""


class ReplayedProgramme(NamedTuple):
    """The programme, carried out once more.

    `entries` are those of `resolution.json`, without the hash in those of aggregations. By step_id
    `in_aggregate` has the output of each computation that the aggregate has, too, null where its
    step was not completed; `unknown` says why one of them could not be computed, if so.
    """

    entries: tuple[JsonObject, ...]
    in_aggregate: JsonObject
    unknown: Cause | None


def step_caps(plan: CommittedPlan, followed: ReplayedProgramme) -> list[str]:
    """Return a code for each step that guards integrity and does not vouch for it."""
    caps = []
    for step, entry in zip(plan.steps, followed.entries, strict=True):
        word = entry["status"]
        # A log that was walked and is not intact is a failure.
        broken = at(entry, "result", "output", "intact") is not True
        if step.walks_a_chain and word == COMPLETED and broken:
            word = FAILED
        if step.guards_integrity and word != COMPLETED:
            caps.append(f"step-{word}:{step.step_id}")
    return caps


def step_findings(plan: CommittedPlan, followed: ReplayedProgramme) -> list[str]:
    """Return a code for each other step that failed, and led on, and those of computations."""
    found = [
        f"step-failed:{step.step_id}"
        for step, entry in zip(plan.steps, followed.entries, strict=True)
        if not step.guards_integrity and entry["status"] == FAILED
    ]
    for step, entry in zip(plan.steps, followed.entries, strict=True):
        codes = at(entry, "result", "output", "findings")
        if step.computation is not None and isinstance(codes, list):
            found += [code for code in codes if isinstance(code, str) and code.startswith(CONTROLS)]
    return found


def replay_programme(
    evidence: Evidence, plan: CommittedPlan, run: RunEvidence
) -> ReplayedProgramme:
    """Recompute the result of each step; what cannot be known is noted for `resolution`."""
    results = _Results(evidence, plan, run)
    entries: list[JsonObject] = []
    in_aggregate: JsonObject = {}
    awaited: str | None = None
    for number, step in enumerate(plan.steps):
        awaited = None if awaited == step.step_id else awaited
        if awaited is not None and step.type != INVOCATION:
            entries.append(_entry(step, SKIPPED, {}))
        else:
            entries.append(results.entry(number, step))
        if entries[-1]["status"] == FAILED:
            awaited = step.escalation
        if step.computation is not None and step.computation.in_aggregate:
            output = at(entries[-1], "result", "output")
            in_aggregate[step.step_id] = None if isinstance(output, Nothing) else output
    return ReplayedProgramme(
        entries=tuple(entries), in_aggregate=in_aggregate, unknown=results.unknown
    )


def _entry(step: CommittedStep, status: str, result: JsonObject) -> JsonObject:
    return {"step_id": step.step_id, "type": step.type, "status": status, "result": result}


class _Results:
    """Recomputes the result of each step that was carried out."""

    def __init__(self, evidence: Evidence, plan: CommittedPlan, run: RunEvidence) -> None:
        self._evidence = evidence
        self._plan = plan
        self._run = run
        self._ledger = evidence.ledger
        self._versions = text_members(evidence.trail.detail("activated", "computations"))
        self.unknown: Cause | None = None

    def entry(self, number: int, step: CommittedStep) -> JsonObject:
        """Return the entry of step `number` in `resolution.json`, no hash in an aggregation's."""
        if step.computation is not None:
            return self._replay_computation(number, step, step.computation)
        if step.step_id in self._plan.rubrics:
            return self._replay_rating(step, self._run.panels[step.step_id])
        calls = self._run.calls
        if step.type == INVOCATION:
            counts = {"episodes_recorded": calls.recorded, "episodes_discarded": calls.discarded}
            return _entry(step, COMPLETED, {**counts})
        return _entry(step, COMPLETED, {})

    def _replay_rating(self, step: CommittedStep, panel: Panel) -> JsonObject:
        if panel.enough:
            result: JsonObject = {
                "items": len(panel.items),
                "scorers": panel.rating.scorers,
                "human_mean": published(panel.rating.mean),
            }
            return _entry(step, COMPLETED, result)
        # Without a limit a step waits for people: it cannot be given up for a better one.
        if panel.rubric.timeout_seconds is None:
            expected = f"{panel.rubric.minimum_scorers} people who scored every item"
            self._ledger.wrong(
                CheckId.RESOLUTION, f"step {step.step_id} with {expected}", f"{len(panel.complete)}"
            )
        return self._replay_failure(step, "hitl-timeout", panel.lateness)

    def _replay_computation(
        self, number: int, step: CommittedStep, named: CommittedComputation
    ) -> JsonObject:
        """Return the result of the computation; as it is stored where that cannot be known."""
        outcome = self._outcome(named)
        stored = self._evidence.documents.at(RESOLUTION, "steps", number)
        observed = at(stored, "result", "error_detail")
        detail = observed if isinstance(observed, str) else ""
        if outcome is None and at(stored, "status") == FAILED:
            reason = at(stored, "result", "reason")
            known = isinstance(reason, str) and reason in FAILURES
            return self._replay_failure(step, str(reason) if known else "", detail)
        if isinstance(outcome, Failed):
            accepted = detail if outcome.accepts(detail) else outcome.detail
            return self._replay_failure(step, outcome.reason, accepted)
        output = at(stored, "result", "output") if outcome is None else outcome
        result: JsonObject = {
            "computation": f"{named.name}@{self._versions.get(named.name, '?')}",
            "over": named.over,
            "output": None if isinstance(output, Nothing) else output,
        }
        return _entry(step, COMPLETED, result)

    def _replay_failure(self, step: CommittedStep, reason: str, detail: JsonValue) -> JsonObject:
        # A programme that failed has no certificate.
        if step.escalation is None:
            expected = f"no bundle of a programme that fails: {step.step_id} ({reason})"
            self._ledger.wrong(CheckId.RESOLUTION, expected, "one")
        result: JsonObject = {
            "reason": reason,
            "error_detail": detail,
            "escalated_to": step.escalation,
        }
        return _entry(step, FAILED, result)

    def _outcome(self, named: CommittedComputation) -> JsonObject | Failed | None:
        """Run the computation; None, with a note, where its result cannot be known."""
        outcome: JsonObject | Failed | Cause = Cause(
            f"a file that {named.name} is over cannot be read"
        )
        with self._ledger.noting(CheckId.RESOLUTION):
            outcome = self._compute(named)
            if isinstance(outcome, Cause):
                self._ledger.cannot(CheckId.RESOLUTION, outcome)
        if not isinstance(outcome, Cause):
            return outcome
        if named.in_aggregate:
            self.unknown = self.unknown or outcome
        return None

    def _compute(self, named: CommittedComputation) -> JsonObject | Failed | Cause:
        """Run a committed computation; a Cause where it, or what it is over, is not to be had.

        Raises DefectError where a file is not what it was when it was checked.
        """
        version = self._versions.get(named.name)
        computation, registry = (
            self._evidence.installed.computations.get(named.name),
            self._evidence.registry,
        )
        if computation is None or computation.version != version:
            at_hand = "none" if computation is None else computation.pin
            text = f"computation {named.name}@{version or '?'} is recorded and {at_hand} installed"
            return Cause(text, unavailable=True)
        for violation in registry.validate_inline(computation.params_schema, named.params):
            return Cause(f"params of {named.name}{violation.pointer}: {violation.detail}")
        run, folder = self._run, self._evidence.folder
        if named.over != EPISODES:
            lines = bare_lines(folder, self._plan.dataset_paths[named.over])
        elif isinstance(run.aggregate, Cause):
            return run.aggregate
        elif run.ground_truth is None or isinstance(run.ground_truth.gold, Cause):
            return Cause("the ground truth cannot be read")
        else:
            lines = episode_lines(folder, self._plan, run.ground_truth.gold, run.outcomes)
        return _output(computation, lines, named, registry)


def add_computed(run: RunEvidence, followed: ReplayedProgramme, ledger: Ledger) -> RunEvidence:
    """Return `run` with the outputs that were committed to stand in its aggregate."""
    if isinstance(run.aggregate, Cause) or not followed.in_aggregate:
        return run
    if followed.unknown is not None:
        ledger.cannot(CheckId.AGGREGATE, followed.unknown)
    if isinstance(run.scoring, Cause):
        return run
    whole = run.aggregate | {"computed": followed.in_aggregate}
    return replace(run, aggregate=run.scoring.lines.within(whole))


def check_resolution(
    evidence: Evidence,
    plan: CommittedPlan,
    followed: ReplayedProgramme,
    results_hash: JsonValue | Nothing,
) -> None:
    """Make the check `resolution`: the document, and what the trail reports of the steps."""
    ledger, events = evidence.ledger, list[JsonValue]()
    hashed = None if isinstance(results_hash, Nothing) else results_hash
    steps = [
        entry | {"result": {"results_hash": hashed}}
        if (entry["type"], entry["status"]) == (AGGREGATION, COMPLETED)
        else entry
        for entry in followed.entries
    ]
    expected: JsonObject = {"status": "completed", "steps": [*steps]}
    ledger.compare(CheckId.RESOLUTION, RESOLUTION, expected, evidence.documents.at(RESOLUTION))
    for step, entry in zip(plan.steps, steps, strict=True):
        if step.step_id in plan.rubrics and entry["status"] != SKIPPED:
            events.append({"event_type": "hitl_opened", "detail": step.step_id})
        if step.type != INVOCATION:
            events.append({"event_type": f"step_{entry['status']}", "detail": entry})
        if entry["status"] == FAILED:
            escalation: JsonObject = {"step_id": step.step_id, "to": step.escalation}
            events.append({"event_type": "escalated", "detail": escalation})
    ledger.compare(CheckId.RESOLUTION, "the steps in the trail", events, evidence.trail.settled)
    ledger.completed(CheckId.RESOLUTION, f"{len(steps)} steps")


def episode_lines(
    folder: BundleFolder,
    plan: CommittedPlan,
    gold: Mapping[str, JsonObject],
    outcomes: Sequence[EpisodeOutcome],
) -> Iterator[bytes]:
    """Yield a canonical line for each episode that was run, streaming, in dataset order.

    One for each of its answers, where episodes are asked more than once.
    For evidence that was read whole before: what is wrong with it was noted then. Raises
    DefectError where a file is not what it was.
    """
    noted = Ledger()
    records = stored_records(folder, len(outcomes), noted)
    for episode, outcome in zip(episodes(folder, noted), outcomes, strict=False):
        if outcome is EpisodeOutcome.NOT_RUN:
            return
        item = next((item for item in records if item.position == episode.seq), None)
        if item is None or item.record is None:
            raise DefectError(f"the record of episode {episode.seq} as before", "none")
        asked: JsonObject = {
            "episode_id": episode.episode_id,
            "input_data": episode.input_data,
            "expected_output": episode.expected_output,
            "label": gold.get(episode.episode_id),
        }
        for answer in _answers(item.record, plan, outcome):
            yield canonical_bytes(asked | answer)


def _answers(
    record: Recorded, plan: CommittedPlan, outcome: EpisodeOutcome
) -> Iterator[JsonObject]:
    """Yield what a line has of each answer in a record."""
    judged = {name: of for name, of in record.document.items() if name in {JUDGEMENTS, JUDGE_SEED}}

    def hops(outputs: Sequence[JsonObject]) -> JsonObject:
        named = zip(plan.hops, outputs, strict=False)
        return {hop.construct_id: output for hop, output in named}

    if plan.repeats == 1:
        yield {"outcome": outcome.value, "hops": hops(record.outputs), **judged}
        return
    for repeat in range(plan.repeats):
        made = record.round(repeat)
        if made is None:
            raise DefectError(f"an answer with repeat {repeat} as before", "none")
        status, outputs = made
        yield {
            "repeat": repeat,
            "outcome": outcome.value if status == "success" else VERDICT_OF[status],
            "hops": hops(outputs),
            **{name: cast("JsonValue", at(of, repeat)) for name, of in judged.items()},
        }


class Failed(NamedTuple):
    """How a computation failed: its reason, and what must stand in the `error_detail`.

    A class of exceptions is the whole detail; for the others it is a part of a text that is
    free, if there is anything that it must hold.
    """

    reason: str
    detail: str

    def accepts(self, observed: str) -> bool:
        """Return whether `observed` may be the detail."""
        return observed == self.detail if self.reason == RAISED else self.detail in observed


def _output(
    computation: Computation,
    lines: Iterator[bytes],
    named: CommittedComputation,
    registry: SchemaRegistry,
) -> JsonObject | Failed:
    try:
        output: object = computation.compute(lines, named.params)
    except DefectError:
        raise
    except Exception as error:  # noqa: BLE001  # a plug-in may raise anything: that fails its step
        return Failed(RAISED, type(error).__name__)
    if not isinstance(output, dict):
        return Failed(NOT_JSON, "")
    try:
        canonical_bytes(output)
    except CanonicalisationError:
        return Failed(NOT_JSON, "")
    for violation in (
        registry.validate_inline(named.output_spec, output) if named.output_spec else ()
    ):
        return Failed(MISFIT, violation.pointer if survives(violation.pointer) else "")
    return output
