"""`results_hash`: the lines of `scores/per_episode.jsonl`, then the aggregate without two members.

Source: docs/evidence.md, "The anchors".
"""

from __future__ import annotations

import hashlib

from theatre.engine.canonical_json import JsonObject, canonical_bytes

_NOT_HASHED = frozenset({"results_hash", "score_intervals"})


class ResultsHash:
    """Takes the lines as they come; then it gives the hash with any aggregate behind them."""

    def __init__(self) -> None:
        self._lines = hashlib.sha256()

    def add(self, lines: bytes) -> None:
        """Take the next bytes of the lines, line feeds included."""
        self._lines.update(lines)

    def of(self, aggregate: JsonObject) -> str:
        """Return the hash of the lines so far and `aggregate`."""
        hasher = self._lines.copy()
        hashed = {key: value for key, value in aggregate.items() if key not in _NOT_HASHED}
        hasher.update(canonical_bytes(hashed))
        return hasher.hexdigest()

    def within(self, aggregate: JsonObject) -> JsonObject:
        """Return `aggregate` with its own hash."""
        return aggregate | {"results_hash": self.of(aggregate)}
