"""How often an oracle is wrong where it is sure, and where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import NANO, ratio
from theatre.scorers.computations.paired_intervals import Tally, share_of_pairs
from theatre.verification.claim_calibration import NOT_JUDGED
from theatre.verification.comparison.sealed_runs import SealedRun, StatedClaim

CONFIDENT_FROM = 0.8
"""A claim with at least this confidence is a confident one; below it is tentative."""

NONE_STATED = "no-confidence-stated"

_THRESHOLD = NANO * 4 // 5


def measure_confidence_discipline(run: SealedRun) -> JsonObject:
    """Return how many claims were wrong, confidently and tentatively; never raises.

    `share_wrong` has an interval in which the claims of one answer count as no independent ones.
    `wrong_with_confidence` is the share of the wrong claims that were confident. A claim without
    a confidence is only counted. `reason` says why there is nothing to count, else null.
    """
    claims = run.claims
    if claims is None:
        return _result({}, {}, without=0, reason=NOT_JUDGED)
    confident = _chosen(claims, confident=True)
    tentative = _chosen(claims, confident=False)
    without = sum(one.confidence is None for said in claims.values() for one in said)
    reason = None if confident or tentative else NONE_STATED
    return _result(confident, tentative, without=without, reason=reason)


def _chosen(
    claims: Mapping[str, Sequence[StatedClaim]], *, confident: bool
) -> dict[str, Sequence[StatedClaim]]:
    """Return the stated claims of one sort, by the changes that have some."""
    chosen = {
        change: [
            one
            for one in said
            if one.confidence is not None and (one.confidence >= _THRESHOLD) is confident
        ]
        for change, said in claims.items()
    }
    return {change: said for change, said in chosen.items() if said}


def _result(
    confident: Mapping[str, Sequence[StatedClaim]],
    tentative: Mapping[str, Sequence[StatedClaim]],
    *,
    without: int,
    reason: str | None,
) -> JsonObject:
    sure, unsure = _wrong(confident), _wrong(tentative)
    return {
        "confident_from": CONFIDENT_FROM,
        "confident": _share(sure),
        "tentative": _share(unsure),
        "wrong_with_confidence": ratio(_hits(sure), _hits(sure) + _hits(unsure)),
        "without_confidence": without,
        "reason": reason,
    }


def _wrong(claims: Mapping[str, Sequence[StatedClaim]]) -> dict[str, Tally]:
    return {
        change: Tally(sum(not one.supported for one in said), len(said))
        for change, said in claims.items()
    }


def _share(units: Mapping[str, Tally]) -> JsonObject:
    return {
        "claims": sum(unit.pairs for unit in units.values()),
        "wrong": _hits(units),
        "share_wrong": share_of_pairs(units),
    }


def _hits(units: Mapping[str, Tally]) -> int:
    return sum(unit.hits for unit in units.values())
