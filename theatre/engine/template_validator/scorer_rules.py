"""Rules on criteria, their scorers and ratings by people (docs/contract/template.md §3)."""

import math
import re
from collections.abc import Collection, Iterator
from fractions import Fraction
from typing import Any, cast

from theatre.engine.models import Scorer, ScorerKind, judge_passes, judge_providers
from theatre.engine.oracle_contract import RECORDED_ADAPTERS
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject
from theatre.engine.templates import CURRENT, EXISTING, NEWEST, ResolutionStep, ScorerChoice

# Criteria and weights.


RESERVED_CRITERION = "composite_score"
"""The composite's key among the intervals of aggregate and certificate."""

_TOLERANCE = Fraction(1, 1_000_000)
_DOWNSTREAM_ID = re.compile(r"[a-z][a-z0-9_]{0,31}")
_WEIGHTS = ("criteria", "weights")


def _weights_within_criteria(subject: Subject) -> Iterator[Finding]:
    for criterion in subject.template.criteria.weights:
        yield from subject.unless_criterion(criterion, *_WEIGHTS, criterion)


def _weights_cover_criteria(subject: Subject) -> Iterator[Finding]:
    weights = subject.template.criteria.weights
    # No weights at all means equal weights; some of them would leave the rest to guessing.
    for criterion in sorted(subject.criterion_ids - weights.keys()) if weights else ():
        yield (
            json_pointer(*_WEIGHTS),
            phrase("expected a weight for ", Quoted(criterion), ", got none"),
        )


def _weights_finite_and_not_negative(subject: Subject) -> Iterator[Finding]:
    for criterion in subject.template.criteria.weights:
        # As it is written: -1 is not shown as -1.0, and what is no number is for the schema.
        weight = cast("Any", subject.document)["criteria"]["weights"][criterion]
        if type(weight) in {int, float} and not 0 <= weight < math.inf:
            yield (
                json_pointer(*_WEIGHTS, criterion),
                phrase("expected a finite weight ≥ 0, got ", Quoted(weight)),
            )


def _weights_sum_to_one(subject: Subject) -> Iterator[Finding]:
    weights = subject.template.criteria.weights.values()
    if weights and all(map(math.isfinite, weights)):
        total = sum((Fraction(repr(weight)) for weight in weights), start=Fraction(0))
        if abs(total - 1) > _TOLERANCE:
            yield json_pointer(*_WEIGHTS), f"expected a sum of 1 (± 1e-6), got {_decimal(total)}"


def _decimal(total: Fraction) -> str:
    try:
        return f"{float(total):.9g}"
    except OverflowError:
        return "a huge one"


def _reserved_criterion_id(subject: Subject) -> Iterator[Finding]:
    for index, criterion in enumerate(subject.template.criteria.criteria_ids):
        if criterion == RESERVED_CRITERION:
            yield (
                json_pointer("criteria", "criteria_ids", index),
                f"expected an id other than the reserved {RESERVED_CRITERION}, got it",
            )


def _criteria_id_length(subject: Subject) -> Iterator[Finding]:
    for index, criterion in enumerate(subject.template.criteria.criteria_ids):
        if criterion and not _DOWNSTREAM_ID.fullmatch(criterion):
            yield (
                json_pointer("criteria", "criteria_ids", index),
                phrase(
                    "expected at most 32 characters, a letter first (a downstream limit), got ",
                    Quoted(criterion),
                ),
            )


def _calibration_criterion_known(subject: Subject) -> Iterator[Finding]:
    criterion = subject.template.scoring.calibration_criterion
    if criterion is not None:
        yield from subject.unless_criterion(criterion, "scoring", "calibration_criterion")


CRITERIA_RULES = (
    Rule("weights-within-criteria", _weights_within_criteria),
    Rule("weights-sum-to-one", _weights_sum_to_one),
    Rule("weights-cover-criteria", _weights_cover_criteria),
    Rule("weights-finite-and-not-negative", _weights_finite_and_not_negative),
    Rule("reserved-criterion-id", _reserved_criterion_id),
    Rule("calibration-criterion-known", _calibration_criterion_known),
    Rule("criteria-id-length", _criteria_id_length, severity="warning"),
)


# Scorers. They hold for replays.


_SCORERS = ("scoring", "criteria_scorers")
_INLINE_SCHEMA = "json_schema"
"""The scorer whose parameter `schema` is a JSON Schema of the template's author."""


