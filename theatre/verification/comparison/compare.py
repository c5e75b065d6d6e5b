"""Sealed verifications side by side: a pure function of their bundles, and no certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring import COMPOSITE
from theatre.verification.comparison.confidence_discipline import measure_confidence_discipline
from theatre.verification.comparison.paired_differences import measure_difference
from theatre.verification.comparison.ranking import ranking
from theatre.verification.comparison.same_terms import require_comparable
from theatre.verification.comparison.sealed_runs import SealedRun, read_sealed_run

_PLACES = 6
_SHOWN = (
    "theatre_id",
    "construct_id",
    "construct_version",
    "certificate_id",
    "verification_tier",
    "caps",
    "replay_count",
    "brier",
)
_SHORT = 8


def compare_bundles(bundles: Sequence[Path]) -> JsonObject:
    """Return the paired differences, the ranking and the confidence discipline of sealed runs.

    Every pair of runs is compared in the given order, on each criterion and the composite.
    `p_holm` is the p-value with all the comparisons of the document counted (Holm 1979).

    Raises NotComparableError as `require_comparable`, and what `verification_certificate` raises
    for a bundle that earns none. Whether a bundle is honest is the business of `check_bundle`.
    """
    runs = [read_sealed_run(bundle) for bundle in bundles]
    require_comparable(runs)
    named = dict(zip(_names(runs), runs, strict=True))
    measures = [COMPOSITE, *cast("dict[str, float]", runs[0].certificate["weights"])]
    pairs = _with_holm(
        [
            {
                "first": first,
                "second": second,
                "measures": {
                    measure: measure_difference(named[first], named[second], measure)
                    for measure in measures
                },
            }
            for first, second in combinations(named, 2)
        ]
    )
    certificate = runs[0].certificate
    return {
        "is_certificate": False,
        "ground_truth_hash": certificate["ground_truth_hash"],
        "ground_truth_source": certificate["ground_truth_source"],
        "commit_range": certificate["commit_range"],
        "changes": runs[0].changes,
        "scoring_model": certificate["scoring_model"],
        "methodology_version": certificate["methodology_version"],
        "weights": certificate["weights"],
        "runs": {name: _shown(run, measures) for name, run in named.items()},
        "pairs": cast("list[JsonValue]", pairs),
        "ranking": {
            measure: ranking({name: run.scores[measure] for name, run in named.items()})
            for measure in measures
        },
    }


def _names(runs: Sequence[SealedRun]) -> Iterator[str]:
    """Yield the construct ids; with the theatre's first digits where an id is repeated."""
    ids = [cast("str", run.certificate["construct_id"]) for run in runs]
    for construct_id, run in zip(ids, runs, strict=True):
        theatre = cast("str", run.certificate["theatre_id"])[:_SHORT]
        yield construct_id if ids.count(construct_id) == 1 else f"{construct_id} ({theatre})"


def _shown(run: SealedRun, measures: Sequence[str]) -> JsonObject:
    named = cast("JsonObject", run.certificate["theatre_certificate"])
    return {
        **{name: run.certificate[name] for name in _SHOWN},
        "commitment_hash": run.commitment_hash,
        "theatre_certificate_sha256": named["sha256"],
        "scores": {measure: run.published[measure] for measure in measures},
        "counted": {measure: len(run.scores[measure]) for measure in measures},
        "confidence_discipline": measure_confidence_discipline(run),
    }


def _with_holm(pairs: list[JsonObject]) -> list[JsonObject]:
    """Add to every comparison its p-value as one of all of them; null where there is no test."""
    found = [
        one for pair in pairs for one in cast("dict[str, JsonObject]", pair["measures"]).values()
    ]
    tested = [one for one in found if one["test"] is not None]
    tested.sort(key=_p_value)
    reached = 0.0
    for place, one in enumerate(tested):
        reached = max(reached, min(1.0, _p_value(one) * (len(tested) - place)))
        one["p_holm"] = round(reached, _PLACES)
    for one in found:
        one.setdefault("p_holm", None)
    return pairs


def _p_value(one: JsonObject) -> float:
    return cast("float", cast("JsonObject", one["test"])["p_value"])
