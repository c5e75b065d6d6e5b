"""The rung of Pearl's ladder that a sentence speaks from, by its words."""

from __future__ import annotations

import re
from collections.abc import Iterable

NONE, ASSOCIATION, INTERVENTION, COUNTERFACTUAL = range(4)
NAMES = (None, "L1", "L2", "L3")

_COUNTERFACTUAL = re.compile(
    r"\b(?:(?:would|could|might) (?:not )?have|wouldn't have|couldn't have|but for)\b",
    re.IGNORECASE,
)
_CAUSAL = re.compile(
    r"\b(?:causes?|caused|drives?|drove|leads? to|led to|because|results? in|forces?|forced"
    r"|pushes|due to)\b",
    re.IGNORECASE,
)
_ASSOCIATIVE = re.compile(
    r"\b(?:correlat\w+|associat\w+|tends? to|coincid\w+|alongside|together with|moves? with"
    r"|typically|goes with|follows)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\bif\b", re.IGNORECASE)
_CONSEQUENCE = re.compile(r"\b(?:then|will|would)\b", re.IGNORECASE)


def rung_of(sentence: str) -> int:
    """Return the rung of one sentence, NONE where its words show none."""
    if _COUNTERFACTUAL.search(sentence):
        return COUNTERFACTUAL
    condition = _CONDITION.search(sentence)
    if condition and _CONSEQUENCE.search(sentence, condition.end()):
        return INTERVENTION
    if _CAUSAL.search(sentence):
        return INTERVENTION
    return ASSOCIATION if _ASSOCIATIVE.search(sentence) else NONE


def highest(spoken: Iterable[str]) -> int:
    """Return the highest rung of several sentences."""
    return max((rung_of(sentence) for sentence in spoken), default=NONE)
