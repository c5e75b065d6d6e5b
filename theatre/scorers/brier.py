"""`brier`: how well the stated confidence in the answer's own label fits what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.provider import ABSENT, Absent, at_path
from theatre.scorers.agreement import PATH, UNMEASURABLE, canonical_key, exact_number, params_schema
from theatre.scorers.label_accuracy import CLASSES, all_parts, is_label, label_agrees

DEFAULT_CONFIDENCE = "confidence"


def score(case: ScoringCase) -> float | None:
    """Return 1 - (p - outcome)², in [0, 1]: Brier 1950 for one event, turned so that 1 is best.

    p is the number at `confidence` below the answer, outcome 1 where the label at `label`
    (default: the answer itself) is right as in `label_accuracy`, else 0. Exact on p as
    written. None, undefined, where the answer states no confidence. 0 where p is no number
    from 0 to 1, and where there is no label that p could be about: one that is absent, lacks
    a part, or is outside `classes`. UNMEASURABLE as in `label_accuracy`.
    """
    expected, classes = case.expected, case.params.get("classes")
    if not is_label(expected, classes):
        return UNMEASURABLE
    if not isinstance(case.answer, dict):
        return 0.0
    stated = at_path(case.answer, cast("str", case.params.get("confidence", DEFAULT_CONFIDENCE)))
    if isinstance(stated, Absent) or stated is None:
        return None
    confidence, label = exact_number(stated), _label(case.answer, case)
    if confidence is None or not 0 <= confidence <= 1 or isinstance(label, Absent):
        return 0.0
    outcome = label_agrees(label, expected)
    return float(1 - (confidence - Fraction(outcome)) ** 2)


def _label(answer: JsonValue, case: ScoringCase) -> JsonValue | Absent:
    """Return the answer's label, cut to the expectation's parts; ABSENT where it is none."""
    path = case.params.get("label")
    label = at_path(answer, path) if isinstance(path, str) else answer
    if isinstance(label, Absent):
        return ABSENT
    expected = case.expected
    if isinstance(expected, dict):
        if not isinstance(label, dict) or not label.keys() >= expected.keys():
            return ABSENT
        label = {part: label[part] for part in expected}
    return label if is_label(label, case.params.get("classes")) else ABSENT


def surely_wrong(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return the label that is right least often, or none, with the confidence 0."""
    classes, parts = params.get("classes"), all_parts(expectations, params)
    label: JsonValue = dict.fromkeys(parts) if isinstance(parts, dict) else None
    if isinstance(classes, list):
        right = Counter(map(canonical_key, expectations))
        label = min(classes, key=lambda one: right[canonical_key(one)])
    elif isinstance(classes, dict):
        label = {part: cast("list[JsonValue]", labels)[-1] for part, labels in classes.items()}
    path = params.get("label")
    answer: JsonObject = {**label} if path is None and isinstance(label, dict) else {}
    stated = [] if path is None else [(str(path), label)]
    for where, value in [*stated, (str(params.get("confidence", DEFAULT_CONFIDENCE)), 0)]:
        *above, name = where.split(".")
        place = answer
        for step in above:
            below = place.setdefault(step, {})
            if not isinstance(below, dict):
                return None
            place = below
        place[name] = value
    return answer


SCORER = Scorer(
    name="brier",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(
        {"confidence": PATH, "label": PATH, "classes": CLASSES}, required=("expected",)
    ),
    score=score,
    one_for_all=surely_wrong,
)
