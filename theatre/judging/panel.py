"""Several judges of the same thing: the committed panel, and what it does where they differ.

A vote is what one judge gives one item (a claim, a reply, a summary), from 0 to 1. A judge without
a usable answer leaves the whole answer unmeasured under every rule: what is left would be a choice
among judges, and one that chokes on a text would help whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from statistics import median
from typing import Final, Literal, TypeAlias, cast, get_args

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.judging.rubrics import Rubrics, object_of, one_of

Split: TypeAlias = Literal["mean", "majority", "unanimous", "unscored"]
"""What an item comes to where judges differ: their mean; the middle vote of an odd number of them,
which is that of more than half where these agree; the lowest vote; or nothing at all."""

SPLITS: Final = get_args(Split)
MAX_JUDGES: Final = 5
_ODD: Final = (3, 5)


class SplitError(Exception):
    """Judges differ about an item, and the committed rule says that it is unscored then."""


def settle(split: str, votes: Sequence[Fraction]) -> Fraction:
    """Return what the votes on one item come to; SplitError where the rule leaves that open.

    Judges for whom there was nothing to rate have no vote; there is one vote at least.
    """
    if split == "majority":
        return median(votes)
    if split == "unanimous":
        return min(votes)
    if split == "unscored" and len(set(votes)) > 1:
        raise SplitError
    return sum(votes, Fraction(0)) / len(votes)


def panel_of(judges: Sequence[JsonObject], split: str) -> JsonObject:
    """Return several committed judges and their rule as one object."""
    return {"judges": [*judges], "split": split}


def judges_of(params: JsonObject) -> list[JsonObject]:
    """Return the judges of a criterion's parameters, in order: those of a panel, or the one.

    None where the parameters, which need not be valid, name none.
    """
    panel = params.get("panel")
    listed = panel.get("judges") if isinstance(panel, dict) else [params.get("judge")]
    return [one for one in (listed if isinstance(listed, list) else []) if isinstance(one, dict)]


def split_of(params: JsonObject) -> str:
    """Return the rule of a criterion's panel; of one judge alone it does not matter."""
    panel = params.get("panel")
    return cast("str", panel["split"]) if isinstance(panel, dict) else "mean"


def panel_schema(rubrics: Rubrics) -> JsonObject:
    """Return the schema of `panel_of`: two judges to five, an odd number for a majority.

    Each is asked once: all that judges write about an answer has to fit its record.
    """
    judge = rubrics.judge_schema
    properties: JsonObject = {**cast("JsonObject", judge["properties"]), "repeats": {"const": 1}}
    judges: JsonObject = {"type": "array", "minItems": 2, "maxItems": MAX_JUDGES}
    odd: list[JsonValue] = [{"minItems": number, "maxItems": number} for number in _ODD]
    return {
        **object_of(
            judges={**judges, "uniqueItems": True, "items": {**judge, "properties": properties}},
            split=one_of(SPLITS),
        ),
        "if": {"properties": {"split": {"const": "majority"}}},
        "then": {"properties": {"judges": {"anyOf": odd}}},
    }
