"""What the shipped scorers share: when values agree, numbers and times as written, common params.

A change of meaning here is a new `version` of every scorer that uses it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Final

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import CanonicalisationError, ClockError
from theatre.engine.scoring.arithmetic import exact

UNMEASURABLE: Final = math.nan
"""A scorer's result where the expectation, never the answer, is at fault.

The engine counts the episode as `unscored` (docs/contract/scoring.md §1):
the construct does not pay for faulty ground truth, and the tier is capped.
"""


def canonical_key(value: JsonValue) -> bytes | None:
    """Return the RFC 8785 form of `value`: 1 and 1.0 share it, 1 and true do not.

    None where there is no such form (NaN, say); such a value agrees with nothing, not even
    with itself. The strict parser lets none in.
    """
    try:
        return canonical_bytes(value)
    except CanonicalisationError:
        return None


def agree(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values are the same JSON value, whatever the order of members."""
    if isinstance(one, str) and isinstance(other, str):  # as most are
        return one == other and canonical_key(one) is not None
    key = canonical_key(one)
    return key is not None and key == canonical_key(other)


def members_of(expectations: Iterable[JsonValue]) -> dict[str, list[JsonValue]]:
    """Return member → its values, of those expectations that are objects."""
    found: dict[str, list[JsonValue]] = {}
    for one in expectations:
        for name, value in one.items() if isinstance(one, dict) else ():
            found.setdefault(name, []).append(value)
    return found


def most_frequent(values: Sequence[JsonValue]) -> JsonValue:
    """Return the value that comes most often, of several the first."""
    keys = [canonical_key(value) for value in values]
    return values[keys.index(Counter(keys).most_common(1)[0][0])]


def exact_number(value: JsonValue) -> Fraction | None:
    """Return a finite number as the decimal it is written as: 0.1 is one tenth, exactly.

    None for everything else; a boolean is no number.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float) and math.isfinite(value):
        return exact(value)
    return None


def parse_moment(value: JsonValue) -> datetime | None:
    """Return the moment that an RFC 3339 time in UTC, spelt with a `Z`, names; else None."""
    if not isinstance(value, str):
        return None
    try:
        return parse_rfc3339(value)
    except ClockError:
        return None


PATH: Final[JsonObject] = {"type": "string", "minLength": 1}
"""Schema of a parameter that is a dotted path."""


def closed_schema(properties: JsonObject, required: Sequence[str] = ()) -> JsonObject:
    """Return the JSON Schema of an object with these members and no others.

    Closed, so that a misspelt parameter is refused when a template is validated, not ignored.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def params_schema(
    own: JsonObject, *, required: Sequence[str] = (), takes_expected: bool = True
) -> JsonObject:
    """Return a closed JSON Schema for `params`: `field`, `expected`, and the scorer's `own`.

    `takes_expected` is false for a scorer that holds the answer against no ground truth.
    """
    common: JsonObject = {"field": PATH, "expected": PATH} if takes_expected else {"field": PATH}
    return closed_schema({**common, **own}, required)
