"""Whether sealed runs can be compared: the same ground truth, scorers and terms, another oracle."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from theatre.engine.canonical_json import JsonObject
from theatre.verification.comparison.sealed_runs import SealedRun
from theatre.verification.documents import find_differences
from theatre.verification.errors import NotComparableError

_FEWEST = 2
_SHOWN = 5
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
                f"{theatres[0]} and {run.certificate['theatre_id']}: {', '.join(paths[:_SHOWN])}"
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
