"""The committed programme, read: what each step has to come to (docs/evidence.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from theatre.engine.bundle_check.chain import INVOCATION
from theatre.engine.bundle_check.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject

AGGREGATION = "aggregation"
COMPUTATION = "deterministic_computation"
EPISODES = "episodes"
"""What a computation is over unless it names a dataset: the episodes that were run."""

_KNOWN = frozenset({INVOCATION, AGGREGATION, COMPUTATION})
_COMPUTATION_DEFAULTS: JsonObject = {"over": EPISODES, "params": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedComputation:
    """A computation by name; `over` is EPISODES or the name of a committed dataset."""

    name: str
    over: str
    params: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedStep:
    """One step; `computation` is None for every type but `deterministic_computation`."""

    step_id: str
    type: str
    computation: CommittedComputation | None = None


def committed_steps(
    document: JsonObject, dataset_hashes: Mapping[str, str]
) -> tuple[CommittedStep, ...]:
    """Return the programme in committed order.

    Raises DefectError for a type that this version cannot check, for ids that repeat, and for a
    computation that does not say what is computed over what.
    """
    steps = cast("list[JsonObject]", document["resolution_programme"])
    ids = Counter(cast("str", step["step_id"]) for step in steps)
    if len(ids) != len(steps):
        raise DefectError("step ids that are unique", shown(ids.most_common(1)[0][0]))
    return tuple(_step(step, dataset_hashes) for step in steps)


def _step(step: JsonObject, dataset_hashes: Mapping[str, str]) -> CommittedStep:
    kind = cast("str", step["type"])
    if kind not in _KNOWN:
        names = ", ".join(sorted(_KNOWN))
        raise DefectError(f"a programme of {names} (all this version can check)", kind)
    if kind != INVOCATION and step.get("output_spec"):
        raise DefectError(f"an output_spec only in a {INVOCATION} step", f"one in a step {kind}")
    computation = None
    if kind == COMPUTATION:
        spec = cast("JsonObject", step.get("input_spec", {}))
        computation = _computation(_COMPUTATION_DEFAULTS | spec, dataset_hashes)
    return CommittedStep(step_id=cast("str", step["step_id"]), type=kind, computation=computation)


def _computation(spec: JsonObject, dataset_hashes: Mapping[str, str]) -> CommittedComputation:
    name, over, params = spec.get("computation"), spec["over"], spec["params"]
    if not isinstance(name, str) or not name:
        raise DefectError("the name of a computation", shown(name))
    if spec.keys() != {"computation", *_COMPUTATION_DEFAULTS}:
        raise DefectError("an input_spec of computation, over and params", ", ".join(sorted(spec)))
    if not isinstance(over, str) or over not in {EPISODES, *dataset_hashes}:
        raise DefectError(f"a computation over {EPISODES} or a committed dataset", shown(over))
    if not isinstance(params, dict):
        raise DefectError("the params of a computation as an object", shown(params))
    return CommittedComputation(name=name, over=over, params=params)
