"""Rules on programme, pins, chain and what steps commit (docs/contract/template.md §3)."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.replay_rules import named_datasets
from theatre.engine.template_validator.subject import Finding, Rule, Subject
from theatre.engine.templates import SIMULATION

FAIL = "FAIL"
"""The escalation that ends the programme; no step may be called so."""

MAX_ID_BYTES = 255

_PROGRAMME = "resolution_programme"
_INVOCATION, _COMPUTATION = "construct_invocation", "deterministic_computation"
_AGGREGATION = "aggregation"
_MAX_LISTED = 8
_CHAIN = ("product_theatre_config", "construct_chain")
_TESTED = ("product_theatre_config", "construct_under_test")


def _programme_construct_pinned(subject: Subject) -> Iterator[Finding]:
    for index, step in enumerate(subject.template.resolution_programme):
        if step.construct_id is not None:
            pointer = json_pointer(_PROGRAMME, index, "construct_id")
            yield from _unless_pinned(subject, pointer, step.construct_id)


def _invocation_names_construct(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.template.steps(_INVOCATION):
        if "construct_id" not in step.model_fields_set:
            yield (
                json_pointer(_PROGRAMME, index),
                "expected a construct_invocation step to name its construct_id, got none",
            )


def _chain_pinned(subject: Subject) -> Iterator[Finding]:
    for index, construct in enumerate(subject.config.construct_chain):
        if construct:
            yield from _unless_pinned(subject, json_pointer(*_CHAIN, index), construct)


def _construct_under_test_pinned(subject: Subject) -> Iterator[Finding]:
    construct = subject.config.construct_under_test
    if construct:
        yield from _unless_pinned(subject, json_pointer(*_TESTED), construct)


def _construct_under_test_invoked(subject: Subject) -> Iterator[Finding]:
    """Without a chain, a certificate for one construct cannot rest on another one's answers."""
    construct, invoked = subject.config.construct_under_test, _invoked(subject)
    if not construct or subject.config.construct_chain or construct in invoked:
        return
    template = subject.template
    # Of a call that names no construct, and of a construct that is not pinned, other rules speak.
    is_pinned = template.replays and construct in template.version_pins.constructs
    is_silent = template.resolution_programme and not any(template.steps(_INVOCATION))
    if invoked or (is_pinned and is_silent):
        yield (
            json_pointer(*_TESTED),
            phrase("expected a construct that the programme invokes, got ", Quoted(construct)),
        )


def _chain_matches_programme(subject: Subject) -> Iterator[Finding]:
    chain, invoked = subject.config.construct_chain, _invoked(subject)
    whole_chain_in_one_step = len(invoked) == 1 and invoked[0] in chain
    if chain and invoked != chain and not whole_chain_in_one_step:
        yield (
            json_pointer(*_CHAIN),
            phrase(
                "expected the constructs of the construct_invocation steps in their order (",
                *_listed(invoked),
                "), got ",
                *_listed(chain),
            ),
        )


def _chain_ends_in_construct_under_test(subject: Subject) -> Iterator[Finding]:
    chain, construct = subject.config.construct_chain, subject.config.construct_under_test
    if chain and construct and construct not in (chain[0], chain[-1]):
        yield (
            json_pointer(*_TESTED),
            phrase("expected the first or last construct of the chain, got ", Quoted(construct)),
        )


def _constructs_called_once(subject: Subject) -> Iterator[Finding]:
    # Answers are stored and pinned by construct: two places in an episode would share one.
    called = [
        (json_pointer(_PROGRAMME, index, "construct_id"), step.construct_id)
        for index, step in subject.template.steps(_INVOCATION)
    ]
    chain = [
        (json_pointer(*_CHAIN, index), construct)
        for index, construct in enumerate(subject.config.construct_chain)
    ]
    for places in (called, chain):
        for pointer, construct in _repeated(places):
            yield pointer, phrase("expected each construct once, got ", Quoted(construct), " again")


def _ids_unique(subject: Subject) -> Iterator[Finding]:
    template = subject.template
    groups: list[tuple[str, str, Iterable[str]]] = [
        (
            json_pointer(_PROGRAMME),
            "step_id",
            (one.step_id for one in template.resolution_programme),
        ),
        (json_pointer("hitl_steps"), "step_id", (one.step_id for one in template.hitl_steps)),
        ("/fork_definitions", "fork_id", (one.fork_id for one in template.fork_definitions)),
    ]
    for at, fork in enumerate(template.fork_definitions):
        options = json_pointer("fork_definitions", at, "options")
        groups.append((options, "option_id", (option.option_id for option in fork.options)))
    for where, key, names in groups:
        places = ((where + json_pointer(at, key), name) for at, name in enumerate(names))
        for pointer, name in _repeated(places):
            yield pointer, phrase(f"expected a new {key}, got ", Quoted(name), " again")


