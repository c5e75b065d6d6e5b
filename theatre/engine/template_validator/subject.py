"""The document under validation, read without ever trusting its shape.

A member of the wrong shape reads as empty: the schema reports it, and no rule trips over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation
from theatre.engine.templates import CURRENT, EXISTING, NEWEST, SIMULATION

# What a validation found.


Violation = SchemaViolation
"""Runtime rules report in the same form as the schema."""


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Everything that is wrong (`errors`) or doubtful (`warnings`), each sorted by pointer."""

    errors: tuple[Violation, ...]
    warnings: tuple[Violation, ...]

    @property
    def valid(self) -> bool:
        """Return whether the template may be committed; warnings do not stop it."""
        return not self.errors


VERSIONS = (SIMULATION, EXISTING, CURRENT, NEWEST)
"""The versions that there are, oldest first."""

Finding: TypeAlias = tuple[str, str]
"""A JSON Pointer, and what was expected and seen there."""

Numbered: TypeAlias = Iterator[tuple[int, JsonObject]]


def as_object(value: JsonValue) -> JsonObject:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_array(value: JsonValue) -> list[JsonValue]:
    """Return `value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: JsonValue) -> str | None:
    """Return `value` if it is a string."""
    return value if isinstance(value, str) else None


def as_number(value: JsonValue) -> int | float | None:
    """Return `value` if it is a number; a boolean is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def numbered_objects(value: JsonValue) -> Numbered:
    """Yield the objects of an array with their indices."""
    for index, item in enumerate(as_array(value)):
        if isinstance(item, dict):
            yield index, item


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A document, and what it is checked against.

    `certificate_run` asks for the rules of a run that issues a certificate, `from_api` for those
    of a document that did not come from the machine it will run on.
    """

    document: JsonObject
    scorers: Mapping[str, Scorer]
    registry: SchemaRegistry
    certificate_run: bool = True
    from_api: bool = False

    @property
    def version(self) -> str:
        """Return the version that the document is read as: the newest where it names none."""
        stated = self.document.get("schema_version")
        return stated if isinstance(stated, str) and stated in VERSIONS else NEWEST

    @property
    def replays(self) -> bool:
        """Return whether this is a replay template."""
        return self.document.get("execution_path") == "replay"

    @property
    def trades(self) -> bool:
        """Return whether this is a market template."""
        return self.document.get("execution_path") == "market"

    def at(self, *keys: str) -> JsonValue:
        """Return the value below members `keys`, null where there is none."""
        value: JsonValue = self.document
        for key in keys:
            value = as_object(value).get(key)
        return value

    def object_at(self, *keys: str) -> JsonObject:
        """Return the object below members `keys`, empty where there is none."""
        return as_object(self.at(*keys))

    def product(self, member: str) -> str | None:
        """Return a string member of `product_theatre_config`."""
        return as_text(self.at("product_theatre_config", member))

    def criteria(self) -> Iterator[tuple[int, str]]:
        """Yield the criteria ids with their indices."""
        for index, criterion in enumerate(as_array(self.at("criteria", "criteria_ids"))):
            if isinstance(criterion, str):
                yield index, criterion

    def criterion_ids(self) -> frozenset[str]:
        """Return the criteria ids."""
        return frozenset(criterion for _, criterion in self.criteria())

    def steps(self, kind: str | None = None) -> Numbered:
        """Yield the steps of the programme, all or those of one type, with their indices."""
        for index, step in numbered_objects(self.at("resolution_programme")):
            if kind is None or step.get("type") == kind:
                yield index, step

    def pinned_constructs(self) -> JsonObject:
        """Return construct id → committed version."""
        return self.object_at("version_pins", "constructs")


@dataclass(frozen=True, slots=True)
class Rule:
    """One named rule: a total function from a subject to what breaks the rule there.

    `since` is the first version that it holds for.
    """

    name: str
    check: Callable[[Subject], Iterator[Finding]]
    severity: Literal["error", "warning"] = "error"
    since: str = EXISTING

    def holds_for(self, subject: Subject) -> bool:
        """Return whether the version of the document knows this rule."""
        return VERSIONS.index(subject.version) >= VERSIONS.index(self.since)
