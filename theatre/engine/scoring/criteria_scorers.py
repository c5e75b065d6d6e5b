"""Which scorer judges which criterion: what a template commits, else the default of its version."""

from __future__ import annotations

from typing import cast

from theatre.engine.canonical_json import JsonObject

DEFAULT_SCORER = "exact_match"
_LABEL_SCORER = "label_accuracy"

_WITHOUT_SCORERS = "2.0.1"
"""The version whose templates may leave the choice of scorers open."""


def criteria_scorers(document: JsonObject) -> dict[str, JsonObject]:
    """Return criterion → {"scorer", "params"} of a validated template.

    A 2.0.1 template that names no scorers compares, for each criterion, the member of that name
    in the answer with the one in the expectation. Source: docs/contract/template.md §1.
    """
    scoring = cast("JsonObject", document.get("scoring", {}))
    if document.get("schema_version") == _WITHOUT_SCORERS and "criteria_scorers" not in scoring:
        criteria = cast("JsonObject", document["criteria"])
        return {
            criterion: {
                "scorer": DEFAULT_SCORER,
                "params": {"field": criterion, "expected": criterion},
            }
            for criterion in cast("list[str]", criteria["criteria_ids"])
        }
    return cast("dict[str, JsonObject]", scoring.get("criteria_scorers", {}))


def calibration_criterion(document: JsonObject) -> str | None:
    """Return the criterion that stated probabilities are about: as committed, else the obvious.

    Obvious is the one criterion with `label_accuracy`. Source: docs/contract/scoring.md §5.
    """
    committed = cast("JsonObject", document.get("scoring", {})).get("calibration_criterion")
    if isinstance(committed, str):
        return committed
    labels = [
        criterion
        for criterion, choice in criteria_scorers(document).items()
        if choice["scorer"] == _LABEL_SCORER
    ]
    return labels[0] if len(labels) == 1 else None
