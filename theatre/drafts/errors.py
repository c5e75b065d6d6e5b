"""Errors of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from theatre.engine.errors import TheatreError


class Violation(Protocol):
    """One breach, as `theatre.engine.schema_registry.SchemaViolation` has it.

    Named here by its shape: every command knows the errors, few load the schemas.
    """

    @property
    def pointer(self) -> str:
        """Return where it is, as a JSON Pointer."""

    @property
    def rule(self) -> str:
        """Return which rule it breaks."""

    @property
    def detail(self) -> str:
        """Return what was expected and seen."""


class DraftError(TheatreError):
    """A draft cannot be compiled or pinned; `violations` lists everything that is wrong."""

    code = "draft-invalid"

    def __init__(self, violations: Sequence[Violation]) -> None:
        """Report all of them, one a line."""
        listed = "\n".join(
            f"  {one.pointer or '/'} [{one.rule}] {one.detail}" for one in violations
        )
        super().__init__(
            f"the draft has {len(violations)} mistake(s):\n{listed}\n"
            "correct them; `echelon validate` says whether that was all"
        )
        self.violations = tuple(violations)


class OutdatedPinError(TheatreError):
    """A pinned template is not what its draft, data and construct give now."""

    code = "pin-outdated"


class TableError(TheatreError):
    """Data that people have cannot be made into ground truth."""

    code = "data-unreadable"


class FolderTakenError(TheatreError):
    """A file that would be written is there already; nothing was written."""

    code = "files-there"
