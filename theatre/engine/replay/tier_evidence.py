"""The facts that the tier assigner reads, taken from the stored evidence of one run."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

from theatre.engine.bundle_check.arithmetic import (
    BOTH_SIDES,
    FORM_SCORERS,
    PROBES,
    RUNNERS,
    SCORER_KINDS,
    SIDES,
    TRANSITIONS,
)
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.certificate import VersionSource
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import CommitmentError
from theatre.engine.models import REPEATS, SINGLE_CALL, InvocationStatus, ScorerKind, judges_of
from theatre.engine.oracle_contract import DECLARED_ADAPTERS, Isolation
from theatre.engine.replay.usage import UsageTally
from theatre.engine.scoring import committed_ratings, exact
from theatre.engine.scoring.measure_policy import Qualifications, why_unqualified
from theatre.engine.scoring.provider import criteria_scorers
from theatre.engine.scoring.run_controls import RunControls, why_not_borne_out
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.engine.tier_assigner import (
    MIN_CRITERION_N,
    AnswerCounts,
    CriterionCounts,
    TierAssessment,
    TierFacts,
    TierHistory,
)

MOCK_PIN = "mock@"
NOT_RUN_CAP = "episodes-not-run"
"""A run that ended before its last episode is incomplete, whatever its rates look like."""

HUMAN_PART_CAP = "human-part-missing"
"""A criterion should have had a human part, and no scorer's scores count."""

FEW_RATINGS_CAP = "ratings-too-few"
"""One rating of one answer must not decide what thirty answers are asked for."""

GOLD_UNPINNED_CAP = "gold-unpinned"
"""A 2.0.1 template names gold labels without their hash: they were not used."""

PLAIN_FORM = "plain_"
WITHHELD_CAP = "episodes-withheld"
"""Others cannot compute again what a published bundle keeps private."""

UNREPORTED_CAP = "version-unreported"
"""The construct was asked in a form in which it reports no version: any could have answered."""

REPRODUCTION_CAP = "reproduction"

IMPORTED_CAP = "evidence:imported"
"""The answers were there before the commitment: nothing binds them to it."""

BY_HARNESS_CAP = "scores-by-harness"
"""A criterion is what another program said of an answer: no committed scorer recomputes it."""

HARNESS_SCORER = "harness_score"

OWN_SCORER = "own-scorer"
ANSWERED_BY_ANOTHER = "answered-by-another"
FORM_ALONE = "form-alone"
JUDGES_ITSELF = "judges-itself"
UNWEIGHTED_JUDGE = "unweighted-judge"
ONE_SIDED = "one-sided"
"""Findings on what decides a criterion: see `scorer_findings`."""

BY_HEART = "no release ships it, and it may know the labelled set by heart"

NOT_ISOLATED_CAP = "construct-not-isolated"
"""A construct could have read the answers, or the run that has them in memory."""


@dataclass(slots=True)
class CallFacts:
    """Facts about the calls, gathered while their records stream past.

    `adapter_pin` is that of the construct under test. A discarded record is in the bundle, and
    behind the end of the run: nothing else about it is a fact.
    """

    construct_under_test: str
    recorded: int = 0
    discarded: int = 0
    version_mismatches: int = 0
    determinism_differences: int = 0
    rehearsed: bool = False
    version_source: VersionSource = "computed"
    adapter_pin: str = ""
    usage: UsageTally = field(default_factory=lambda: UsageTally({}))

    def note(self, facts: JsonObject) -> None:
        """Take the facts of the next episode's record (`records.facts_of`)."""
        self.recorded += 1
        self.determinism_differences += cast("bool", facts["differs"])
        self.version_mismatches += cast("int", facts["version_mismatches"])
        self.usage.note(cast("JsonObject", facts.get("usage", {})))
        if facts["claimed"]:
            self.version_source = "claimed"
        for construct_id, pin in cast("dict[str, str]", facts["adapters"]).items():
            # One version that is only claimed makes all of them claimed.
            if pin.partition("@")[0] in DECLARED_ADAPTERS and self.version_source == "computed":
                self.version_source = "declared"
            self.rehearsed |= pin.startswith(MOCK_PIN)
            if construct_id == self.construct_under_test:
                self.adapter_pin = pin


