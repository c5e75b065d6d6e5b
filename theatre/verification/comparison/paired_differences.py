"""How far two runs stand apart on the changes that count for both of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.scoring.arithmetic import NANO, rounded_number
from theatre.scorers.computations.paired_intervals import detectable_difference, mean_difference
from theatre.scorers.computations.paired_tests import mcnemar
from theatre.verification.comparison.sealed_runs import SealedRun
from theatre.verification.comparison.sign_flips import sign_flip_test

_Scores = Mapping[str, Fraction]


def measure_difference(first: SealedRun, second: SealedRun, measure: str) -> JsonObject:
    """Return first minus second on one measure, each from -1 to 1; never raises.

    `changes` count for both runs, `left_out` does not for one of them at least. `first` and
    `second` are the means over these changes, so not the published scores where some are left out.
    `difference` has its interval; `detectable` is the difference that as many changes would show
    four times in five, null where there is none up to 1. `test` is the exact McNemar test where
    all scores are 0 or 1, else the sign-flip test; null without a change.
    """
    ours, theirs = first.scores[measure], second.scores[measure]
    both = [change for change in ours if change in theirs]
    units = {change: [ours[change] - theirs[change]] for change in both}
    seed = sha256_hex(
        ":".join([*sorted((first.commitment_hash, second.commitment_hash)), measure]).encode()
    )
    return {
        "changes": len(both),
        "left_out": first.changes - len(both),
        "first": _mean([ours[change] for change in both]),
        "second": _mean([theirs[change] for change in both]),
        "difference": mean_difference(units),
        "detectable": detectable_difference(units),
        "test": _test(both, ours, theirs, seed) if both else None,
    }


def _test(both: Sequence[str], ours: _Scores, theirs: _Scores, seed: str) -> JsonObject:
    if all(scores[change] in (0, 1) for scores in (ours, theirs) for change in both):
        return {
            "test": "mcnemar",
            **mcnemar([(ours[change] == 1, theirs[change] == 1) for change in both]),
        }
    return sign_flip_test([round((ours[c] - theirs[c]) * NANO) for c in both], seed=seed)


def _mean(scores: Sequence[Fraction]) -> float | None:
    return rounded_number(sum(scores, Fraction(0)) / len(scores)) if scores else None
