"""`brier`: how well the stated confidence in the answer's own label fits what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import count
from typing import cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.scoring.provider import ABSENT, Absent, at_path
from theatre.scorers.agreement import (
    PATH,
    UNMEASURABLE,
    canonical_key,
    exact_number,
    members_of,
    most_frequent,
    params_schema,
)
from theatre.scorers.label_accuracy import CLASSES, is_label, label_agrees

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


def surest(expectations: Sequence[JsonValue], params: JsonObject) -> JsonValue:
    """Return the label that is right nearly never or always, its share of all as confidence."""
    right = Counter(map(canonical_key, expectations))
    labels = _labels(expectations, params.get("classes"))
    shares = [Fraction(right[canonical_key(one)], len(expectations) or 1) for one in labels]
    share = min(shares, key=lambda one: min(one, 1 - one))
    label = labels[shares.index(share)]
    path = params.get("label")
    answer: JsonObject = {**label} if path is None and isinstance(label, dict) else {}
    stated = [] if path is None else [(str(path), label)]
    for where, value in [
        *stated,
        (str(params.get("confidence", DEFAULT_CONFIDENCE)), float(share)),
    ]:
        *above, name = where.split(".")
        place = answer
        for step in above:
            below = place.setdefault(step, {})
            if not isinstance(below, dict):
                return None
            place = below
        place[name] = value
    return answer


def _labels(expectations: Sequence[JsonValue], classes: JsonValue) -> list[JsonValue]:
    """Return labels: one of them is right least often or most, or never where all labels may be."""
    members = members_of(expectations)
    if isinstance(classes, list):
        return classes
    if isinstance(classes, dict):
        found = {part: Counter(map(canonical_key, values)) for part, values in members.items()}
        rarest: JsonObject = {
            part: min(
                cast("list[JsonValue]", labels), key=lambda one: found[part][canonical_key(one)]
            )
            for part, labels in classes.items()
        }
        return [rarest, *([most_frequent(expectations)] if expectations else [])]
    texts = {*map(canonical_key, expectations)}.union(
        *(map(canonical_key, one) for one in members.values())
    )
    other = next(one for one in map("-".__mul__, count()) if canonical_key(one) not in texts)
    return [dict.fromkeys(members, other) if members else other]


SCORER = Scorer(
    name="brier",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=params_schema(
        {"confidence": PATH, "label": PATH, "classes": CLASSES}, required=("expected",)
    ),
    score=score,
    one_for_all=surest,
)
