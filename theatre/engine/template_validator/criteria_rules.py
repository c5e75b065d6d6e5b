"""Rules on criteria and weights (docs/contract/template.md §3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject, as_number, as_text

RESERVED_CRITERION = "composite_score"
"""The composite's key among the intervals of aggregate and certificate."""

_TOLERANCE = Fraction(1, 1_000_000)
_DOWNSTREAM_ID = re.compile(r"[a-z][a-z0-9_]{0,31}")
_WEIGHTS = ("criteria", "weights")


def _weights_within_criteria(subject: Subject) -> Iterator[Finding]:
    known = subject.criterion_ids()
    for criterion in subject.object_at(*_WEIGHTS):
        if criterion not in known:
            yield (
                json_pointer(*_WEIGHTS, criterion),
                phrase("expected a criterion of criteria_ids, got ", Quoted(criterion)),
            )


def _weights_cover_criteria(subject: Subject) -> Iterator[Finding]:
    weights = subject.object_at(*_WEIGHTS)
    # No weights at all means equal weights; some of them would leave the rest to guessing.
    missing = sorted(subject.criterion_ids() - weights.keys()) if weights else []
    for criterion in missing:
        yield (
            json_pointer(*_WEIGHTS),
            phrase("expected a weight for ", Quoted(criterion), ", got none"),
        )


def _weights_finite_and_not_negative(subject: Subject) -> Iterator[Finding]:
    for criterion, value in subject.object_at(*_WEIGHTS).items():
        weight = as_number(value)
        if weight is not None and not 0 <= weight < math.inf:
            yield (
                json_pointer(*_WEIGHTS, criterion),
                phrase("expected a finite weight ≥ 0, got ", Quoted(weight)),
            )


def _weights_sum_to_one(subject: Subject) -> Iterator[Finding]:
    weights = [as_number(value) for value in subject.object_at(*_WEIGHTS).values()]
    exact = [Fraction(repr(weight)) for weight in weights if weight is not None and _finite(weight)]
    if not exact or len(exact) < len(weights):
        return
    total = sum(exact, start=Fraction(0))
    if abs(total - 1) > _TOLERANCE:
        yield json_pointer(*_WEIGHTS), f"expected a sum of 1 (± 1e-6), got {_decimal(total)}"


def _reserved_criterion_id(subject: Subject) -> Iterator[Finding]:
    for index, criterion in subject.criteria():
        if criterion == RESERVED_CRITERION:
            yield (
                json_pointer("criteria", "criteria_ids", index),
                f"expected an id other than the reserved {RESERVED_CRITERION}, got it",
            )


def _criteria_id_length(subject: Subject) -> Iterator[Finding]:
    for index, criterion in subject.criteria():
        if not _DOWNSTREAM_ID.fullmatch(criterion):
            yield (
                json_pointer("criteria", "criteria_ids", index),
                (
                    phrase(
                        "expected at most 32 characters, a letter first (a downstream limit), got ",
                        Quoted(criterion),
                    )
                ),
            )


def _calibration_criterion_known(subject: Subject) -> Iterator[Finding]:
    criterion = as_text(subject.at("scoring", "calibration_criterion"))
    if criterion is not None and criterion not in subject.criterion_ids():
        yield (
            json_pointer("scoring", "calibration_criterion"),
            phrase("expected a criterion of criteria_ids, got ", Quoted(criterion)),
        )


def _finite(number: float) -> bool:
    # Not math.isfinite alone: it cannot convert a large integer.
    return isinstance(number, int) or math.isfinite(number)


def _decimal(total: Fraction) -> str:
    try:
        return f"{float(total):.9g}"
    except OverflowError:
        return "a huge one"


RULES = (
    Rule("weights-within-criteria", _weights_within_criteria),
    Rule("weights-sum-to-one", _weights_sum_to_one),
    Rule("weights-cover-criteria", _weights_cover_criteria),
    Rule("weights-finite-and-not-negative", _weights_finite_and_not_negative),
    Rule("reserved-criterion-id", _reserved_criterion_id),
    Rule("calibration-criterion-known", _calibration_criterion_known),
    Rule("criteria-id-length", _criteria_id_length, severity="warning"),
)
