"""Rules on programme, pins and chain (docs/contract/template.md §3)."""

from __future__ import annotations

from collections.abc import Iterator

from theatre.engine.canonical_json import JsonValue
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import (
    Finding,
    Rule,
    Subject,
    as_array,
    as_text,
    numbered_objects,
)
from theatre.engine.templates import SIMULATION

FAIL = "FAIL"
"""The escalation that ends the programme; no step may be called so."""

_PROGRAMME = "resolution_programme"
_INVOCATION = "construct_invocation"
_MAX_LISTED = 8
_CHAIN = ("product_theatre_config", "construct_chain")
_TESTED = ("product_theatre_config", "construct_under_test")


def _programme_construct_pinned(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.steps():
        construct = as_text(step.get("construct_id"))
        if construct is not None:
            pointer = json_pointer(_PROGRAMME, index, "construct_id")
            yield from _unless_pinned(subject, pointer, construct)


def _invocation_names_construct(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.steps(_INVOCATION):
        if "construct_id" not in step:
            yield (
                json_pointer(_PROGRAMME, index),
                "expected a construct_invocation step to name its construct_id, got none",
            )


def _chain_pinned(subject: Subject) -> Iterator[Finding]:
    for index, construct in enumerate(as_array(subject.at(*_CHAIN))):
        if isinstance(construct, str):
            yield from _unless_pinned(subject, json_pointer(*_CHAIN, index), construct)


def _construct_under_test_pinned(subject: Subject) -> Iterator[Finding]:
    construct = subject.product("construct_under_test")
    if construct is not None:
        yield from _unless_pinned(subject, json_pointer(*_TESTED), construct)


def _construct_under_test_invoked(subject: Subject) -> Iterator[Finding]:
    """Without a chain, a certificate for one construct cannot rest on another one's answers."""
    construct, invoked = subject.product("construct_under_test"), _invoked(subject)
    if construct is None or not invoked or as_array(subject.at(*_CHAIN)):
        return
    if construct not in invoked:
        yield (
            json_pointer(*_TESTED),
            phrase("expected a construct that the programme invokes, got ", Quoted(construct)),
        )


def _chain_matches_programme(subject: Subject) -> Iterator[Finding]:
    chain, invoked = as_array(subject.at(*_CHAIN)), _invoked(subject)
    if not chain:
        return
    whole_chain_in_one_step = len(invoked) == 1 and invoked[0] in chain
    if invoked != chain and not whole_chain_in_one_step:
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
    chain, construct = as_array(subject.at(*_CHAIN)), subject.product("construct_under_test")
    if chain and construct is not None and construct not in (chain[0], chain[-1]):
        yield (
            json_pointer(*_TESTED),
            phrase("expected the first or last construct of the chain, got ", Quoted(construct)),
        )


def _constructs_called_once(subject: Subject) -> Iterator[Finding]:
    # Answers are stored and pinned by construct: two places in an episode would share one.
    steps = [(index, step.get("construct_id")) for index, step in subject.steps(_INVOCATION)]
    called = [(json_pointer(_PROGRAMME, index, "construct_id"), each) for index, each in steps]
    chain = [
        (json_pointer(*_CHAIN, index), construct)
        for index, construct in enumerate(as_array(subject.at(*_CHAIN)))
    ]
    for places in (called, chain):
        seen: set[str] = set()
        for pointer, construct in places:
            if isinstance(construct, str) and construct in seen:
                yield (
                    pointer,
                    phrase("expected each construct once, got ", Quoted(construct), " again"),
                )
            elif isinstance(construct, str):
                seen.add(construct)


def _ids_unique(subject: Subject) -> Iterator[Finding]:
    for member, key in ((_PROGRAMME, "step_id"), ("hitl_steps", "step_id")):
        yield from _repeated(json_pointer(member), subject.at(member), key)
    forks = "fork_definitions"
    yield from _repeated(json_pointer(forks), subject.at(forks), "fork_id")
    for index, fork in numbered_objects(subject.at(forks)):
        where = json_pointer(forks, index, "options")
        yield from _repeated(where, fork.get("options"), "option_id")


def _step_id_reserved(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.steps():
        if step.get("step_id") == FAIL:
            yield (
                json_pointer(_PROGRAMME, index, "step_id"),
                f"expected a step_id other than the reserved {FAIL}, got it",
            )


def _escalation_forward(subject: Subject) -> Iterator[Finding]:
    """Only forwards: so no programme can run in a circle."""
    last = {as_text(step.get("step_id")): index for index, step in subject.steps()}
    for index, step in subject.steps():
        target = as_text(step.get("escalation_path"))
        if target is not None and target != FAIL and last.get(target, -1) <= index:
            yield (
                json_pointer(_PROGRAMME, index, "escalation_path"),
                phrase(f"expected the step_id of a later step or {FAIL}, got ", Quoted(target)),
            )


def _output_spec_schema(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.steps():
        output_spec = step.get("output_spec")
        if isinstance(output_spec, dict):
            where = json_pointer(_PROGRAMME, index, "output_spec")
            for fault in subject.registry.inline_faults(output_spec):
                yield where + fault.pointer, fault.detail


def _unless_pinned(subject: Subject, pointer: str, construct: str) -> Iterator[Finding]:
    if construct not in subject.pinned_constructs():
        yield (
            pointer,
            phrase(
                "expected a pin in version_pins.constructs for ", Quoted(construct), ", got none"
            ),
        )


def _invoked(subject: Subject) -> list[JsonValue]:
    """Return the constructs of the `construct_invocation` steps, in order."""
    constructs = (step.get("construct_id") for _, step in subject.steps(_INVOCATION))
    return [construct for construct in constructs if isinstance(construct, str)]


def _repeated(where: str, items: JsonValue, key: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, item in numbered_objects(items):
        name = as_text(item.get(key))
        if name is None:
            continue
        if name in seen:
            yield (
                where + json_pointer(index, key),
                phrase(f"expected a new {key}, got ", Quoted(name), " again"),
            )
        seen.add(name)


def _listed(constructs: list[JsonValue]) -> list[str | Quoted]:
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
    Rule("step-id-reserved", _step_id_reserved),
    Rule("escalation-forward", _escalation_forward),
    Rule("output-spec-schema", _output_spec_schema),
)