def _criteria_scored(subject: Subject) -> Iterator[Finding]:
    scoring = subject.template.scoring
    if not subject.template.replays or _leaves_scorers_open(subject):
        return
    is_written = "criteria_scorers" in scoring.model_fields_set
    where = json_pointer(*_SCORERS) if is_written else "/scoring"
    for criterion in sorted(subject.criterion_ids - scoring.criteria_scorers.keys()):
        yield (
            where,
            phrase(
                "expected criteria_scorers to name a scorer for ", Quoted(criterion), ", got none"
            ),
        )
    for criterion in scoring.criteria_scorers:
        yield from subject.unless_criterion(criterion, *_SCORERS, criterion)


def _scorer_known(subject: Subject) -> Iterator[Finding]:
    installed = ", ".join(sorted(subject.scorers)) or "none"
    for criterion, choice in _chosen(subject):
        if choice.scorer not in subject.scorers:
            yield (
                json_pointer(*_SCORERS, criterion, "scorer"),
                phrase(f"expected an installed scorer ({installed}), got ", Quoted(choice.scorer)),
            )


def _scorer_params(subject: Subject) -> Iterator[Finding]:
    for criterion, choice, scorer in _installed(subject):
        inside = ("params",) if "params" in choice.model_fields_set else ()
        where = json_pointer(*_SCORERS, criterion, *inside)
        for fault in subject.registry.validate_inline(scorer.params_schema, choice.params):
            yield where + fault.pointer, phrase(f"{scorer.pin}: ", fault.detail)


def _scorer_pin(subject: Subject) -> Iterator[Finding]:
    pins = subject.document.get("scorer_pins")
    if not isinstance(pins, dict):
        return
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
    for criterion, choice in _chosen(subject):
        schema = choice.params.get("schema") if isinstance(choice.params, dict) else None
        if choice.scorer == _INLINE_SCHEMA and isinstance(schema, dict):
            where = json_pointer(*_SCORERS, criterion, "params", "schema")
            for fault in subject.registry.inline_faults(schema):
                yield where + fault.pointer, fault.detail


def _judge_local(subject: Subject) -> Iterator[Finding]:
    available = ", ".join(sorted(subject.judges)) or "none"
    for criterion, choice, scorer in _installed(subject) if subject.from_api else ():
        named = judge_providers(choice.params)
        # One that names no provider could ask any.
        missing = named.difference(subject.judges) if named else {"none"}
        if scorer.judgement is not None and missing:
            yield (
                json_pointer(*_SCORERS, criterion, "scorer"),
                phrase(
                    "expected a scorer that asks judges of providers that this service has "
                    f"({available}; the command line takes your own keys), got ",
                    Quoted(scorer.name),
                    " with ",
                    Quoted(", ".join(sorted(missing))),
                ),
            )


def _scorers_not_committed(subject: Subject) -> Iterator[Finding]:
    if subject.template.replays and _leaves_scorers_open(subject):
        yield (
            "/scoring",
            (
                "expected criteria_scorers, got none: each criterion gets exact_match over the "
                "member of its own name, and the tier is capped at UNVERIFIED"
            ),
        )


def _measure_unqualified(subject: Subject) -> Iterator[Finding]:
    relied_on = _qualifications(subject)
    for criterion, _, scorer in _deciding(subject):
        if scorer.kind is not ScorerKind.EXACT and criterion not in relied_on:
            yield (
                json_pointer(*_SCORERS, criterion, "scorer"),
                phrase(
                    "expected a scorer that is exact, a qualification, or a weight of 0; got ",
                    Quoted(scorer.name),
                    f", which is {scorer.kind}, so the tier is capped at UNVERIFIED "
                    "(`echelon qualify` measures it)",
                ),
            )


def _controls_counted(subject: Subject) -> Iterator[Finding]:
    """Yield what keeps the control items from being there, without which no judge has a tier."""
    for criterion, choice, scorer in _deciding(subject):
        if scorer.kind is not ScorerKind.JUDGED or criterion not in _qualifications(subject):
            continue
        where = json_pointer(*_SCORERS, criterion)
        capped = "so no control items are counted, and the tier is capped at UNVERIFIED"
        if "controls" not in _members(choice.params):
            yield where, f"expected controls among the params, got none, {capped}"
        elif not any(_counts_controls(step, criterion, choice) for step in _computations(subject)):
            wanted = "a step that computes judge_controls over episodes with this very scorer"
            yield where, f"expected {wanted}, got none, {capped}"


def _counts_controls(step: ResolutionStep, criterion: str, choice: ScorerChoice) -> bool:
    params = step.input_spec.get("params")
    asked = params.get("criteria_scorers") if isinstance(params, dict) else None
    wanted = {"scorer": choice.scorer, "params": choice.params}
    counted = isinstance(asked, dict) and asked.get(criterion) == wanted
    return counted and step.input_spec.get("computation") == "judge_controls"


def _scorer_pins_missing(subject: Subject) -> Iterator[Finding]:
    if subject.template.replays and "scorer_pins" not in subject.template.model_fields_set:
        yield "", "expected scorer_pins, got none: the versions in use at commit are recorded"


