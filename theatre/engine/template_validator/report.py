"""What a validation found."""

from __future__ import annotations

from dataclasses import dataclass

from theatre.engine.schema_registry import SchemaViolation

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
