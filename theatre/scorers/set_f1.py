"""`set_f1`: F1 of the items that answer and expectation have in common, in any order."""

from __future__ import annotations

from collections import Counter

from theatre.engine.canonical_json import JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, canonical_key, params_schema


def score(case: ScoringCase) -> float:
    """Return 2 · common / (answer's items + expected items), in [0, 1]; 1 where both are empty.

    Items are counted, not only listed: one that the answer repeats more often than the
    expectation counts against it, so repeating a good guess earns nothing. An answer that is
    no array scores 0. UNMEASURABLE where the expectation is no array.
    """
    expected, answer = case.expected, case.answer
    if not isinstance(expected, list):
        return UNMEASURABLE
    if not isinstance(answer, list):
        return 0.0
    total = len(expected) + len(answer)
    common = (_countable(expected) & _countable(answer)).total()
    return 2 * common / total if total else 1.0


def _countable(items: list[JsonValue]) -> Counter[bytes]:
    return Counter(key for key in map(canonical_key, items) if key is not None)


SCORER = Scorer(
    name="set_f1", version="1", kind=ScorerKind.EXACT, params_schema=params_schema({}), score=score
)
