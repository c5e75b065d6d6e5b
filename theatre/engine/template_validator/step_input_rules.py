"""Rules on what a step's `input_spec` commits: computations, and how inputs are sanitised.

Source: docs/contract/template.md §5; docs/contract/evidence.md. They hold for replays. Which
computations are installed, and what params they take, is asked when a run starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.replay_rules import named_datasets
from theatre.engine.template_validator.subject import Finding, Rule, Subject, as_array, as_object

EPISODES = "episodes"
"""What `over` names when it names no dataset: the episodes that were run."""

_PROGRAMME = "resolution_programme"
_INVOCATION, _COMPUTATION = "construct_invocation", "deterministic_computation"
_AGGREGATION = "aggregation"
_ROLE_MARKERS = ("break", "flag")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_OF_COMPUTATION = frozenset({"computation", "over", "params", "in_aggregate"})
_OF_SANITISING = frozenset({"raw_fields", "role_markers"})


def _computation_named(subject: Subject) -> Iterator[Finding]:
    for where, spec in _specs(subject, _COMPUTATION):
        name = spec.get("computation")
        if not (isinstance(name, str) and name):
            seen = phrase("got ", Quoted(name)) if "computation" in spec else "got none"
            pointer = where + json_pointer("computation") if "computation" in spec else where
            yield pointer, phrase("expected input_spec to name a registered computation, ", seen)


def _computation_over(subject: Subject) -> Iterator[Finding]:
    datasets = named_datasets(subject)
    for where, spec in _specs(subject, _COMPUTATION):
        over = spec.get("over", EPISODES)
        if not isinstance(over, str) or over not in datasets | {EPISODES}:
            yield (
                where + json_pointer("over"),
                phrase(
                    f"expected {EPISODES} or the name of a dataset that has a path, got ",
                    Quoted(over),
                ),
            )


def _computation_params(subject: Subject) -> Iterator[Finding]:
    for where, spec in _specs(subject, _COMPUTATION):
        if not isinstance(spec.get("params", {}), dict):
            detail = phrase("expected the parameters as an object, got ", Quoted(spec["params"]))
            yield where + json_pointer("params"), detail


def _computation_in_aggregate(subject: Subject) -> Iterator[Finding]:
    # The aggregate is about the results of the run, and is made at its first aggregation.
    ends = {index for index, _ in subject.steps(_AGGREGATION)}
    for index, step in subject.steps(_COMPUTATION) if subject.replays else ():
        spec = as_object(step.get("input_spec"))
        wanted = spec.get("in_aggregate", False)
        where = json_pointer(_PROGRAMME, index, "input_spec", "in_aggregate")
        if not isinstance(wanted, bool):
            yield where, phrase("expected true or false, got ", Quoted(wanted))
        elif wanted and spec.get("over", EPISODES) != EPISODES:
            yield (where, phrase(f"expected true over {EPISODES} only, got ", Quoted(spec["over"])))
        elif wanted and any(end < index for end in ends):
            yield where, "expected true before the first aggregation only, got a step behind it"


def _computation_members(subject: Subject) -> Iterator[Finding]:
    # Closed: a misspelt `over` would compute over the episodes instead.
    for where, spec in _specs(subject, _COMPUTATION):
        yield from _unread(where, spec, _OF_COMPUTATION)


def _role_markers_known(subject: Subject) -> Iterator[Finding]:
    for where, spec in _first(subject):
        markers = spec.get("role_markers", _ROLE_MARKERS[0])
        if markers not in _ROLE_MARKERS:
            detail = phrase(f"expected {' or '.join(_ROLE_MARKERS)}, got ", Quoted(markers))
            yield where + json_pointer("role_markers"), detail


def _raw_fields_are_pointers(subject: Subject) -> Iterator[Finding]:
    for where, spec in _first(subject):
        fields = spec.get("raw_fields", [])
        if not isinstance(fields, list):
            detail = phrase("expected an array of JSON Pointers, got ", Quoted(fields))
            yield where + json_pointer("raw_fields"), detail
        for index, field in enumerate(as_array(fields)):
            if not (isinstance(field, str) and _POINTER.fullmatch(field)):
                pointer = where + json_pointer("raw_fields", index)
                yield (
                    pointer,
                    phrase("expected a JSON Pointer into the input, got ", Quoted(field)),
                )


def _input_spec_read(subject: Subject) -> Iterator[Finding]:
    # A member that nothing reads is a misspelt one, or one in the wrong place.
    for number, (where, spec) in enumerate(_specs(subject, _INVOCATION)):
        yield from _unread(where, spec, _OF_SANITISING if number == 0 else frozenset())


def _unread(where: str, spec: JsonObject, known: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(spec.keys() - known):
        expected = f"only {', '.join(sorted(known))}" if known else "no member"
        yield (where + json_pointer(name), phrase(f"expected {expected} here, got ", Quoted(name)))


def _specs(subject: Subject, kind: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the `input_spec` of each step of one type, with its pointer (else the step's)."""
    if not subject.replays:
        return
    for index, step in subject.steps(kind):
        inside: tuple[JsonValue, ...] = ("input_spec",) if "input_spec" in step else ()
        yield json_pointer(_PROGRAMME, index, *inside), as_object(step.get("input_spec"))


def _first(subject: Subject) -> Iterator[tuple[str, JsonObject]]:
    yield from islice(_specs(subject, _INVOCATION), 1)


RULES = (
    Rule("computation-named", _computation_named),
    Rule("computation-over", _computation_over),
    Rule("computation-params", _computation_params),
    Rule("computation-in-aggregate", _computation_in_aggregate),
    Rule("computation-members", _computation_members),
    Rule("role-markers-known", _role_markers_known),
    Rule("raw-fields-are-pointers", _raw_fields_are_pointers),
    Rule("input-spec-read", _input_spec_read, severity="warning"),
)
