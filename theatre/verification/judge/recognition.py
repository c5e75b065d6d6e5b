"""Whether words tell control items from the claims of a construct: a classifier tries.

A judge that could tell them would be right on them alone, and all figures about it worth nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from theatre.engine.scoring.arithmetic import rounded_number
from theatre.verification.change_facts import WORD

FOLDS: Final = 10
MOST_REQUESTS: Final = 500
"""So many answers are looked at, the first ones that have controls."""

_CHARACTERS = 20
"""Lengths are told apart in steps of so many."""


def recognised(requests: Sequence[tuple[Sequence[str], Sequence[str]]]) -> float | None:
    """Return the balanced accuracy of naive Bayes on words, first word and length; 0.5 is chance.

    Of each request it gets the construct's claims and the controls. Every tenth request is left out
    at a time: what the texts of one have in common is no help. Null with fewer controls, or claims,
    than folds. Likelihoods are compared as whole numbers, so no platform rounds them otherwise.
    """
    known = [
        tuple([_features(text) for text in texts] for texts in request)
        for request in requests[:MOST_REQUESTS]
    ]
    totals = [sum(len(request[sort]) for request in known) for sort in (0, 1)]
    if min(totals) < FOLDS:
        return None
    right = [0, 0]
    for fold in range(FOLDS):
        others = [request for place, request in enumerate(known) if place % FOLDS != fold]
        texts = [[text for request in others for text in request[sort]] for sort in (0, 1)]
        seen = [Counter(feature for text in sort for feature in text) for sort in texts]
        for request in known[fold::FOLDS]:
            for sort in (0, 1):
                for text in request[sort]:
                    # Both multiplied by the denominators of both. Of the same odds it says claim.
                    odds = [
                        math.prod(seen[n][one] + 1 for one in text)
                        * (len(texts[1 - n]) + 2) ** len(text)
                        for n in (0, 1)
                    ]
                    right[sort] += (odds[1] > odds[0]) is (sort == 1)
    shares = (Fraction(hits, total) for hits, total in zip(right, totals, strict=True))
    return rounded_number(sum(shares, Fraction(0)) / 2)


def _features(text: str) -> frozenset[str]:
    words = [word.casefold() for word in WORD.findall(text)]
    return frozenset([*words, f"1 {words[0] if words else ''}", f"# {len(text) // _CHARACTERS}"])
