"""The episodes that are called a second time (docs/evidence.md, "Repeats")."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable

from theatre.engine.models import GroundTruthEpisode


def repeated_episodes(
    episodes: Iterable[GroundTruthEpisode], commitment_hash: str, size: int
) -> frozenset[int]:
    """Return the `seq` of the `size` episodes with the smallest digests, streaming.

    A digest is SHA-256(commitment_hash + ":det:" + episode_id): whoever commits a template
    cannot choose which of its episodes are repeated.
    """
    if size == 0:
        return frozenset()
    digests = ((_digest(commitment_hash, episode.episode_id), episode.seq) for episode in episodes)
    return frozenset(seq for _, seq in heapq.nsmallest(size, digests))


def _digest(commitment_hash: str, episode_id: str) -> bytes:
    return hashlib.sha256(f"{commitment_hash}:det:{episode_id}".encode()).digest()
