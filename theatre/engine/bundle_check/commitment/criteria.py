"""The committed criteria: sound weights, and a scorer with parameters for each."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from theatre.engine.bundle_check.reading.json_values import DefectError, shown
from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring import COMPOSITE, exact

_WEIGHT_TOLERANCE = Fraction(1, 1_000_000)
_WITHOUT_SCORERS = "2.0.1"
"""The version whose templates may leave the choice open (contract/template.md, "Versions")."""

_MAX_PATH = 1000
"""Longest dotted path of a criterion: beyond 4,300 digits Python reads no integer."""


def committed_criteria(document: JsonObject) -> JsonObject:
    """Return the criteria as a certificate shows them.

    Raises DefectError for weights that the arithmetic cannot use.
    """
    criteria = cast("JsonObject", document["criteria"])
    ids = cast("list[str]", criteria["criteria_ids"])
    weights = cast("dict[str, float]", criteria.get("weights", {}))
    if COMPOSITE in ids:
        raise DefectError(f"criteria that are not named {COMPOSITE}", "one that is")
    if weights and weights.keys() != set(ids):
        raise DefectError("weights for exactly the criteria", shown(dict(weights)))
    total = sum((exact(weight) for weight in weights.values()), Fraction(0))
    if weights and (abs(total - 1) > _WEIGHT_TOLERANCE or min(weights.values()) < 0):
        raise DefectError("weights from 0 that sum to 1", shown(dict(weights)))
    return {
        "criteria_ids": list(ids),
        "criteria_human": criteria.get("criteria_human", ""),
        "weights": dict(weights),
    }


def _chosen(document: JsonObject) -> dict[str, JsonObject]:
    """Return criterion → its entry of `criteria_scorers`, for each committed criterion."""
    scoring = cast("JsonObject", document["scoring"])
    criteria = cast("list[str]", cast("JsonObject", document["criteria"])["criteria_ids"])
    if document["schema_version"] == _WITHOUT_SCORERS and "criteria_scorers" not in scoring:
        return {
            name: {"scorer": "exact_match", "params": {"field": name, "expected": name}}
            for name in criteria
        }
    entries = cast("JsonObject", scoring.get("criteria_scorers", {}))
    chosen = {}
    for criterion in criteria:
        if criterion not in entries:
            raise DefectError(f"a scorer for criterion {criterion}", "none")
        chosen[criterion] = cast("JsonObject", entries[criterion])
    return chosen


def names_its_scorers(document: JsonObject) -> bool:
    """Tell whether the template itself says how each criterion is scored."""
    return bool(cast("JsonObject", document["scoring"]).get("criteria_scorers"))


def committed_scorers(document: JsonObject) -> dict[str, str]:
    """Return criterion → name of its scorer; DefectError for a criterion without one."""
    return {
        criterion: cast("str", entry["scorer"]) for criterion, entry in _chosen(document).items()
    }


def committed_params(document: JsonObject) -> dict[str, JsonObject]:
    """Return criterion → parameters of its scorer; DefectError for a path beyond all measure."""
    params = {
        criterion: cast("JsonObject", entry.get("params", {}))
        for criterion, entry in _chosen(document).items()
    }
    for criterion, given in params.items():
        for name in ("field", "expected"):
            path = given.get(name)
            if isinstance(path, str) and len(path) > _MAX_PATH:
                raise DefectError(
                    f"a path of at most {_MAX_PATH} characters at {criterion}/{name}",
                    f"{len(path)} characters",
                )
    return params