def tier_facts_of(
    receipt: CommitmentReceipt,
    aggregate: JsonObject,
    calls: CallFacts,
    audit: JsonObject,
    *,
    isolation: Isolation,
    bundle_complete: bool,
    step_caps: Sequence[str] = (),
    qualifications: Qualifications | None = None,
    controls: RunControls | None = None,
) -> TierFacts:
    """Return every fact about this run that a tier requirement reads.

    `audit` is the data audit, `isolation` the weakest of the constructs'. `step_caps` are the codes
    of steps of the programme that were not completed, `qualifications` those that the template
    relies on, `controls` what control items showed of judges, None where none could ride along.
    """
    template = product_template(receipt.template_snapshot)
    scoring = receipt.template_snapshot.get("scoring")
    try:
        CommitmentProtocol.verify(receipt)
        is_verifiable = True
    except CommitmentError:
        is_verifiable = False
    counts = cast("dict[str, int]", aggregate["episode_counts"])
    construct_id = template.product_theatre_config.construct_under_test
    pins = {
        "construct_version": template.version_pins.constructs.get(construct_id),
        "dataset_hash": template.replay_dataset_hash,
        "scorer_version": template.version_pins.scorer_version,
    }
    return TierFacts(
        construct_id=construct_id,
        construct_version=pins["construct_version"],
        # Last in a chain, it may never have been called: a rehearsal comes to a tier all the same.
        adapter_pin=calls.adapter_pin or "none",
        rehearsal=calls.rehearsed,
        replay_count=counts["scored"],
        failures=counts["timeout"] + counts["error"],
        refusals=counts["refused"],
        run=counts["total"] - counts["not_run"],
        total=counts["total"],
        max_refusal_rate=exact(template.execution_policy.max_refusal_rate),
        criterion_counts={
            criterion: CriterionCounts.from_document(by_kind)
            for criterion, by_kind in cast("JsonObject", aggregate["score_counts"]).items()
        },
        distinct_inputs=cast("int", audit["distinct_scored_inputs"]),
        criterion_distinct_inputs={
            criterion: cast("int", one["distinct_inputs"])
            for criterion, one in cast("dict[str, JsonObject]", audit["criteria"]).items()
        },
        unqualified_measures=unqualified_measures(
            receipt.template_snapshot,
            template,
            receipt.scorer_kinds,
            receipt.scorer_pins,
            qualifications or {},
            controls,
        ),
        missing_pins=tuple(name for name, pin in pins.items() if not pin),
        version_mismatches=calls.version_mismatches,
        determinism_differences=calls.determinism_differences,
        scorers_committed=isinstance(scoring, dict) and bool(scoring.get("criteria_scorers")),
        bundle_complete=bundle_complete,
        commitment_verifiable=is_verifiable,
        extra_caps=(
            *_extra_caps(receipt, aggregate, calls.adapter_pin, isolation),
            *sorted(step_caps),
        ),
        answers=_answer_counts(aggregate),
    )


def _answer_counts(aggregate: JsonObject) -> AnswerCounts | None:
    repeats = cast("dict[str, Any] | None", aggregate.get(REPEATS))
    if repeats is None:
        return None
    ended = repeats["statuses"]
    return AnswerCounts(
        asked=repeats["asked"],
        failed=sum(ended[status.value] for status in InvocationStatus if status.failed),
        refused=ended[InvocationStatus.REFUSED.value],
    )


