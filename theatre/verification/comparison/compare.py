"""Sealed verifications side by side: a pure function of their bundles, and no certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring import COMPOSITE
from theatre.engine.scoring.arithmetic import ratio, rounded_number
from theatre.verification.comparison.sealed_runs import (
    SealedRun,
    measure_confidence_discipline,
    measure_difference,
    read_sealed_run,
)
from theatre.verification.errors import NotComparableError
from theatre.verification.records import find_differences

# Ranks runs on the changes that count for all of them.


def ranking(scores: Mapping[str, Mapping[str, Fraction]]) -> JsonObject:
    """Return how the runs rank by their means on one measure; `scores` are by run and change.

    Over `changes` that count for every run, so that no oracle gains by declining hard changes;
    without one, `runs` is empty. In it: `mean`; `rank`, 1 for the highest, which equal means share;
    `tied`, how many others have the same; `percentile`, 0 to 100, the share of the *other* runs
    that lie below, with equal ones counted half, null where there are no others; `of`, how many are
    ranked.
    """
    common = set.intersection(*(set(counted) for counted in scores.values()))
    means = {
        name: sum((counted[change] for change in common), Fraction(0)) / len(common)
        for name, counted in scores.items()
        if common
    }
    return {"changes": len(common), "runs": {name: _place(name, means) for name in means}}


def _place(name: str, means: Mapping[str, Fraction]) -> JsonObject:
    own = means[name]
    others = [mean for other, mean in means.items() if other != name]
    below, tied = sum(mean < own for mean in others), others.count(own)
    return {
        "mean": rounded_number(own),
        "rank": 1 + len(others) - below - tied,
        "tied": tied,
        "percentile": ratio(100 * (2 * below + tied), 2 * len(others)),
        "of": len(means),
    }


# Whether sealed runs can be compared: the same ground truth, scorers and terms, another oracle.


_FEWEST = 2
_PATHS = 5
_ORACLE = {
    "version_pins": ("constructs", "adapter_version"),
    "product_theatre_config": ("construct_under_test", "adapter_type", "adapter_endpoint"),
}
"""What a template says of the oracle alone; all else are the terms."""

_KINDS = (
    ("ground truth", ("dataset_hashes", "oracle_config.repository")),
    ("scorers", ("scorer_pins", "scoring", "version_pins", "criteria.criteria_ids")),
)


def require_comparable(runs: Sequence[SealedRun]) -> None:
    """Raise NotComparableError unless all runs differ in nothing but the oracle.

    So for fewer than two, for the same run twice, and for templates that commit to other ground
    truth, other scorers or other terms: the first few members that differ are named.
    """
    if len(runs) < _FEWEST:
        raise NotComparableError(f"expected at least two runs to compare, got {len(runs)}")
    theatres = [run.certificate["theatre_id"] for run in runs]
    again = next((one for one in theatres if theatres.count(one) > 1), None)
    if again is not None:
        raise NotComparableError(f"expected each run once, got theatre {again} more than once")
    first = _terms(runs[0].template)
    for run in runs[1:]:
        paths = list(find_differences(first, _terms(run.template)))
        if paths:
            raise NotComparableError(
                f"expected runs with the same {_kind(paths)}, got other members in theatres "
                f"{theatres[0]} and {run.certificate['theatre_id']}: {', '.join(paths[:_PATHS])}"
            )


def _terms(template: JsonObject) -> JsonObject:
    terms: dict[str, Any] = deepcopy(template)
    for member, names in _ORACLE.items():
        for name in names:
            terms[member].pop(name, None)
    for step in terms["resolution_programme"]:
        step.pop("construct_id", None)
    return terms


def _kind(paths: Sequence[str]) -> str:
    for kind, members in _KINDS:
        if any(path == one or path.startswith(f"{one}.") for path in paths for one in members):
            return kind
    return "terms"


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
