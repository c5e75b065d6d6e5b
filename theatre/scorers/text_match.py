"""`text_match`: 1 where a text is, begins with or ends with what is expected, else 0."""

import string
from collections import Counter
from collections.abc import Sequence

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, params_schema

_OWN_PARAMS: JsonObject = {
    "at": {"enum": ["whole", "begin", "end"]},
    "ignore_case": {"type": "boolean"},
    "ignore_punctuation": {"type": "boolean"},
}
_TRIMMED = string.whitespace + string.punctuation


def score(case: ScoringCase) -> float:
    """Return 1 or 0: whether the answer is the expected text, or one of an array of them.

    `at` `begin` or `end` (default `whole`) asks for it there alone, so that one answer holds one
    guess. White space round both is cut, letters of either case are the same (`ignore_case`,
    default true), and so is ASCII punctuation at both ends cut where `ignore_punctuation` (default
    false). An answer that is no string scores 0; so does one of which nothing is left.
    UNMEASURABLE where the expectation is no text with something left of it, nor an array of such.
    """
    expected = case.expected if isinstance(case.expected, list) else [case.expected]
    wanted = [_prepare(one, case.params) for one in expected if isinstance(one, str)]
    if not wanted or len(wanted) != len(expected) or not all(wanted):
        return UNMEASURABLE
    if not isinstance(case.answer, str):
        return 0.0
    text = _prepare(case.answer, case.params)
    place = case.params.get("at", "whole")
    found = {
        "whole": text in wanted,
        "begin": text.startswith(tuple(wanted)),
        "end": text.endswith(tuple(wanted)),
    }
    return 1.0 if found[str(place)] else 0.0


def _prepare(text: str, params: JsonObject) -> str:
    text = text.casefold() if params.get("ignore_case", True) else text
    return text.strip(_TRIMMED if params.get("ignore_punctuation") else string.whitespace)


def right_for_most(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return the expected text that is, begins or ends with as many of the others as possible."""
    wanted: Counter[str] = Counter()
    place = params.get("at", "whole")
    turn = -1 if place == "end" else 1
    for one in expectations:
        texts = one if isinstance(one, list) else [one]
        own = {_prepare(text, params) for text in texts if isinstance(text, str)}
        shortest = ""
        for text in sorted(own, key=lambda text: text[::turn]):
            # What begins with another of the same expectation is right by that one already.
            if place == "whole" or not shortest or not text[::turn].startswith(shortest):
                wanted[text] += 1
                shortest = text[::turn]
    best, most = None, 0
    beginnings: list[tuple[str, int]] = []
    # In this order a text comes right behind those that it begins with, and their others.
    for text in sorted(text[::turn] for text in wanted):
        while beginnings and not text.startswith(beginnings[-1][0]):
            beginnings.pop()
        within = beginnings[-1][1] if beginnings and place != "whole" else 0
        beginnings.append((text, within + wanted[text[::turn]]))
        if beginnings[-1][1] > most:
            best, most = text[::turn], beginnings[-1][1]
    return best


SCORER = Scorer(
    name="text_match",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(_OWN_PARAMS, required=("field",)),
    score=score,
    one_for_all=right_for_most,
)
