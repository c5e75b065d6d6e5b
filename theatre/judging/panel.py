"""Several judges of the same thing: the committed panel, and what it does where they differ.

A vote is what one judge gives one item (a claim, a reply, a summary), from 0 to 1. A judge without
a usable answer leaves the whole answer unmeasured under every rule: what is left would be a choice
among judges, and one that chokes on a text would help whoever wrote it.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import islice
from statistics import median
from typing import Final, Literal, TypeAlias, TypeVar, cast, get_args

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import judges_of, repeats_of
from theatre.judging.rubrics import Asking, Rubrics, object_of, one_of

Split: TypeAlias = Literal["mean", "majority", "unanimous", "unscored"]
"""What an item comes to where judges differ: their mean; the middle vote of an odd number of them,
which is that of more than half where these agree; the lowest vote; or nothing at all."""

SPLITS: Final = get_args(Split)
MAX_JUDGES: Final = 5
_ODD: Final = (3, 5)


ResultT = TypeVar("ResultT")
Votes: TypeAlias = list[Fraction] | None
"""What a judge, or one pass of it, gives item by item; None where it found nothing to rate."""


class NotMeasurableError(Exception):
    """A judge gave no usable answer, or the dataset holds nothing to ask about."""


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
    return mean_of(votes)


def panel_of(judges: Sequence[JsonObject], split: str) -> JsonObject:
    """Return several committed judges and their rule as one object."""
    return {"judges": [*judges], "split": split}


def split_of(params: JsonObject) -> str:
    """Return the rule of a criterion's panel; of one judge alone it does not matter."""
    panel = params.get("panel")
    return cast("str", panel["split"]) if isinstance(panel, dict) else "mean"


def panel_passes(
    params: JsonObject, seed: str, ask: Callable[[JsonObject, str], Asking[ResultT]]
) -> Asking[list[ResultT]]:
    """Have `ask` ask each committed judge, in its own orders, as often as was committed.

    `ask` is given a judge and the seed of the orders. What it found is returned judge by judge.
    """
    # Of a judge alone the orders stay what they were before there were panels.
    asked = [
        (judge, f"{seed}/judge {place}/{number}" if place else f"{seed}/{number}")
        for place, judge in enumerate(judges_of(params))
        for number in range(repeats_of(judge))
    ]
    made = list[ResultT]()
    for judge, orders in asked:
        found = yield from ask(judge, orders)
        made.append(found)
    return made


def votes_of(params: JsonObject, passes: Sequence[Votes]) -> list[Votes]:
    """Return each judge's votes, from those of its `passes`, whose mean they are."""
    rest, votes = iter(passes), list[Votes]()
    for judge in judges_of(params):
        rated = [one for one in islice(rest, repeats_of(judge)) if one is not None]
        votes.append([mean_of(item) for item in zip(*rated, strict=True)] if rated else None)
    return votes


def panel_score(params: JsonObject, passes: Sequence[Votes]) -> float | None:
    """Return the mean of what the items come to; None where no judge found any.

    SplitError where the rule of the panel leaves that open.
    """
    votes, split = votes_of(params, passes), split_of(params)
    rated = [given for given in votes if given is not None]
    # Whether there is anything to rate is itself a matter that judges can differ about.
    if split == "unscored" and 0 < len(rated) < len(votes):
        raise SplitError
    items = [settle(split, item) for item in zip(*rated, strict=True)]
    return float(mean_of(items)) if items else None


def mean_of(values: Sequence[Fraction]) -> Fraction:
    """Return the mean of votes, of which there is one at least."""
    return sum(values, Fraction(0)) / len(values)


def panel_schema(rubrics: Rubrics) -> JsonObject:
    """Return the schema of `panel_of`: two judges to five, an odd number for a majority.

    Each is asked once: all that judges write about an answer has to fit its record.
    """
    judge = rubrics.judge_schema
    properties = cast("JsonObject", judge["properties"])
    properties |= {"repeats": {"const": 1}} if "repeats" in properties else {}
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
