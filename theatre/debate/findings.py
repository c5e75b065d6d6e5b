"""One breach of the schema, of a runtime rule, or of history, and how grave it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from theatre.engine.canonical_json import JsonObject

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Finding:
    """Where an artefact breaks which rule, and what was expected and seen.

    `pointer` is an RFC 6901 JSON Pointer ("" is the whole); `rule` is `R1` … `R18`,
    `schema:<keyword>` or `history`; `code` is stable and meant for machines. Sorts by pointer.
    """

    pointer: str
    rule: str
    code: str
    severity: Severity
    detail: str

    def as_document(self) -> JsonObject:
        """Return the form that tools read."""
        return {
            "pointer": self.pointer,
            "rule": self.rule,
            "code": self.code,
            "severity": self.severity,
            "detail": self.detail,
        }
