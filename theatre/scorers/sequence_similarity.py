"""`sequence_similarity`: how much of a sequence is right, in order (edit distance)."""

from collections.abc import Sequence

from theatre.engine.canonical_json import JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, canonical_key, params_schema

MAX_EXPECTED = 5_000
"""Most items (or characters) an expectation may have."""

MAX_ANSWER = 2 * MAX_EXPECTED
"""An answer of more items scores 0. It is over twice too long, so it could not reach 1/2."""


def score(case: ScoringCase) -> float:
    """Return 1 - Levenshtein distance / longer length, in [0, 1]; 1 where both are empty.

    Compares arrays item by item (canonical JSON) or strings code point by code point, without
    normalisation. An answer of another type, or longer than MAX_ANSWER, scores 0.
    UNMEASURABLE where the expectation is neither, or longer than MAX_EXPECTED.
    """
    expected, answer = _items(case.expected, MAX_EXPECTED), _items(case.answer, MAX_ANSWER)
    if expected is None:
        return UNMEASURABLE
    if answer is None or isinstance(case.answer, str) is not isinstance(case.expected, str):
        return 0.0
    longest = max(len(expected), len(answer))
    return (longest - edit_distance(expected, answer)) / longest if longest else 1.0


def edit_distance(pattern: Sequence[str | bytes | None], text: Sequence[str | bytes | None]) -> int:
    """Return the least number of insertions, deletions and replacements between the two.

    An item None equals nothing. Time is O(len(text)) steps on integers of len(pattern) bits:
    Myers 1999 (bit vectors) in Hyyrö's form for whole sequences: milliseconds at the limits,
    where the full table of Wagner and Fischer takes many seconds.
    """
    if not pattern:
        return len(text)
    places: dict[str | bytes | None, int] = {}
    for index, item in enumerate(pattern):
        if item is not None:
            places[item] = places.get(item, 0) | 1 << index
    everywhere, last = (1 << len(pattern)) - 1, 1 << len(pattern) - 1
    # One bit a row of the table's column: does the value rise (plus) or fall (minus) there?
    plus, minus, distance = everywhere, 0, len(pattern)
    for item in text:
        equal = places.get(item, 0)
        diagonal = (((equal & plus) + plus) ^ plus) | equal
        rises = (minus | ~(diagonal | plus)) & everywhere
        falls = plus & diagonal
        distance += bool(rises & last) - bool(falls & last)
        rises = rises << 1 | 1
        equal |= minus
        plus = (falls << 1 | ~(equal | rises)) & everywhere
        minus = rises & equal & everywhere
    return distance


def _items(value: JsonValue, limit: int) -> Sequence[str | bytes | None] | None:
    """Return the comparable items of a string or array; None for other types or too many."""
    if not isinstance(value, (str, list)) or len(value) > limit:
        return None
    return value if isinstance(value, str) else [canonical_key(item) for item in value]


SCORER = Scorer(
    name="sequence_similarity",
    version="1",
    kind=ScorerKind.TEXTUAL,
    params_schema=params_schema({}),
    score=score,
)
