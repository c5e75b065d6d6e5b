"""Schemas that come inside documents or plug-ins, and whether they can be used.

A template's author writes `output_spec`, a plug-in ships `params_schema`: neither is trusted to
be a schema, to stand on its own, or to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from theatre.engine.schema_registry.dialect import FORMATS
from theatre.engine.schema_registry.violations import Quoted, SchemaViolation, json_pointer, phrase

UNUSABLE = "schema:unusable"
"""The rule that an inline schema breaks when it is no schema, or reaches outside itself."""

_REFERENCES = ("$ref", "$dynamicRef")


def schema_faults(schema: Mapping[str, object]) -> list[SchemaViolation]:
    """Return why `schema` cannot be used, pointers into the schema; empty where it can.

    It must be valid draft 2020-12, name no `$id` below its root, and every reference in it must
    be local (`#…`) and lead to a schema.
    """
    faults = _not_a_schema(schema, "")
    if faults:
        return faults
    registry = _registry_of(schema)
    return sorted(
        fault for path, node in _objects(schema) for fault in _node_faults(path, node, registry)
    )


def _not_a_schema(schema: object, base: str) -> list[SchemaViolation]:
    try:
        Draft202012Validator.check_schema(schema, format_checker=FORMATS)  # type: ignore[arg-type]  # whatever it is
    except SchemaError as error:
        where = base + json_pointer(*error.absolute_path)
        detail = phrase("expected a JSON Schema 2020-12, got ", Quoted(error.instance))
        return [SchemaViolation(where, UNUSABLE, detail)]
    return []


def _registry_of(schema: Mapping[str, object]) -> Registry[object]:
    # Under an empty base URI a fragment is looked up in this very document, whatever its $id.
    anonymous = {key: value for key, value in schema.items() if key != "$id"}
    resource = DRAFT202012.create_resource(anonymous)
    registry: Registry[object] = Registry().with_resource("", resource)
    return registry


def _objects(schema: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    stack: list[tuple[str, object]] = [("", schema)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, Mapping):
            yield path, node
            stack.extend((path + json_pointer(key), value) for key, value in node.items())
        elif isinstance(node, list):
            stack.extend((path + json_pointer(at), value) for at, value in enumerate(node))


def _node_faults(
    path: str, node: Mapping[str, object], registry: Registry[object]
) -> Iterator[SchemaViolation]:
    if path and isinstance(node.get("$id"), str):
        yield SchemaViolation(path, UNUSABLE, "expected no $id below the root, got one")
    for keyword in _REFERENCES:
        reference = node.get(keyword)
        if isinstance(reference, str):
            yield from _reference_faults(path + json_pointer(keyword), reference, registry)


def _reference_faults(
    path: str, reference: str, registry: Registry[object]
) -> Iterator[SchemaViolation]:
    if not reference.startswith("#"):
        detail = phrase("expected a local reference (#…), got ", Quoted(reference))
        yield SchemaViolation(path, UNUSABLE, detail)
        return
    try:
        target = registry.resolver().lookup(reference).contents
    except Unresolvable:
        detail = phrase("expected a reference that leads to a schema, got ", Quoted(reference))
        yield SchemaViolation(path, UNUSABLE, detail)
        return
    yield from _not_a_schema(target, path)
