"""Rules on criteria scorers (docs/contract/template.md §3). They hold for replay templates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Scorer, ScorerKind
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
from theatre.engine.templates import CURRENT, EXISTING, NEWEST

# Rules on criteria and weights (docs/contract/template.md §3).


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


CRITERIA_RULES = (
    Rule("weights-within-criteria", _weights_within_criteria),
    Rule("weights-sum-to-one", _weights_sum_to_one),
    Rule("weights-cover-criteria", _weights_cover_criteria),
    Rule("weights-finite-and-not-negative", _weights_finite_and_not_negative),
    Rule("reserved-criterion-id", _reserved_criterion_id),
    Rule("calibration-criterion-known", _calibration_criterion_known),
    Rule("criteria-id-length", _criteria_id_length, severity="warning"),
)


_SCORERS = ("scoring", "criteria_scorers")
_INLINE_SCHEMA = "json_schema"
"""The scorer whose parameter `schema` is a JSON Schema of the template's author."""


def _criteria_scored(subject: Subject) -> Iterator[Finding]:
    if not subject.replays or _leaves_scorers_open(subject):
        return
    chosen, known = subject.object_at(*_SCORERS), subject.criterion_ids()
    where = json_pointer(*_SCORERS) if "criteria_scorers" in subject.object_at("scoring") else ""
    for criterion in sorted(known - chosen.keys()):
        yield (
            where or json_pointer("scoring"),
            phrase(
                "expected criteria_scorers to name a scorer for ", Quoted(criterion), ", got none"
            ),
        )
    for criterion in sorted(chosen.keys() - known):
        yield (
            json_pointer(*_SCORERS, criterion),
            phrase("expected a criterion of criteria_ids, got ", Quoted(criterion)),
        )


def _scorer_known(subject: Subject) -> Iterator[Finding]:
    installed = ", ".join(sorted(subject.scorers)) or "none"
    for criterion, _, name in _chosen(subject):
        if name not in subject.scorers:
            yield (
                json_pointer(*_SCORERS, criterion, "scorer"),
                phrase(f"expected an installed scorer ({installed}), got ", Quoted(name)),
            )


def _scorer_params(subject: Subject) -> Iterator[Finding]:
    for criterion, choice, scorer in _installed(subject):
        where = (*_SCORERS, criterion, "params") if "params" in choice else (*_SCORERS, criterion)
        faults = subject.registry.validate_inline(scorer.params_schema, choice.get("params", {}))
        for fault in faults:
            yield json_pointer(*where) + fault.pointer, phrase(f"{scorer.pin}: ", fault.detail)


def _scorer_pin(subject: Subject) -> Iterator[Finding]:
    if not isinstance(subject.at("scorer_pins"), dict):
        return
    pins = subject.object_at("scorer_pins")
    for scorer in {scorer.name: scorer for _, _, scorer in _installed(subject)}.values():
        if scorer.name not in pins:
            yield "/scorer_pins", f"expected a pin for {scorer.pin}, which is used; got none"
        elif pins[scorer.name] != scorer.version:
            yield (
                json_pointer("scorer_pins", scorer.name),
                phrase(
                    f"expected the installed version {scorer.version}, got ",
                    Quoted(pins[scorer.name]),
                ),
            )


def _scorer_schema_usable(subject: Subject) -> Iterator[Finding]:
    for criterion, choice, name in _chosen(subject):
        schema = as_object(choice.get("params")).get("schema")
        if name == _INLINE_SCHEMA and isinstance(schema, dict):
            where = json_pointer(*_SCORERS, criterion, "params", "schema")
            for fault in subject.registry.inline_faults(schema):
                yield where + fault.pointer, fault.detail


def _judge_local(subject: Subject) -> Iterator[Finding]:
    for criterion, _, scorer in _installed(subject) if subject.from_api else ():
        if scorer.judgement is not None:
            yield (
                json_pointer(*_SCORERS, criterion, "scorer"),
                phrase(
                    "expected a scorer that asks no judge, for the service has none (the command "
                    "line has), got ",
                    Quoted(scorer.name),
                ),
            )


def _scorers_not_committed(subject: Subject) -> Iterator[Finding]:
    if subject.replays and _leaves_scorers_open(subject):
        yield (
            "/scoring",
            (
                "expected criteria_scorers, got none: each criterion gets exact_match over the "
                "member of its own name, and the tier is capped at UNVERIFIED"
            ),
        )


def _measure_unqualified(subject: Subject) -> Iterator[Finding]:
    weights = subject.object_at("criteria", "weights")
    steps = [step for _, step in numbered_objects(subject.at("hitl_steps"))]
    by_people = {as_text(step.get("criterion_id")) for step in steps if step.get("share") == 1}
    for criterion, _, scorer in _installed(subject):
        if scorer.kind is ScorerKind.TEXTUAL and criterion not in by_people:
            if weights and as_number(weights.get(criterion)) == 0:
                continue
            yield (
                json_pointer(*_SCORERS, criterion, "scorer"),
                phrase(
                    "expected a scorer that is exact or judged, or a weight of 0; got ",
                    Quoted(scorer.name),
                    ", which is textual, so the tier is capped at UNVERIFIED",
                ),
            )


def _scorer_pins_missing(subject: Subject) -> Iterator[Finding]:
    if subject.replays and "scorer_pins" not in subject.document:
        yield "", "expected scorer_pins, got none: the versions in use at commit are recorded"


def _qualification_known(subject: Subject) -> Iterator[Finding]:
    datasets = subject.object_at("dataset_hashes")
    for criterion, value in subject.object_at("scoring", "qualifications").items():
        pointer = json_pointer("scoring", "qualifications", criterion)
        if criterion not in subject.criterion_ids():
            yield (pointer, phrase("expected a criterion of criteria_ids, got ", Quoted(criterion)))
        dataset = as_text(as_object(value).get("dataset"))
        if dataset is not None and dataset not in datasets:
            wanted = phrase("expected a name in dataset_hashes, got ", Quoted(dataset))
            yield f"{pointer}/dataset", wanted


def _leaves_scorers_open(subject: Subject) -> bool:
    return subject.version == EXISTING and "criteria_scorers" not in subject.object_at("scoring")


def _chosen(subject: Subject) -> Iterator[tuple[str, JsonObject, str]]:
    """Yield criterion, its entry in `criteria_scorers`, and the scorer's name."""
    if not subject.replays:
        return
    for criterion, choice in subject.object_at(*_SCORERS).items():
        if isinstance(choice, dict):
            name = as_text(choice.get("scorer"))
            if name is not None:
                yield criterion, choice, name


def _installed(subject: Subject) -> Iterator[tuple[str, JsonObject, Scorer]]:
    """Yield criterion, its entry in `criteria_scorers`, and the scorer, where there is one."""
    for criterion, choice, name in _chosen(subject):
        if name in subject.scorers:
            yield criterion, choice, subject.scorers[name]


RULES = (
    Rule("criteria-scored", _criteria_scored),
    Rule("scorer-known", _scorer_known),
    Rule("scorer-params", _scorer_params),
    Rule("scorer-pin", _scorer_pin),
    Rule("scorer-schema-usable", _scorer_schema_usable),
    Rule("judge-local", _judge_local),
    Rule("qualification-known", _qualification_known, since=NEWEST),
    Rule("scorers-not-committed", _scorers_not_committed, severity="warning"),
    Rule("measure-unqualified", _measure_unqualified, severity="warning"),
    Rule("scorer-pins-missing", _scorer_pins_missing, severity="warning", since=CURRENT),
)