def _ids_fit(subject: Subject) -> Iterator[Finding]:
    # An entry of the log holds a template's and a construct's id within 1 KiB.
    pins = json_pointer("version_pins", "constructs")
    named = {pins + json_pointer(one): one for one in subject.template.version_pins.constructs}
    for pointer, name in {**named, "/theatre_id": subject.template.theatre_id}.items():
        written = json.dumps(name, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
        if len(written) > MAX_ID_BYTES:
            yield (
                pointer,
                f"expected an id of at most {MAX_ID_BYTES} bytes in JSON, got {len(written)}",
            )


def _step_id_reserved(subject: Subject) -> Iterator[Finding]:
    for index, step in enumerate(subject.template.resolution_programme):
        if step.step_id == FAIL:
            yield (
                json_pointer(_PROGRAMME, index, "step_id"),
                f"expected a step_id other than the reserved {FAIL}, got it",
            )


def _escalation_forward(subject: Subject) -> Iterator[Finding]:
    """Only forwards: so no programme can run in a circle."""
    steps = subject.template.resolution_programme
    last = {step.step_id: index for index, step in enumerate(steps)}
    for index, step in enumerate(steps):
        target = step.escalation_path
        if target is not None and target != FAIL and last.get(target, -1) <= index:
            yield (
                json_pointer(_PROGRAMME, index, "escalation_path"),
                phrase(f"expected the step_id of a later step or {FAIL}, got ", Quoted(target)),
            )


def _output_spec_schema(subject: Subject) -> Iterator[Finding]:
    for index, step in enumerate(subject.template.resolution_programme):
        where = json_pointer(_PROGRAMME, index, "output_spec")
        for fault in subject.registry.inline_faults(step.output_spec):
            yield where + fault.pointer, fault.detail


def _unless_pinned(subject: Subject, pointer: str, construct: str) -> Iterator[Finding]:
    if construct not in subject.template.version_pins.constructs:
        yield (
            pointer,
            phrase(
                "expected a pin in version_pins.constructs for ", Quoted(construct), ", got none"
            ),
        )


def _invoked(subject: Subject) -> tuple[str, ...]:
    constructs = (step.construct_id for _, step in subject.template.steps(_INVOCATION))
    return tuple(construct for construct in constructs if construct is not None)


def _repeated(places: Iterable[tuple[str, str | None]]) -> Iterator[tuple[str, str]]:
    """Yield of the names at `places` those that came before."""
    seen: set[str] = set()
    for pointer, name in places:
        if name in seen:
            yield pointer, name
        elif name:
            seen.add(name)


def _listed(constructs: Sequence[str]) -> list[str | Quoted]:
    first: list[str | Quoted] = []
    for construct in constructs[:_MAX_LISTED]:
        first += [" → ", Quoted(construct)]
    cut = [" → …"] if len(constructs) > _MAX_LISTED else []
    return [*first[1:], *cut] or ["none"]


RULES = (
    Rule("programme-construct-pinned", _programme_construct_pinned),
    Rule("invocation-names-construct", _invocation_names_construct),
    Rule("chain-pinned", _chain_pinned),
    Rule("construct-under-test-pinned", _construct_under_test_pinned),
    Rule("construct-under-test-invoked", _construct_under_test_invoked),
    Rule("chain-matches-programme", _chain_matches_programme),
    Rule("chain-ends-in-construct-under-test", _chain_ends_in_construct_under_test),
    Rule("constructs-called-once", _constructs_called_once),
    Rule("ids-unique", _ids_unique, since=SIMULATION),
    Rule("ids-fit", _ids_fit, since=SIMULATION),
    Rule("step-id-reserved", _step_id_reserved),
    Rule("escalation-forward", _escalation_forward),
    Rule("output-spec-schema", _output_spec_schema),
)


# Rules on what a step's `input_spec` commits: computations, and how inputs are sanitised.
#
# Source: docs/contract/template.md §5; docs/contract/evidence.md. They hold for replays. Which
# computations are installed, and what params they take, is asked when a run starts. The object is
# open: its members may hold anything.


EPISODES = "episodes"
"""What `over` names when it names no dataset: the episodes that were run."""

_ROLE_MARKERS = ("break", "flag")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_OF_COMPUTATION = frozenset({"computation", "over", "params", "in_aggregate"})
_OF_SANITISING = frozenset({"raw_fields", "role_markers"})


def _computation_named(subject: Subject) -> Iterator[Finding]:
    for where, spec in _specs(subject, _COMPUTATION):
        name = spec.get("computation")
        if not (isinstance(name, str) and name):
            seen = phrase("got ", Quoted(name)) if "computation" in spec else "got none"
            pointer = f"{where}/computation" if "computation" in spec else where
            yield pointer, phrase("expected input_spec to name a registered computation, ", seen)


def _computation_over(subject: Subject) -> Iterator[Finding]:
    datasets = named_datasets(subject)
    for where, spec in _specs(subject, _COMPUTATION):
        over = spec.get("over", EPISODES)
        if not isinstance(over, str) or over not in datasets | {EPISODES}:
            yield (
                f"{where}/over",
                phrase(
                    f"expected {EPISODES} or the name of a dataset that has a path, got ",
                    Quoted(over),
                ),
            )


def _computation_params(subject: Subject) -> Iterator[Finding]:
    for where, spec in _specs(subject, _COMPUTATION):
        if not isinstance(spec.get("params", {}), dict):
            detail = phrase("expected the parameters as an object, got ", Quoted(spec["params"]))
            yield f"{where}/params", detail


def _computation_in_aggregate(subject: Subject) -> Iterator[Finding]:
    # The aggregate is about the results of the run, and is made at its first aggregation.
    ends = {index for index, _ in subject.template.steps(_AGGREGATION)}
    for index, step in subject.template.steps(_COMPUTATION) if subject.template.replays else ():
        wanted = step.input_spec.get("in_aggregate", False)
        over = step.input_spec.get("over", EPISODES)
        where = json_pointer(_PROGRAMME, index, "input_spec", "in_aggregate")
        if not isinstance(wanted, bool):
            yield where, phrase("expected true or false, got ", Quoted(wanted))
        elif wanted and over != EPISODES:
            yield where, phrase(f"expected true over {EPISODES} only, got ", Quoted(over))
        elif wanted and any(end < index for end in ends):
            yield where, "expected true before the first aggregation only, got a step behind it"


def _computation_members(subject: Subject) -> Iterator[Finding]:
    # Closed: a misspelt `over` would compute over the episodes instead.
    for where, spec in _specs(subject, _COMPUTATION):
        yield from _unread(where, spec, _OF_COMPUTATION)


def _role_markers_known(subject: Subject) -> Iterator[Finding]:
    for where, spec in islice(_specs(subject, _INVOCATION), 1):
        markers = spec.get("role_markers", _ROLE_MARKERS[0])
        if markers not in _ROLE_MARKERS:
            detail = phrase(f"expected {' or '.join(_ROLE_MARKERS)}, got ", Quoted(markers))
            yield f"{where}/role_markers", detail


def _raw_fields_are_pointers(subject: Subject) -> Iterator[Finding]:
    for where, spec in islice(_specs(subject, _INVOCATION), 1):
        fields = spec.get("raw_fields", [])
        if not isinstance(fields, list):
            detail = phrase("expected an array of JSON Pointers, got ", Quoted(fields))
            yield f"{where}/raw_fields", detail
            continue
        for index, field in enumerate(fields):
            if not (isinstance(field, str) and _POINTER.fullmatch(field)):
                yield (
                    where + json_pointer("raw_fields", index),
                    phrase("expected a JSON Pointer into the input, got ", Quoted(field)),
                )


def _input_spec_read(subject: Subject) -> Iterator[Finding]:
    # A member that nothing reads is a misspelt one, or one in the wrong place.
    for number, (where, spec) in enumerate(_specs(subject, _INVOCATION)):
        yield from _unread(where, spec, _OF_SANITISING if number == 0 else frozenset())


def _unread(where: str, spec: dict[str, Any], known: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(spec.keys() - known):
        expected = f"only {', '.join(sorted(known))}" if known else "no member"
        yield where + json_pointer(name), phrase(f"expected {expected} here, got ", Quoted(name))


def _specs(subject: Subject, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, step in subject.template.steps(kind) if subject.template.replays else ():
        inside = ("input_spec",) if "input_spec" in step.model_fields_set else ()
        yield json_pointer(_PROGRAMME, index, *inside), step.input_spec


STEP_INPUT_RULES = (
    Rule("computation-named", _computation_named),
    Rule("computation-over", _computation_over),
    Rule("computation-params", _computation_params),
    Rule("computation-in-aggregate", _computation_in_aggregate),
    Rule("computation-members", _computation_members),
    Rule("role-markers-known", _role_markers_known),
    Rule("raw-fields-are-pointers", _raw_fields_are_pointers),
    Rule("input-spec-read", _input_spec_read, severity="warning"),
)
