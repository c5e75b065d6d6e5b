"""Errors of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from theatre.engine.errors import TheatreError

if TYPE_CHECKING:
    # Every start reads the classes of errors; what validates is not needed for that.
    from theatre.engine.schema_registry import SchemaViolation


class DraftError(TheatreError):
    """A draft cannot be compiled or pinned; `violations` lists everything that is wrong."""

    code = "draft-invalid"

    def __init__(self, violations: Sequence[SchemaViolation]) -> None:
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


class FolderTakenError(TheatreError):
    """A file that would be written is there already; nothing was written."""

    code = "files-there"