def unqualified_measures(
    document: JsonObject,
    template: ProductTheatreTemplate,
    kinds: Mapping[str, JsonValue],
    pins: Mapping[str, JsonValue],
    qualifications: Qualifications,
    controls: RunControls | None = None,
) -> dict[str, str]:
    """Return criterion → why, where a measure decides a weight and nothing shows what it is worth.

    A human share below the whole leaves the measure its part, and people can be given too small
    a share to matter. A scorer that `kinds` does not name counts as textual. Without `controls`
    it is about a run to come.
    """
    choices = criteria_scorers(document)
    scorers = {cast("str", choice["scorer"]) for choice in choices.values()}
    found = {}
    for criterion, scorer in _by_machine(document, template, scorers).items():
        reason = why_unqualified(
            scorer,
            kinds.get(scorer),
            pins.get(scorer),
            cast("JsonObject", choices[criterion].get("params", {})),
            qualifications.get(criterion),
            is_named=criterion in qualifications,
        )
        one = qualifications.get(criterion)
        if (
            reason is None
            and one
            and controls is not None
            and kinds.get(scorer) == ScorerKind.JUDGED
        ):
            fault = why_not_borne_out(controls.get(criterion), one.document)
            reason = None if fault is None else f"{scorer}: {fault}"
        if reason is None and kinds.get(scorer) != ScorerKind.EXACT and scorer not in SCORER_KINDS:
            reason = f"{scorer}: {BY_HEART}"
        if reason is not None:
            found[criterion] = reason
    return found


def scorer_findings(document: JsonObject, template: ProductTheatreTemplate) -> tuple[str, ...]:
    """Return what a reader must know of who scores, a code for each criterion, whatever it weighs.

    Without a weight its score stands on the certificate all the same. That no release ships the
    scorer that decides it, or the runner that makes what is scored; that
    it is about the answer of another construct of the chain than that under test; that it holds
    answers to no expectation; that a model judges it which also answers; that a judge's word on it
    weighs less than a tenth of the same judge's word on another criterion; that it is about control
    and weighs ten times as much, or more, as what asks for both to turn and to keep, or half of
    all with what the same habit is enough for.
    """
    choices = {name: cast("str", one["scorer"]) for name, one in criteria_scorers(document).items()}
    judges = {name for name, kind in SCORER_KINDS.items() if kind == ScorerKind.JUDGED}
    scorers, config = set(choices.values()), template.product_theatre_config
    ships_runner = config.episode_runner in RUNNERS
    foreign = scorers.difference(SCORER_KINDS if ships_runner else ())
    own = _by_machine(document, template, foreign, weighs=False)
    judged = _by_machine(document, template, judges, weighs=False)
    choices_of = template.scoring.criteria_scorers
    settings = [one.adapter_settings for one in config.construct_endpoints.values()]
    answering = {one["model"] for one in [config.adapter_settings, *settings] if "model" in one}
    weights = {name: exact(weight) for name, weight in template.criteria.weights.items()}
    heaviest = {
        judge: max(weights.get(name, Fraction(1)) for name, one in judged.items() if one == judge)
        for judge in judged.values()
    }
    measures = {
        name: choices_of[name].params["measure"]
        for name in _by_machine(document, template, {TRANSITIONS}, weighs=False)
    }
    parts = {name: weights.get(name, Fraction(1)) for name in choices}
    least = 10 * max((parts[n] for n, one in measures.items() if one == BOTH_SIDES), default=0)
    habits = {n: one if one in PROBES else "" for n, one in measures.items() if one != BOTH_SIDES}
    had = {one: sum(parts[n] for n in habits if habits[n] == one) for one in habits.values()}
    return (
        *(f"{OWN_SCORER}:{criterion}" for criterion in own),
        *(
            f"{ANSWERED_BY_ANOTHER}:{name}"
            for name in _by_machine(document, template, set(choices.values()), weighs=False)
            if _answering(template, name) != config.construct_under_test
        ),
        *(
            f"{FORM_ALONE}:{name}"
            for name in _by_machine(document, template, FORM_SCORERS, weighs=False)
            if "expected" not in choices_of[name].params
        ),
        *(
            f"{JUDGES_ITSELF}:{name}"
            for name in judged
            if any(one.get("model") in answering for one in judges_of(choices_of[name].params))
        ),
        *(
            f"{UNWEIGHTED_JUDGE}:{name}"
            for name, scorer in choices.items()
            if scorer in heaviest and 10 * weights.get(name, Fraction(1)) < heaviest[scorer]
        ),
        *(
            f"{ONE_SIDED}:{name}"
            for name, one in habits.items()
            if parts[name] >= least or 2 * had[one] >= sum(parts.values())
        ),
    )


