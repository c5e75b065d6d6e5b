"""The holdout split: drawn by the commitment hash, so everybody can recompute it."""

from __future__ import annotations

import hashlib
from fractions import Fraction

_DRAW_RANGE = 2**64


def is_held_out(commitment_hash: str, episode_id: str, split: Fraction) -> bool:
    """Tell whether an episode is held out at share `split` (0 … 1/2).

    Source: contract/scoring.md, "Holdout". Shows over-fitting, not fraud: an author can try
    templates until a split suits.
    """
    digest = hashlib.sha256(f"{commitment_hash}:{episode_id}".encode()).hexdigest()
    return Fraction(int(digest[:16], 16), _DRAW_RANGE) < split
