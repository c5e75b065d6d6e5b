"""Drafts: what authors write, compiled into the full template that is committed.

`compilation` is pure; `pinning` adds what files decide. How a draft is written: docs/drafts.md.
"""

from theatre.drafts.compilation import compile_draft, draft_faults, is_draft, nearest
from theatre.drafts.errors import DraftError, OutdatedPinError
from theatre.drafts.ground_truth import data_faults
from theatre.drafts.pinning import PinnedDraft, changes, pin_draft, resolve_draft, stale_versions

__all__ = [
    "DraftError",
    "OutdatedPinError",
    "PinnedDraft",
    "changes",
    "compile_draft",
    "data_faults",
    "draft_faults",
    "is_draft",
    "nearest",
    "pin_draft",
    "resolve_draft",
    "stale_versions",
]
