"""How a factor is changed to test a claim, and when that is no change at all.

Source: docs/requirements.md R107. Factors are units of 1e-8 within [0, 1].
"""

from dataclasses import dataclass

from theatre.axion.kernel.effect_dsl import Change
from theatre.axion.kernel.replay import UNIT

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
