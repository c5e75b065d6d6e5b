"""The rung of Pearl's ladder that a sentence speaks from, by its words."""

from __future__ import annotations

import re
from collections.abc import Iterable

NONE, ASSOCIATION, INTERVENTION, COUNTERFACTUAL = range(4)
NAMES = (None, "L1", "L2", "L3")

COUNTERFACTUAL_WORDS = re.compile(
    r"\b(?:(?:would|could|might) (?:not )?have|wouldn't have|couldn't have|but for)\b",
    re.IGNORECASE,
)
CAUSAL_WORDS = re.compile(
    r"\b(?:causes?|caused|drives?|drove|leads? to|led to|because|results? in|forces?|forced"
    r"|pushes|due to)\b",
    re.IGNORECASE,
)
ASSOCIATIVE_WORDS = re.compile(
    r"\b(?:correlat\w+|associat\w+|tends? to|coincid\w+|alongside|together with|moves? with"
    r"|typically|goes with|follows)\b",
    re.IGNORECASE,
)
# Each match of a pattern holds one of these, which are looked for far faster than the pattern.
_COUNTERFACTUAL_SIGNS = ("have", "but for")
_CAUSAL_SIGNS = ("cause", "dr", "le", "result", "force", "push", "due to")
_ASSOCIATIVE_SIGNS = (
    "correlat",
    "associat",
    "tend",
    "coincid",
    "alongside",
    "together",
    "move",
    "typically",
    "goes with",
    "follows",
)
CONDITION_WORDS = re.compile(r"\bif\b", re.IGNORECASE)
CONSEQUENCE_WORDS = re.compile(r"\b(?:then|will|would)\b", re.IGNORECASE)


def rung_of(sentence: str) -> int:
    """Return the rung of one sentence, NONE where its words show none."""
    plain = sentence.lower() if sentence.isascii() else None
    if _holds(plain, _COUNTERFACTUAL_SIGNS) and COUNTERFACTUAL_WORDS.search(sentence):
        return COUNTERFACTUAL
    condition = CONDITION_WORDS.search(sentence) if _holds(plain, ("if",)) else None
    if condition and CONSEQUENCE_WORDS.search(sentence, condition.end()):
        return INTERVENTION
    if _holds(plain, _CAUSAL_SIGNS) and CAUSAL_WORDS.search(sentence):
        return INTERVENTION
    is_associative = _holds(plain, _ASSOCIATIVE_SIGNS) and ASSOCIATIVE_WORDS.search(sentence)
    return ASSOCIATION if is_associative else NONE


def highest(spoken: Iterable[str]) -> int:
    """Return the highest rung of several sentences."""
    return max((rung_of(sentence) for sentence in spoken), default=NONE)


def _holds(plain: str | None, signs: Iterable[str]) -> bool:
    """Return whether a sign is there, or, beyond ASCII, where letters have more forms, may be."""
    if plain is None:
        return True
    for sign in signs:  # noqa: SIM110 - `any` takes thrice as long here
        if sign in plain:
            return True
    return False
