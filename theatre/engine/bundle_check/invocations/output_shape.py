"""Whether the output of a call fits what its step committed (docs/evidence.md, "Output shape")."""

from __future__ import annotations

from dataclasses import dataclass

from theatre.engine.bundle_check.reading.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import SchemaRegistry, SchemaViolation

OUTPUT_SPEC = "output-spec"
"""The reason of an answer that was not accepted for its output alone."""

MAX_RAW_BYTES = 1024 * 1024
"""What an attempt keeps of an answer: at most so many bytes as JSON."""

_LONGEST_CHARACTER = 6
"""The bytes of one character as JSON, at most: it may be what no longer fitted."""

_MAX_POINTER = 1000


@dataclass(frozen=True, slots=True)
class OutputShape:
    """One committed `output_spec`; an empty one lets any output pass."""

    spec: JsonObject
    registry: SchemaRegistry

    def require_fit(self, output: JsonObject) -> None:
        """Raise DefectError for the output of an accepted answer that does not fit."""
        for violation in self._violations(output):
            raise DefectError(
                "an output that fits the committed output_spec",
                f"{violation.pointer}: {violation.detail}",
            )

    def require_misfit(self, raw: JsonValue, detail: JsonValue) -> None:
        """Raise DefectError unless `raw` is a canonical output that does not fit.

        `detail` has to name the place. Of an output that was cut at the limit nothing can be
        said.
        """
        if not self.spec:
            raise DefectError(f"no reason {OUTPUT_SPEC} without an output_spec", OUTPUT_SPEC)
        if not isinstance(raw, str):
            raise DefectError("raw with the output that did not fit", shown(raw))
        encoded = raw.encode("utf-8")
        try:
            output = parse_object(encoded)
        except ParseError as error:
            if len(canonical_bytes(raw)) < MAX_RAW_BYTES - _LONGEST_CHARACTER:
                raise DefectError("raw with an output as canonical JSON", str(error)) from error
            return
        if canonical_bytes(output) != encoded:
            raise DefectError("raw with an output as canonical JSON", "another form")
        violations = self._violations(output)
        if not violations:
            raise DefectError("an output that does not fit, as its reason says", "one that does")
        pointer = violations[0].pointer
        if survives(pointer) and not (isinstance(detail, str) and pointer in detail):
            raise DefectError(f"error_detail with the pointer {pointer}", shown(detail))

    def _violations(self, output: JsonObject) -> list[SchemaViolation]:
        return self.registry.validate_inline(self.spec, output) if self.spec else []


def survives(pointer: str) -> bool:
    """Tell whether a message shows a pointer as it is: it is short, and nothing in it is hidden."""
    return len(pointer) <= _MAX_POINTER and pointer.isascii() and pointer.isprintable()
