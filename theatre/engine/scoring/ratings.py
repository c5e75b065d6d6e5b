"""Human ratings as a template commits them: what is asked, of how many answers, on which scale.

Source: docs/contract/template.md §2 and §5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring.arithmetic import exact

RUBRIC = "hitl_rubric"
_AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRating:
    """One `hitl_rubric` step with its entry in `hitl_steps`.

    `low` and `high` are the ends of the scale, `share` (0 < share ≤ 1) the human part of the
    criterion's score: None where the rating changes no score. `in_aggregate` is false for a step
    behind the first aggregation.
    """

    step_id: str
    rubric: str
    low: Fraction
    high: Fraction
    labels: Mapping[str, str]
    scorer_must_not_be_author: bool = True
    minimum_scorers: int = 1
    criterion_id: str | None = None
    share: Fraction | None = None
    items: int = 1
    in_aggregate: bool = True

    def on_scale(self, score: float) -> bool:
        """Return whether a finite number lies on the scale."""
        return self.low <= exact(score) <= self.high

    def scaled(self, score: float) -> Fraction:
        """Return a score on the scale mapped linearly from [low, high] to [0, 1], exactly."""
        return (exact(score) - self.low) / (self.high - self.low)


def committed_ratings(document: JsonObject) -> tuple[CommittedRating, ...]:
    """Return the ratings of a validated template, in the order of its programme."""
    programme = cast("list[JsonObject]", document.get("resolution_programme", []))
    listed = cast("list[JsonObject]", document.get("hitl_steps", []))
    entries = {entry["step_id"]: entry for entry in listed}
    types = [step["type"] for step in programme]
    end = types.index(_AGGREGATION) if _AGGREGATION in types else len(types)
    return tuple(
        _rating(entries[step["step_id"]], in_aggregate=index < end)
        for index, step in enumerate(programme)
        if step["type"] == RUBRIC and step["step_id"] in entries
    )


def _rating(entry: JsonObject, *, in_aggregate: bool) -> CommittedRating:
    scale = cast("JsonObject", entry["scoring_scale"])
    separation = cast("JsonObject", entry.get("identity_separation", {}))
    share = cast("float | None", entry.get("share"))
    return CommittedRating(
        step_id=cast("str", entry["step_id"]),
        rubric=cast("str", entry["rubric"]),
        low=exact(cast("float", scale["min"])),
        high=exact(cast("float", scale["max"])),
        labels=cast("dict[str, str]", scale.get("labels", {})),
        scorer_must_not_be_author=cast("bool", separation.get("scorer_must_not_be_author", True)),
        minimum_scorers=int(cast("float", separation.get("minimum_scorers", 1))),
        criterion_id=cast("str | None", entry.get("criterion_id")),
        share=None if share is None else exact(share),
        items=int(cast("float", entry.get("items", 1))),
        in_aggregate=in_aggregate,
    )
