"""Which episodes people are asked to rate: drawn by the coin, among the scored ones."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class ItemDraw:
    """Keeps the `size` episodes of the smallest ranks. Memory grows with `size` only."""

    def __init__(self, rank: Callable[[str], bytes], size: int) -> None:
        self._rank = rank
        self._size = size
        # A heap of the smallest ranks, negated: the largest one stands first.
        self._kept: list[tuple[int, str, int]] = []

    def add(self, episode_id: str, row: int) -> None:
        """Take a scored episode and the row of its unit."""
        if not self._size:
            return
        entry = (-int.from_bytes(self._rank(episode_id), "big"), episode_id, row)
        if len(self._kept) < self._size:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def draw(self, count: int) -> dict[str, int]:
        """Return the first `count` episodes → their rows, in ascending order of their ranks."""
        ranked = sorted(self._kept, reverse=True)
        return {episode_id: row for _, episode_id, row in ranked[:count]}
