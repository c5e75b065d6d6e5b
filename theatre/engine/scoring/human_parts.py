"""What people's scores make of a criterion: (1 - share) · machine mean + share · human mean.

Source: docs/contract/template.md §2. All of it is exact, so it belongs to `results_hash`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring.agreement import agreement
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.ratings import CommittedRating

PanelScores: TypeAlias = Mapping[str, Mapping[str, Fraction]]
"""Scorer → episode → score in [0, 1]; every scorer rated every item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A committed rating, its items in the order of the draw, and the scores that count.

    `rows` says in which unit each item lies. Without scores no rating counts (yet).
    """

    rating: CommittedRating
    rows: Mapping[str, int]
    scores: PanelScores = field(default_factory=dict)

    @property
    def item_values(self) -> list[list[Fraction]]:
        """Return the values of each item, a value a scorer."""
        return [[values[item] for values in self.scores.values()] for item in self.rows]

    @property
    def item_means(self) -> list[Fraction]:
        """Return each item's mean over the scorers; empty without ratings."""
        return [sum(values, Fraction(0)) / len(values) for values in self.item_values if values]

    @property
    def mean(self) -> Fraction | None:
        """Return the human mean, the mean of the items' means; None without ratings."""
        means = self.item_means
        return sum(means, Fraction(0)) / len(means) if means else None

    def as_document(self, machine: Fraction | None) -> JsonObject:
        """Return the entry of `human_scores`; `machine` is the mean of the step's criterion."""
        rating, mean = self.rating, self.mean
        return {
            "criterion_id": rating.criterion_id,
            "share": None if rating.share is None else float(rating.share),
            "machine": _number(machine),
            "human": _number(mean),
            "items": len(self.rows),
            "scorers": len(self.scores),
            "agreement": agreement(self.item_values),
        }


class HumanParts:
    """The human parts of all criteria that have one."""

    def __init__(self, panels: Sequence[Panel] = ()) -> None:
        self._panels = tuple(panels)
        self._by_criterion = {
            panel.rating.criterion_id: panel for panel in panels if panel.rating.share is not None
        }

    def __bool__(self) -> bool:
        """Return whether any score has a human part."""
        return bool(self._by_criterion)

    def panel_of(self, criterion: str) -> Panel | None:
        """Return whose scores are a part of `criterion`; None where it has no human part."""
        return self._by_criterion.get(criterion)

    def share_of(self, criterion: str) -> Fraction:
        """Return the human share of `criterion`; 0 where it has none."""
        panel = self.panel_of(criterion)
        share = None if panel is None else panel.rating.share
        return share or Fraction(0)

    def blend(self, criterion: str, machine: Fraction | None) -> Fraction | None:
        """Return the score with both parts; None where a part that counts was not measured."""
        panel, share = self.panel_of(criterion), self.share_of(criterion)
        if panel is None:
            return machine
        if panel.mean is None or (machine is None and share < 1):
            return None
        return (1 - share) * (machine or Fraction(0)) + share * panel.mean

    def as_document(self, machine: Mapping[str, Fraction | None]) -> JsonObject | None:
        """Return the member `human_scores`: both parts by step; null without such a step."""
        if not self._panels:
            return None
        return {
            panel.rating.step_id: panel.as_document(machine.get(panel.rating.criterion_id or ""))
            for panel in self._panels
        }


NO_HUMAN_PARTS = HumanParts()


def _number(value: Fraction | None) -> JsonValue:
    return None if value is None else rounded_number(value)
