"""`contains_terms`: the share of terms that a text contains."""

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, params_schema

_OWN_PARAMS: JsonObject = {
    "terms": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "minItems": 1,
        "uniqueItems": True,
    },
    "case": {"type": "boolean"},
}


def score(case: ScoringCase) -> float:
    """Return contained / asked terms, in [0, 1]: those of `terms`, or the expected ones.

    A term is contained where the text has it as a substring, code point by code point, without
    normalisation; letters of either case are the same unless `case` is true. A term asked for
    twice counts once. An answer that is no string scores 0. UNMEASURABLE where the
    expectation is no array of strings, is empty, or holds an empty string.
    """
    terms = case.params.get("terms", case.expected)
    if not isinstance(terms, list) or not terms:
        return UNMEASURABLE
    # Every text holds an empty term: asking for it would be a point for nothing.
    asked = {term for term in terms if isinstance(term, str) and term}
    if not all(isinstance(term, str) and term for term in terms):
        return UNMEASURABLE
    if not isinstance(case.answer, str):
        return 0.0
    text = case.answer
    if case.params.get("case") is not True:
        text, asked = text.casefold(), {term.casefold() for term in asked}
    return sum(term in text for term in asked) / len(asked)


SCORER = Scorer(
    name="contains_terms",
    version="1",
    kind=ScorerKind.TEXTUAL,
    params_schema={
        **params_schema(_OWN_PARAMS, required=("field",)),
        "oneOf": [{"required": ["terms"]}, {"required": ["expected"]}],
    },
    score=score,
    needs_expectation=False,
)
