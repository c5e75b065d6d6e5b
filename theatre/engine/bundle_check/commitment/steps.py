"""The committed programme, read: what each step has to come to (docs/evidence.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from theatre.engine.bundle_check.commitment.chain import INVOCATION
from theatre.engine.bundle_check.commitment.rubrics import AGGREGATION, RUBRIC
from theatre.engine.bundle_check.reading.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject

COMPUTATION = "deterministic_computation"
EPISODES = "episodes"
"""What a computation is over unless it names a dataset: the episodes that were run."""

FAIL = "FAIL"
"""The `escalation_path` of a step whose failure ends the theatre, like none."""

_KNOWN = frozenset({INVOCATION, AGGREGATION, COMPUTATION, RUBRIC})
_WITH_OUTPUT = frozenset({INVOCATION, COMPUTATION})
_COMPUTATION_DEFAULTS: JsonObject = {"over": EPISODES, "params": {}, "in_aggregate": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedComputation:
    """A computation by name; `over` is EPISODES or the name of a committed dataset.

    An empty `output_spec` lets any output pass. `in_aggregate` tells whether the output stands
    in `scores/aggregate.json`, too.
    """

    name: str
    over: str
    params: JsonObject
    output_spec: JsonObject = field(default_factory=dict)
    in_aggregate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedStep:
    """One step; `computation` is None for every type but `deterministic_computation`.

    `escalation` is the later step that a failure leads to, None where it ends the theatre.
    """

    step_id: str
    type: str
    computation: CommittedComputation | None = None
    escalation: str | None = None

    @property
    def guards_integrity(self) -> bool:
        """Tell whether the tier is capped where the step was not completed (docs/evidence.md)."""
        named = self.computation
        return named is not None and (bool(named.output_spec) or named.name == "provenance_chain")


def committed_steps(
    document: JsonObject, dataset_hashes: Mapping[str, str]
) -> tuple[CommittedStep, ...]:
    """Return the programme in committed order.

    Raises DefectError for a type that this version cannot check, for ids that repeat, for an
    escalation that does not lead forward, for a computation that does not say what is
    computed over what, and for one in the aggregate that comes too late for it.
    """
    steps = cast("list[JsonObject]", document["resolution_programme"])
    ids = Counter(cast("str", step["step_id"]) for step in steps)
    if len(ids) != len(steps):
        raise DefectError("step ids that are unique", shown(ids.most_common(1)[0][0]))
    order = list(ids)
    read = tuple(
        _step(step, dataset_hashes, order[number + 1 :]) for number, step in enumerate(steps)
    )
    _refuse_late(read)
    return read


def _refuse_late(steps: Sequence[CommittedStep]) -> None:
    kinds = [step.type for step in steps]
    first = kinds.index(AGGREGATION) if AGGREGATION in kinds else len(kinds)
    for step in steps[first:]:
        if step.computation is not None and step.computation.in_aggregate:
            raise DefectError("a step in_aggregate before the first aggregation", step.step_id)


def _step(
    step: JsonObject, dataset_hashes: Mapping[str, str], later: Sequence[str]
) -> CommittedStep:
    kind = cast("str", step["type"])
    if kind not in _KNOWN:
        names = ", ".join(sorted(_KNOWN))
        raise DefectError(f"a programme of {names} (all this version can check)", kind)
    output_spec = cast("JsonObject", step.get("output_spec", {}))
    if kind not in _WITH_OUTPUT and output_spec:
        wanted = f"an output_spec only in a step {' or '.join(sorted(_WITH_OUTPUT))}"
        raise DefectError(wanted, f"one in a step {kind}")
    escalation = cast("str | None", step.get("escalation_path"))
    if escalation is not None and escalation not in {FAIL, *later}:
        raise DefectError(f"an escalation_path to a later step or {FAIL}", shown(escalation))
    computation = None
    if kind == COMPUTATION:
        spec = cast("JsonObject", step.get("input_spec", {}))
        computation = _computation(_COMPUTATION_DEFAULTS | spec, output_spec, dataset_hashes)
    return CommittedStep(
        step_id=cast("str", step["step_id"]),
        type=kind,
        computation=computation,
        escalation=None if escalation == FAIL else escalation,
    )


def _computation(
    spec: JsonObject, output_spec: JsonObject, dataset_hashes: Mapping[str, str]
) -> CommittedComputation:
    name, over, params = spec.get("computation"), spec["over"], spec["params"]
    in_aggregate = spec["in_aggregate"]
    if not isinstance(name, str) or not name:
        raise DefectError("the name of a computation", shown(name))
    if spec.keys() != {"computation", *_COMPUTATION_DEFAULTS}:
        raise DefectError(
            "an input_spec of computation, over, params and in_aggregate", ", ".join(sorted(spec))
        )
    if not isinstance(over, str) or over not in {EPISODES, *dataset_hashes}:
        raise DefectError(f"a computation over {EPISODES} or a committed dataset", shown(over))
    if not isinstance(params, dict):
        raise DefectError("the params of a computation as an object", shown(params))
    if not isinstance(in_aggregate, bool) or (in_aggregate and over != EPISODES):
        wanted = f"in_aggregate true or false, and true over {EPISODES} only"
        raise DefectError(wanted, f"{shown(in_aggregate)} over {over}")
    return CommittedComputation(
        name=name, over=over, params=params, output_spec=output_spec, in_aggregate=in_aggregate
    )
