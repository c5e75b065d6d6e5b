"""Which episodes people are asked to rate: drawn by the commitment hash, among the scored ones."""

from __future__ import annotations

import hashlib
import heapq


class ItemDraw:
    """Keeps the episodes with the smallest SHA-256(commitment_hash + ":hitl:" + episode_id).

    Everybody can recompute the draw, and nobody chose it. Memory grows with `size` only.
    """

    def __init__(self, commitment_hash: str, size: int) -> None:
        self._prefix = f"{commitment_hash}:hitl:"
        self._size = size
        # A heap of the smallest ranks, negated: the largest one stands first.
        self._kept: list[tuple[int, str, int]] = []

    def add(self, episode_id: str, row: int) -> None:
        """Take a scored episode and the row of its unit."""
        if not self._size:
            return
        digest = hashlib.sha256(f"{self._prefix}{episode_id}".encode()).digest()
        entry = (-int.from_bytes(digest, "big"), episode_id, row)
        if len(self._kept) < self._size:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def drawn(self, count: int) -> dict[str, int]:
        """Return the first `count` episodes → their rows, in ascending order of their hashes."""
        ranked = sorted(self._kept, reverse=True)
        return {episode_id: row for _, episode_id, row in ranked[:count]}