_QUALIFICATIONS = ("scoring", "qualifications")


def _qualifications(subject: Subject) -> dict[str, Any]:
    committed = subject.template.scoring.qualifications if subject.version == NEWEST else None
    return committed if isinstance(committed, dict) else {}


def _qualification_known(subject: Subject) -> Iterator[Finding]:
    for criterion, value in _qualifications(subject).items():
        where = (*_QUALIFICATIONS, criterion)
        yield from subject.unless_criterion(criterion, *where)
        dataset = value.get("dataset") if isinstance(value, dict) else None
        if isinstance(dataset, str) and dataset not in subject.config.dataset_paths:
            wanted = phrase("expected a name in dataset_paths, got ", Quoted(dataset))
            yield json_pointer(*where, "dataset"), wanted
    for criterion, _, scorer in _installed(subject):
        if scorer.kind is ScorerKind.EXACT and criterion in _qualifications(subject):
            yield (
                json_pointer(*_QUALIFICATIONS, criterion),
                phrase(
                    "expected a criterion whose scorer is textual or judged, got ",
                    Quoted(scorer.name),
                    ", which is exact",
                ),
            )


_MOST_JUDGED = 5
"""So many times an episode's answers are judged at most (docs/adr/0055)."""


def _repeats_fit(subject: Subject) -> Iterator[Finding]:
    """Yield what reads one answer of an episode, where a template commits to more than one."""
    template, policy = subject.template, subject.template.execution_policy
    if policy.repeats <= 1:
        return
    reads_one = {
        "deterministic_sample 0: repeats show whether answers vary": policy.deterministic_sample,
        "episode_runner single_call: each turn depends on the one before": (
            subject.config.episode_runner != "single_call"
        ),
        "no hitl_steps: people rate one answer": template.hitl_steps,
        "no computation over episodes that reads one answer (those with criteria_scorers score "
        "each)": any(
            "criteria_scorers" not in _members(step.input_spec.get("params"))
            for step in _computations(subject)
        ),
        "a construct that is asked: what is recorded holds one answer": (
            subject.config.adapter_types & RECORDED_ADAPTERS
        ),
        f"at most {_MOST_JUDGED} for repeats times judge passes: all exchanges about an episode "
        "have to fit its record": any(
            scorer.judgement is not None
            and policy.repeats * judge_passes(choice.params) > _MOST_JUDGED
            for _, choice, scorer in _installed(subject)
        ),
    }
    for wanted, is_missing in reads_one.items():
        if is_missing:
            yield "/execution_policy/repeats", f"expected {wanted}; got repeats: {policy.repeats}"


def _computations(subject: Subject) -> Iterator[ResolutionStep]:
    for step in subject.template.resolution_programme:
        over = step.input_spec.get("over", "episodes")
        if step.type == "deterministic_computation" and over == "episodes":
            yield step


def _members(params: object) -> Collection[str]:
    return params if isinstance(params, dict) else ()


def _leaves_scorers_open(subject: Subject) -> bool:
    written = subject.template.scoring.model_fields_set
    return subject.version == EXISTING and "criteria_scorers" not in written


def _chosen(subject: Subject) -> Iterator[tuple[str, ScorerChoice]]:
    chosen = subject.template.scoring.criteria_scorers if subject.template.replays else {}
    return ((criterion, choice) for criterion, choice in chosen.items() if choice.scorer)


def _installed(subject: Subject) -> Iterator[tuple[str, ScorerChoice, Scorer]]:
    """Yield criterion, its entry in `criteria_scorers`, and the scorer, where there is one."""
    for criterion, choice in _chosen(subject):
        if choice.scorer in subject.scorers:
            yield criterion, choice, subject.scorers[choice.scorer]


def _deciding(subject: Subject) -> Iterator[tuple[str, ScorerChoice, Scorer]]:
    """Yield what has a weight that is not all people's, as `_installed`."""
    weights = subject.template.criteria.weights
    by_people = {step.criterion_id for step in subject.template.hitl_steps if step.share == 1}
    for criterion, choice, scorer in _installed(subject):
        if criterion not in by_people and weights.get(criterion) != 0:
            yield criterion, choice, scorer


RULES = (
    Rule("criteria-scored", _criteria_scored),
    Rule("scorer-known", _scorer_known),
    Rule("scorer-params", _scorer_params),
    Rule("scorer-pin", _scorer_pin),
    Rule("scorer-schema-usable", _scorer_schema_usable),
    Rule("judge-local", _judge_local),
    Rule("qualification-known", _qualification_known, since=NEWEST),
    Rule("repeats-fit", _repeats_fit, since=NEWEST),
    Rule("scorers-not-committed", _scorers_not_committed, severity="warning"),
    Rule("measure-unqualified", _measure_unqualified, severity="warning"),
    Rule("controls-counted", _controls_counted, severity="warning", since=NEWEST),
    Rule("scorer-pins-missing", _scorer_pins_missing, severity="warning", since=CURRENT),
)


