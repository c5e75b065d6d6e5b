"""Which episodes are called a second time (contract/construct.md, "Order, … determinism")."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable


def deterministic_sample(
    commitment_hash: str, episode_ids: Iterable[str], size: int
) -> frozenset[str]:
    """Return the `size` ids with the smallest SHA-256(commitment_hash + ":det:" + id).

    Everybody can recompute the sample, and nobody chose it. Memory grows with `size` only.
    """

    def rank(episode_id: str) -> bytes:
        return hashlib.sha256(f"{commitment_hash}:det:{episode_id}".encode()).digest()

    return frozenset(heapq.nsmallest(size, episode_ids, key=rank)) if size else frozenset()
