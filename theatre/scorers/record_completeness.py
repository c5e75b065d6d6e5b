"""`record_completeness`: the share of required members that a record fills."""

from __future__ import annotations

from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.provider import Absent, at_path
from theatre.scorers.agreement import params_schema

_OWN_PARAMS: JsonObject = {
    "required": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "minItems": 1,
        "uniqueItems": True,
    }
}


def score(case: ScoringCase) -> float:
    """Return filled / required, in [0, 1]; `required` are dotted paths below the answer.

    Filled is what is neither absent, null, an empty array or object, nor a string of white
    space; 0 and false are values. An answer that is no object scores 0.
    """
    answer = case.answer
    if not isinstance(answer, dict):
        return 0.0
    required = cast("list[str]", case.params["required"])
    return sum(is_filled(at_path(answer, path)) for path in required) / len(required)


def is_filled(value: JsonValue | Absent) -> bool:
    """Return whether something is there: not absent, null, blank or empty."""
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, (list, dict)):
        return bool(value)
    return value is not None and not isinstance(value, Absent)


SCORER = Scorer(
    name="record_completeness",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(_OWN_PARAMS, required=("required",), takes_expected=False),
    score=score,
    needs_expectation=False,
)
