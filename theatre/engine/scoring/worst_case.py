"""What the scores would be had every gap gone as badly, or as well, as it can.

Source: Manski 1989 (bounds without an assumption about what is missing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring.arithmetic import NANO, rounded_number
from theatre.engine.scoring.human_parts import NO_HUMAN_PARTS, HumanParts
from theatre.engine.scoring.provider import CriterionPlan
from theatre.engine.scoring.tallies import COMPOSITE, CriterionTally

_GAPS = ("missing", "excluded", "declined", "unscored")

_Bounds = tuple[Fraction, Fraction]


def worst_case_bounds(
    plans: Sequence[CriterionPlan],
    tallies: Mapping[str, CriterionTally],
    *,
    not_run: int,
    human: HumanParts = NO_HUMAN_PARTS,
) -> JsonObject:
    """Return `{"low", "high"}` for each criterion and the composite, to nine places.

    The mean over all episodes to which a criterion applies, with each gap as 0 and as 1: those
    that failed, refused, declined, could not be scored, or were not run. Of the last none was asked
    whether the criterion applies; counting them can only widen the bounds. Null where it applies
    to none, and for the composite where one criterion is null. A human part has no gaps: it moves
    both bounds alike.
    """
    bounds = [
        _blend(plan.criterion_id, _bounds(tallies[plan.criterion_id], not_run), human)
        for plan in plans
    ]
    published = {
        plan.criterion_id: _published(one) for plan, one in zip(plans, bounds, strict=True)
    }
    return {**published, COMPOSITE: _published(_weigh(plans, bounds))}


def _bounds(tally: CriterionTally, not_run: int) -> _Bounds | None:
    gaps = sum(tally.counts[kind] for kind in _GAPS) + not_run
    applicable = tally.counts["scored"] + gaps
    if not applicable:
        return None
    low = Fraction(tally.nano_sum, applicable * NANO)
    return low, low + Fraction(gaps, applicable)


def _blend(criterion: str, bounds: _Bounds | None, human: HumanParts) -> _Bounds | None:
    low, high = (human.blend(criterion, one) for one in bounds or (None, None))
    return None if low is None or high is None else (low, high)


def _weigh(plans: Sequence[CriterionPlan], bounds: Sequence[_Bounds | None]) -> _Bounds | None:
    low = high = Fraction(0)
    for plan, one in zip(plans, bounds, strict=True):
        if one is None:
            return None
        low += plan.weight * one[0]
        high += plan.weight * one[1]
    return low, high


def _published(bounds: _Bounds | None) -> JsonValue:
    if bounds is None:
        return None
    return {"low": rounded_number(bounds[0]), "high": rounded_number(bounds[1])}