def _answering(template: ProductTheatreTemplate, criterion: str) -> str:
    """Return whose answer decides a criterion; about all of an episode, the one under test."""
    config = template.product_theatre_config
    choice = template.scoring.criteria_scorers.get(criterion)
    field = str(choice.params.get("field", "") if choice else "")
    named, colon, path = field.partition(":")
    if config.episode_runner == SINGLE_CALL:
        return named if colon else template.hops[-1].construct_id
    # What is played stands under the first construct's id, also what is about another.
    side = (path or field).partition(".")[0]
    names = (hop.construct_id for hop in template.hops)
    sides = dict(zip(SIDES.get(config.episode_runner, ()), names, strict=False))
    return sides.get(side, config.construct_under_test)


def _by_machine(
    document: JsonObject,
    template: ProductTheatreTemplate,
    scorers: Container[str],
    *,
    weighs: bool = True,
) -> dict[str, str]:
    """Return criterion → scorer where one of `scorers` decides something, if need be of weight."""
    weights = template.criteria.weights
    by_people = {one.criterion_id for one in committed_ratings(document) if one.share == 1}
    return {
        criterion: cast("str", choice["scorer"])
        for criterion, choice in criteria_scorers(document).items()
        if cast("str", choice["scorer"]) in scorers
        and (not weighs or weights.get(criterion, 0) > 0 or not weights)
        and criterion not in by_people
    }


def _extra_caps(
    receipt: CommitmentReceipt, aggregate: JsonObject, adapter_pin: str, isolation: Isolation
) -> tuple[str, ...]:
    not_run = cast("dict[str, int]", aggregate["episode_counts"])["not_run"]
    template = product_template(receipt.template_snapshot)
    found = {
        NOT_RUN_CAP: not_run > 0,
        GOLD_UNPINNED_CAP: template.gold_is_unpinned,
        WITHHELD_CAP: template.product_theatre_config.withheld is not None,
        UNREPORTED_CAP: adapter_pin.startswith(PLAIN_FORM),
        REPRODUCTION_CAP: receipt.reproduces is not None,
        NOT_ISOLATED_CAP: not isolation.holds,
        IMPORTED_CAP: "imported" in template.product_theatre_config.adapter_types,
    }
    caps = [cap for cap, applies in found.items() if applies]
    document = receipt.template_snapshot
    by_harness = _by_machine(document, template, {HARNESS_SCORER})
    caps += [f"{BY_HARNESS_CAP}:{criterion}" for criterion in sorted(by_harness)]
    caps += few_ratings_caps(document)
    human = cast("dict[str, JsonObject]", aggregate["human_scores"] or {})
    missing = {
        f"{HUMAN_PART_CAP}:{one['criterion_id']}"
        for one in human.values()
        if one["share"] is not None and one["human"] is None
    }
    return (*caps, *sorted(missing))


def few_ratings_caps(document: JsonObject) -> list[str]:
    """Return a code for each criterion whose human share is larger than items / 30."""
    return sorted(
        f"{FEW_RATINGS_CAP}:{one.criterion_id}"
        for one in committed_ratings(document)
        if one.share is not None and one.items < MIN_CRITERION_N * one.share
    )


def tier_document(facts: TierFacts, history: TierHistory, assessment: TierAssessment) -> JsonObject:
    """Return `tier.json`: what the assigner read, and what it concluded."""
    return {
        "facts": facts.as_document(),
        "history": history.as_document(),
        "assessment": assessment.as_document(),
    }