# Ratings by people.


_STEPS = "hitl_steps"
_PROGRAMME = "resolution_programme"
_RUBRIC, _AGGREGATION = "hitl_rubric", "aggregation"
# The scores of a step become a file of its name in the evidence.
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_POINT = re.compile(r"-?[0-9]{1,30}(?:[.][0-9]{1,30})?")


def _hitl_step_known(subject: Subject) -> Iterator[Finding]:
    rated = {step.step_id for _, step in subject.template.steps(_RUBRIC)}
    for index, entry in enumerate(subject.template.hitl_steps):
        if entry.step_id and entry.step_id not in rated:
            yield (
                json_pointer(_STEPS, index, "step_id"),
                phrase("expected a hitl_rubric step of the programme, got ", Quoted(entry.step_id)),
            )


def _hitl_steps_match(subject: Subject) -> Iterator[Finding]:
    specified = {entry.step_id for entry in subject.template.hitl_steps}
    for index, step in subject.template.steps(_RUBRIC):
        if step.step_id and step.step_id not in specified:
            yield (
                json_pointer(_PROGRAMME, index, "step_id"),
                phrase("expected an entry in hitl_steps for ", Quoted(step.step_id), ", got none"),
            )


def _scale_ordered(subject: Subject) -> Iterator[Finding]:
    for index, entry in enumerate(subject.template.hitl_steps):
        low, high = entry.scoring_scale.min, entry.scoring_scale.max
        if low is not None and high is not None and not low < high:
            yield (
                json_pointer(_STEPS, index, "scoring_scale"),
                phrase("expected min < max, got ", Quoted(low), " and ", Quoted(high)),
            )


def _scale_labels_on_scale(subject: Subject) -> Iterator[Finding]:
    for index, entry in enumerate(subject.template.hitl_steps):
        scale = entry.scoring_scale
        low, high = scale.min, scale.max
        if low is None or high is None or not low < high:
            continue
        for label in scale.labels:
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
    for index, entry in enumerate(subject.template.hitl_steps):
        if entry.criterion_id is not None:
            yield from subject.unless_criterion(entry.criterion_id, _STEPS, index, "criterion_id")


def _hitl_criterion_once(subject: Subject) -> Iterator[Finding]:
    shared: dict[str, str] = {}
    for index, entry in enumerate(subject.template.hitl_steps):
        if entry.criterion_id is None or "share" not in entry.model_fields_set:
            continue
        # An entry that is there twice is for another rule.
        if shared.setdefault(entry.criterion_id, entry.step_id) != entry.step_id:
            yield (
                json_pointer(_STEPS, index, "criterion_id"),
                phrase(
                    "expected one step with a share in each criterion, got ",
                    Quoted(entry.criterion_id),
                    " again",
                ),
            )


def _hitl_before_aggregation(subject: Subject) -> Iterator[Finding]:
    """Yield ratings that come too late: a score has both its parts when it is summed up."""
    entries = subject.template.hitl_steps
    counting = {one.step_id for one in entries if "criterion_id" in one.model_fields_set}
    first = min((at for at, _ in subject.template.steps(_AGGREGATION)), default=math.inf)
    for index, step in subject.template.steps(_RUBRIC):
        if index > first and step.step_id in counting:
            yield (
                json_pointer(_PROGRAMME, index),
                "expected a rating with a criterion_id before the first aggregation, got it behind",
            )


def _hitl_step_id_is_file_name(subject: Subject) -> Iterator[Finding]:
    for index, step in subject.template.steps(_RUBRIC):
        if step.step_id and not _FILE_NAME.fullmatch(step.step_id):
            yield (
                json_pointer(_PROGRAMME, index, "step_id"),
                phrase(
                    "expected letters, digits, _ and -, and . behind the first of them, got ",
                    Quoted(step.step_id),
                ),
            )


RATING_RULES = (
    Rule("hitl-step-known", _hitl_step_known),
    Rule("hitl-steps-match", _hitl_steps_match),
    Rule("scale-ordered", _scale_ordered),
    Rule("scale-labels-on-scale", _scale_labels_on_scale),
    Rule("hitl-criterion-known", _hitl_criterion_known),
    Rule("hitl-criterion-once", _hitl_criterion_once),
    Rule("hitl-before-aggregation", _hitl_before_aggregation),
    Rule("hitl-step-id-is-file-name", _hitl_step_id_is_file_name, since=CURRENT),
)
