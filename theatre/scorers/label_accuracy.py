"""`label_accuracy`: 1 where the label is the expected one, else 0."""

from collections.abc import Sequence

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.scorers.agreement import UNMEASURABLE, agree, members_of, most_frequent, params_schema

_LABELS: JsonObject = {"type": "array", "minItems": 1, "uniqueItems": True}

CLASSES: JsonObject = {
    "anyOf": [_LABELS, {"type": "object", "minProperties": 1, "additionalProperties": _LABELS}]
}
"""Schema of the parameter `classes`: the labels there are; by part for a label of parts."""


def score(case: ScoringCase) -> float:
    """Return 1 where the answer is the expected label (equality of canonical JSON), else 0.

    An expectation that is an object is a label of several parts: the answer must agree on
    every one of them, and what else it holds changes nothing. An answer outside `classes` is
    wrong. UNMEASURABLE where the expectation is outside `classes`, or has no part.
    """
    if not is_label(case.expected, case.params.get("classes")):
        return UNMEASURABLE
    return 1.0 if label_agrees(case.answer, case.expected) else 0.0


def is_label(value: JsonValue, classes: JsonValue) -> bool:
    """Return whether `value` can be a label: one of `classes` where there are any."""
    if value == {}:
        return False
    if isinstance(classes, list):
        return any(agree(value, label) for label in classes)
    if isinstance(classes, dict):
        return (
            isinstance(value, dict)
            and value.keys() == classes.keys()
            and all(is_label(value[part], classes[part]) for part in classes)
        )
    return True


def label_agrees(answer: JsonValue, expected: JsonValue) -> bool:
    """Return whether `answer` is the label `expected`, or agrees on all its parts."""
    if not isinstance(expected, dict):
        return agree(answer, expected)
    return isinstance(answer, dict) and all(
        part in answer and agree(answer[part], label) for part, label in expected.items()
    )


def all_parts(expectations: Sequence[JsonValue], _: JsonObject) -> JsonValue:
    """Return the parts of all labels, each as most have it: what else an answer holds is free."""
    found = members_of(expectations)
    return {part: most_frequent(labels) for part, labels in found.items()} or None


SCORER = Scorer(
    name="label_accuracy",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema({"classes": CLASSES}, required=("expected",)),
    score=score,
    one_for_all=all_parts,
)
