"""`set_f1`: F1 of the items that answer and expectation have in common, in any order."""

import math
from collections import Counter
from collections.abc import Sequence

from theatre.engine.canonical_json import JsonObject, JsonValue
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


def common_items(expectations: Sequence[JsonValue], _: JsonObject) -> JsonValue:
    """Return the items that at least so many expectations have that their mean F1 is best."""
    held = [one for one in expectations if isinstance(one, list)]
    items: dict[tuple[bytes, int], JsonValue] = {}
    places: dict[tuple[bytes, int], list[int]] = {}
    for place, one in enumerate(held):
        seen: Counter[bytes] = Counter()
        for item in one:
            if (key := canonical_key(item)) is not None:
                # Of equal items the second is another one.
                items.setdefault((key, seen[key]), item)
                places.setdefault((key, seen[key]), []).append(place)
                seen[key] += 1
    by_count: dict[int, list[tuple[bytes, int]]] = {}
    for unit, among in places.items():
        by_count.setdefault(len(among), []).append(unit)
    chosen: list[JsonValue] = []
    common, best, most = [0] * len(held), 0, 0.0
    for count in sorted(by_count, reverse=True):
        for unit in by_count[count]:
            chosen.append(items[unit])
            for place in places[unit]:
                common[place] += 1
        f1 = (2 * c / (len(one) + len(chosen)) for c, one in zip(common, held, strict=True))
        if (reached := math.fsum(f1)) > most:
            best, most = len(chosen), reached
    return chosen[:best] or None


SCORER = Scorer(
    name="set_f1",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema({}),
    score=score,
    one_for_all=common_items,
)
