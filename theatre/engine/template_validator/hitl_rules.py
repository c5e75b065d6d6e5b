"""Rules on committed human ratings (docs/contract/template.md §3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from theatre.engine.canonical_json import JsonValue
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import (
    Finding,
    Rule,
    Subject,
    as_number,
    as_object,
    as_text,
    numbered_objects,
)
from theatre.engine.templates import CURRENT

_STEPS = "hitl_steps"
_PROGRAMME = "resolution_programme"
_RUBRIC, _AGGREGATION = "hitl_rubric", "aggregation"
# The scores of a step become a file of its name in the evidence.
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_POINT = re.compile(r"-?[0-9]{1,30}(?:[.][0-9]{1,30})?")


def _hitl_step_known(subject: Subject) -> Iterator[Finding]:
    rated = {as_text(step.get("step_id")) for _, step in subject.steps(_RUBRIC)}
    for index, step in numbered_objects(subject.at(_STEPS)):
        step_id = as_text(step.get("step_id"))
        if step_id is not None and step_id not in rated:
            yield (
                json_pointer(_STEPS, index, "step_id"),
                phrase("expected a hitl_rubric step of the programme, got ", Quoted(step_id)),
            )


def _hitl_steps_match(subject: Subject) -> Iterator[Finding]:
    specified = {as_text(step.get("step_id")) for _, step in numbered_objects(subject.at(_STEPS))}
    for index, step in subject.steps(_RUBRIC):
        step_id = as_text(step.get("step_id"))
        if step_id is not None and step_id not in specified:
            yield (
                json_pointer(_PROGRAMME, index, "step_id"),
                phrase("expected an entry in hitl_steps for ", Quoted(step_id), ", got none"),
            )


def _scale_ordered(subject: Subject) -> Iterator[Finding]:
    for index, low, high in _scales(subject):
        if not low < high:
            yield (
                json_pointer(_STEPS, index, "scoring_scale"),
                phrase("expected min < max, got ", Quoted(low), " and ", Quoted(high)),
            )


def _scale_labels_on_scale(subject: Subject) -> Iterator[Finding]:
    scales = {index: (low, high) for index, low, high in _scales(subject) if low < high}
    for index, step in numbered_objects(subject.at(_STEPS)):
        if index not in scales:
            continue
        low, high = scales[index]
        for label in as_object(as_object(step.get("scoring_scale")).get("labels")):
            if not (_POINT.fullmatch(label) and low <= Fraction(label) <= high):
                yield (
                    json_pointer(_STEPS, index, "scoring_scale", "labels", label),
                    phrase(
                        "expected a number from ",
                        Quoted(low),
                        " to ",
                        Quoted(high),
                        ", got ",
                        Quoted(label),
                    ),
                )


def _hitl_criterion_known(subject: Subject) -> Iterator[Finding]:
    known = subject.criterion_ids()
    for index, step in numbered_objects(subject.at(_STEPS)):
        criterion = as_text(step.get("criterion_id"))
        if criterion is not None and criterion not in known:
            yield (
                json_pointer(_STEPS, index, "criterion_id"),
                phrase("expected a criterion of criteria_ids, got ", Quoted(criterion)),
            )


def _hitl_criterion_once(subject: Subject) -> Iterator[Finding]:
    shared: dict[str, JsonValue] = {}
    for index, step in numbered_objects(subject.at(_STEPS)):
        criterion = as_text(step.get("criterion_id"))
        if criterion is None or "share" not in step:
            continue
        # An entry that is there twice is for another rule.
        if shared.setdefault(criterion, step.get("step_id")) != step.get("step_id"):
            yield (
                json_pointer(_STEPS, index, "criterion_id"),
                phrase(
                    "expected one step with a share in each criterion, got ",
                    Quoted(criterion),
                    " again",
                ),
            )


def _hitl_before_aggregation(subject: Subject) -> Iterator[Finding]:
    """Yield ratings that come too late: a score has both its parts when it is summed up."""
    entries = numbered_objects(subject.at(_STEPS))
    counting = {as_text(step.get("step_id")) for _, step in entries if "criterion_id" in step}
    aggregated = False
    for index, step in subject.steps():
        aggregated = aggregated or step.get("type") == _AGGREGATION
        if aggregated and step.get("type") == _RUBRIC and as_text(step.get("step_id")) in counting:
            yield (
                json_pointer(_PROGRAMME, index),
                "expected a rating with a criterion_id before the first aggregation, got it behind",
            )


def _hitl_step_id_is_file_name(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.steps(_RUBRIC):
        step_id = as_text(step.get("step_id"))
        if step_id is not None and not _FILE_NAME.fullmatch(step_id):
            yield (
                json_pointer(_PROGRAMME, index, "step_id"),
                (
                    phrase(
                        "expected letters, digits, _ and -, and . behind the first of them, got ",
                        Quoted(step_id),
                    )
                ),
            )


def _scales(subject: Subject) -> Iterator[tuple[int, float, float]]:
    """Yield the ends of each scale that has two, with the step's index."""
    for index, step in numbered_objects(subject.at(_STEPS)):
        scale = as_object(step.get("scoring_scale"))
        low, high = as_number(scale.get("min")), as_number(scale.get("max"))
        if low is not None and high is not None:
            yield index, low, high


RULES = (
    Rule("hitl-step-known", _hitl_step_known),
    Rule("hitl-steps-match", _hitl_steps_match),
    Rule("scale-ordered", _scale_ordered),
    Rule("scale-labels-on-scale", _scale_labels_on_scale),
    Rule("hitl-criterion-known", _hitl_criterion_known),
    Rule("hitl-criterion-once", _hitl_criterion_once),
    Rule("hitl-before-aggregation", _hitl_before_aggregation),
    Rule("hitl-step-id-is-file-name", _hitl_step_id_is_file_name, since=CURRENT),
)
