"""Aggregate and results hash, held against what is recomputed."""

from __future__ import annotations

from typing import cast

from theatre.engine.bundle_check.reading.documents import (
    AGGREGATE,
    CERTIFICATE,
    PER_EPISODE,
    Documents,
)
from theatre.engine.bundle_check.reading.folder import BundleFolder
from theatre.engine.bundle_check.reading.json_values import (
    NOTHING,
    DefectError,
    Nothing,
    at,
    same_json,
    shown,
)
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.bundle_check.scores.results_hash import ResultsHash
from theatre.engine.canonical_json import JsonObject, JsonValue

BOUND_TOLERANCE = 2e-6
"""How far an interval's bound may lie from the recomputed one (contract/scoring.md)."""

_ROUNDING = 1e-12


def check_aggregate(documents: Documents, recomputed: JsonObject | Cause, ledger: Ledger) -> None:
    """Make the check `aggregate`."""
    if isinstance(recomputed, Cause):
        ledger.cannot(CheckId.AGGREGATE, recomputed)
        return
    seen = documents.at(AGGREGATE)
    intervals = at(seen, "score_intervals")
    expected: JsonObject = dict(recomputed)
    if _near(recomputed["score_intervals"], intervals):
        expected["score_intervals"] = cast("JsonValue", intervals)
    ledger.compare(CheckId.AGGREGATE, "aggregate.json", expected, seen)
    ledger.completed(CheckId.AGGREGATE, f"composite {shown(recomputed['composite_score'])}")


def _near(expected: JsonValue, actual: JsonValue | Nothing) -> bool:
    """Tell whether all intervals agree: bounds within the tolerance, everything else exactly."""
    names = at(expected), at(actual)
    if not all(isinstance(value, dict) for value in names):
        return False
    wanted, found = cast("JsonObject", expected), cast("JsonObject", actual)
    return wanted.keys() == found.keys() and all(
        _near_interval(interval, found[name]) for name, interval in wanted.items()
    )


def _near_interval(expected: JsonValue, actual: JsonValue) -> bool:
    moved = dict(cast("JsonObject", expected))
    for bound in ("low", "high"):
        wanted, found = at(expected, bound), at(actual, bound)
        if _is_number(wanted) and _is_number(found):
            distance = abs(cast("float", wanted) - cast("float", found))
            if distance <= BOUND_TOLERANCE + _ROUNDING:
                moved[bound] = cast("JsonValue", found)
    return same_json(moved, actual)


def _is_number(value: JsonValue | Nothing) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_results_hash(folder: BundleFolder, documents: Documents, ledger: Ledger) -> str | Nothing:
    """Make the check `results-hash` over the score files as they are; return that hash."""
    aggregate = documents.get(AGGREGATE)
    if aggregate is None:
        ledger.cannot(CheckId.RESULTS_HASH, Cause(f"{AGGREGATE} cannot be read"))
        return NOTHING
    hasher = ResultsHash()
    try:
        for chunk in folder.chunks(PER_EPISODE):
            hasher.add(chunk)
    except DefectError as defect:
        ledger.wrong(CheckId.RESULTS_HASH, defect.expected, defect.actual)
        return NOTHING
    results_hash = hasher.of(aggregate)
    for path in (AGGREGATE, CERTIFICATE):
        seen = documents.at(path, "results_hash")
        ledger.compare(CheckId.RESULTS_HASH, f"results_hash of {path}", results_hash, seen)
    ledger.completed(CheckId.RESULTS_HASH, results_hash)
    return results_hash
