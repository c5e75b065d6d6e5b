"""The constructs that every episode is put to, in call order, as a template commits them.

Source: docs/evidence.md, "Hops" and "Sanitising"; contract/template.md, rules 9 and 20.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from theatre.engine.bundle_check.reading.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject, JsonValue

INVOCATION = "construct_invocation"
RoleMarkers: TypeAlias = Literal["break", "flag"]

_SANITISE_DEFAULTS: JsonObject = {"role_markers": "break", "raw_fields": []}
_ROLE_MARKERS: tuple[RoleMarkers, ...] = ("break", "flag")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedHop:
    """One construct of the chain: its pin, its limit in seconds, and what its output must fit.

    An empty `output_spec` lets any output pass.
    """

    construct_id: str
    version: str
    timeout_seconds: float
    output_spec: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisePolicy:
    """How inputs are sanitised: `break` or `flag`, and pointers to what is left as it is."""

    role_markers: RoleMarkers
    raw_fields: tuple[str, ...]


def committed_hops(document: JsonObject, *, timeout_seconds: float) -> tuple[CommittedHop, ...]:
    """Return the chain; `timeout_seconds` is the limit where no step has its own.

    A single step stands for a whole chain: its limit is that of every call, its `output_spec`
    is about the last output. Raises DefectError for a chain that contradicts its steps, calls
    a construct twice, or leaves out the construct under test, and for a missing pin.
    """
    steps = _invocation_steps(document)
    constructs = _constructs(document, [step["construct_id"] for step in steps])
    version_pins = cast("Mapping[str, Mapping[str, str]]", document["version_pins"])
    pins = version_pins.get("constructs", {})
    of_hops = steps if len(steps) > 1 else [steps[0]] * len(constructs)
    last = len(constructs) - 1
    return tuple(
        CommittedHop(
            construct_id=construct,
            version=_pin(pins, construct),
            timeout_seconds=cast("float", step.get("timeout_seconds", timeout_seconds)),
            output_spec=_output_spec(step) if len(steps) > 1 or hop == last else {},
        )
        for hop, (construct, step) in enumerate(zip(constructs, of_hops, strict=True))
    )


def committed_sanitising(document: JsonObject) -> SanitisePolicy:
    """Return how the first invocation step has inputs sanitised.

    Raises DefectError for a policy that no sanitiser understands.
    """
    spec = _invocation_steps(document)[0].get("input_spec", {})
    chosen = _SANITISE_DEFAULTS | cast("JsonObject", spec)
    markers, fields = chosen["role_markers"], chosen["raw_fields"]
    if markers not in _ROLE_MARKERS:
        raise DefectError(f"role_markers {' or '.join(_ROLE_MARKERS)}", shown(markers))
    if not isinstance(fields, list) or not all(_is_pointer(field) for field in fields):
        raise DefectError("raw_fields as an array of JSON pointers", shown(fields))
    return SanitisePolicy(role_markers=markers, raw_fields=tuple(cast("list[str]", fields)))


def _invocation_steps(document: JsonObject) -> Sequence[JsonObject]:
    programme = cast("list[JsonObject]", document["resolution_programme"])
    steps = [step for step in programme if step["type"] == INVOCATION]
    if not steps:
        raise DefectError(f"a {INVOCATION} step or more", "none")
    for step in steps:
        if "construct_id" not in step:
            raise DefectError("a construct_id in each step that calls one", shown(step))
    return steps


def _constructs(document: JsonObject, invoked: Sequence[JsonValue]) -> Sequence[str]:
    config = cast("JsonObject", document["product_theatre_config"])
    under_test = config["construct_under_test"]
    chain = cast("Sequence[JsonValue]", config.get("construct_chain", invoked))
    if invoked != chain and not (len(invoked) == 1 and invoked[0] in chain):
        wanted = f"steps for the constructs of {shown(list(chain))}, or one for all of them"
        raise DefectError(wanted, shown(list(invoked)))
    ids = Counter(cast("Sequence[str]", chain))
    if len(ids) != len(chain):
        raise DefectError("each construct once in a chain", shown(ids.most_common(1)[0][0]))
    ends = (chain[0], chain[-1]) if "construct_chain" in config else chain
    if under_test not in ends:
        wanted = f"a chain that begins or ends with the construct under test, {shown(under_test)}"
        raise DefectError(wanted, shown(list(chain)))
    return list(ids)


def _pin(pins: Mapping[str, str], construct_id: str) -> str:
    if construct_id not in pins:
        raise DefectError(f"a version pin of {shown(construct_id)}", "none")
    return pins[construct_id]


def _output_spec(step: JsonObject) -> JsonObject:
    return cast("JsonObject", step.get("output_spec", {}))


def _is_pointer(value: JsonValue) -> bool:
    return isinstance(value, str) and _POINTER.fullmatch(value) is not None
