"""The strict language in which a claim says what a change would do, and the changes themselves.

`IF F:<i> INC|DEC THEN CHOICE <ACTION>` or `IF F:<i> SET <value> THEN CHOICE <ACTION>`: one
space, capitals, no leading zeros, at most eight decimals, nothing else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

from theatre.axion.common.errors import EffectSyntaxError
from theatre.axion.kernel.replay import ACTIONS, UNIT

Change = Literal["INC", "DEC", "SET"]

_SENTENCE = re.compile(
    r"IF F:(?P<factor>0|[1-9][0-9]{0,3}) "
    r"(?:(?P<way>INC|DEC)|SET (?P<value>-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,8})?)) "
    rf"THEN CHOICE (?P<action>{'|'.join(ACTIONS)})"
)
_DIRECTIONS: Mapping[Change, frozenset[str]] = {
    "INC": frozenset({"increase"}),
    "DEC": frozenset({"decrease"}),
    "SET": frozenset({"threshold", "categorical"}),
}


@dataclass(frozen=True, slots=True)
class Effect:
    """If factor `factor` is changed so, the choice is `action`. `value` (units) is for SET."""

    factor: int
    change: Change
    value: int | None
    action: str


def effect_of(claim: Mapping[str, Any]) -> Effect:
    """Return what a schema-valid claim says.

    Raises EffectSyntaxError where the sentence is none of the language, or names another factor
    or direction than the claim's own `var` and `direction`.
    """
    sentence = claim["expected_effect_on_choice"]
    match = _SENTENCE.fullmatch(sentence)
    if match is None:
        raise EffectSyntaxError(f"expected IF F:<i> … THEN CHOICE <ACTION>, got {sentence!r:.100}")
    change = cast("Change", match["way"] or "SET")
    if claim["var"] != f"F:{match['factor']}" or claim["direction"] not in _DIRECTIONS[change]:
        raise EffectSyntaxError(
            f"expected var and direction of {sentence!r:.100}, got {claim['var']!r} "
            f"{claim['direction']!r}"
        )
    value = None if match["value"] is None else int(Fraction(match["value"]) * UNIT)
    return Effect(int(match["factor"]), change, value, match["action"])


def sentence(effect: Effect) -> str:
    """Return the sentence that `effect_of` reads back."""
    change: str = effect.change
    if effect.value is not None:
        change = f"SET {_decimal(effect.value)}"
    return f"IF F:{effect.factor} {change} THEN CHOICE {effect.action}"


def _decimal(value: int) -> str:
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(value), UNIT)
    return f"{sign}{whole}.{rest:08d}".rstrip("0").rstrip(".")


# How a factor is changed to test a claim, and when that is no change at all. Source:
# docs/requirements.md R107. Factors are units of 1e-8 within [0, 1].


_LEAST = UNIT * 5 // 100
NEAR_TOP, NEAR_BOTTOM = UNIT * 95 // 100, UNIT * 5 // 100
"""From where on, in units, a claim that cannot be tested is tried in the other direction."""

_QUARTER = 4


@dataclass(frozen=True, slots=True)
class Mutation:
    """The changed factor, in units; `mirrored` where the other direction had to be tried."""

    value: int
    mirrored: bool = False


def mutate(factor: int, change: Change, value: int | None = None) -> Mutation | None:
    """Return what `change` makes of `factor`, or None where nothing can be changed.

    INC and DEC by Δ = max(0.05, a quarter of the factor), clipped to [0, 1]. One that changes
    nothing at the edge is tried in the other direction: INC from 0.95 on, DEC to 0.05.
    """
    if change == "SET":
        target = _clip(factor if value is None else value)
        return None if target == factor else Mutation(target)
    delta = max(_LEAST, factor // _QUARTER)
    sign = 1 if change == "INC" else -1
    first = _clip(factor + sign * delta)
    if first != factor:
        return Mutation(first)
    at_edge = factor >= NEAR_TOP if change == "INC" else factor <= NEAR_BOTTOM
    mirror = _clip(factor - sign * delta)
    return Mutation(mirror, mirrored=True) if at_edge and mirror != factor else None


def _clip(value: int) -> int:
    return min(UNIT, max(0, value))
