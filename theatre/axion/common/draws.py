"""Draws that follow from a seed and nothing else: no global state, the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_BITS = 64


class Draws:
    """A stream of draws from SHA-256(seed, counter)."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._count = 0

    def below(self, bound: int) -> int:
        """Return an integer in [0, bound), bound ≥ 1, uniform: what would be biased is redrawn."""
        limit = (1 << _BITS) - (1 << _BITS) % bound
        while True:
            block = hashlib.sha256(self._seed + self._count.to_bytes(8, "big")).digest()
            self._count += 1
            number = int.from_bytes(block[:8], "big")
            if number < limit:
                return number % bound

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items in a drawn order (Fisher and Yates)."""
        order = list(items)
        for place in range(len(order) - 1, 0, -1):
            other = self.below(place + 1)
            order[place], order[other] = order[other], order[place]
        return order

    def sample(self, items: Sequence[_Item], count: int) -> list[_Item]:
        """Return `count` different items, or all of them where there are fewer."""
        return self.shuffled(items)[:count]
