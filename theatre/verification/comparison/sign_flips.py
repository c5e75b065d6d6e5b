"""The sign-flip test: whether such differences could come about if neither oracle were better.

Source: Fisher 1935, "The Design of Experiments"; for the p-value of random draws Phipson and
Smyth 2010. If neither is better, each difference could as well have had the other sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from theatre.engine.canonical_json import JsonObject

MAX_ENUMERATED = 16
"""Up to so many differences that are not 0, all signs are gone through; above, they are drawn."""
DRAWS = 20_000

_ROWS = 1_000
_WORD = 64
_PLACES = 6


def sign_flip_test(differences: Sequence[int], *, seed: str) -> JsonObject:
    """Return the two-sided p-value of the sum of `differences`, in billionths.

    `differing` counts those that are not 0; `draws` is null where all signs were gone through,
    and the p-value exact. Where signs are drawn (from `seed`, hexadecimal digits), the observed
    ones count as a draw, so it is never below 1 / (draws + 1).
    """
    moved = np.array([one for one in differences if one], dtype=np.int64)
    if len(moved) <= MAX_ENUMERATED:
        return _result(len(moved), _enumerated(moved), draws=None)
    return _result(len(moved), _drawn(moved, seed), draws=DRAWS)


def _result(differing: int, p_value: float, *, draws: int | None) -> JsonObject:
    return {
        "test": "sign_flip",
        "differing": differing,
        "draws": draws,
        "p_value": round(p_value, _PLACES),
    }


def _enumerated(moved: npt.NDArray[np.int64]) -> float:
    sums = np.zeros(1, dtype=np.int64)
    for one in moved:
        sums = np.concatenate((sums + one, sums - one))
    return float(np.mean(np.abs(sums) >= abs(int(moved.sum()))))


def _drawn(moved: npt.NDArray[np.int64], seed: str) -> float:
    source = np.random.PCG64(int(seed, 16))
    words = -(-len(moved) // _WORD)
    total, beyond = int(moved.sum()), 0
    for _ in range(DRAWS // _ROWS):
        raw = source.random_raw(_ROWS * words).astype("<u8").reshape(_ROWS, words)
        heads = np.unpackbits(raw.view(np.uint8), axis=1)[:, : len(moved)]
        sums = 2 * (heads.astype(np.int64) @ moved) - total
        beyond += int(np.count_nonzero(np.abs(sums) >= abs(total)))
    return (beyond + 1) / (DRAWS + 1)
