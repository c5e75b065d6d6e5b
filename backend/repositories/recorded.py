"""Which episodes a journal holds, as the database says it: a few ranges, however many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class RecordedRanges:
    """Sequence numbers as ascending inclusive ranges that do not touch."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._firsts = [first for first, _ in ranges]
        self._lasts = [last for _, last in ranges]

    def __contains__(self, seq: object) -> bool:
        """Tell whether episode `seq` is recorded."""
        if not isinstance(seq, int):
            return False
        place = bisect_right(self._firsts, seq) - 1
        return place >= 0 and seq <= self._lasts[place]

    def __len__(self) -> int:
        """Return how many episodes are recorded."""
        pairs = zip(self._firsts, self._lasts, strict=True)
        return sum(last - first + 1 for first, last in pairs)
