"""From a committed template to the scores of one episode, criterion by criterion.

Source: docs/contract/scoring.md §1 and §2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import PinMismatchError, UnknownScorerError
from theatre.engine.models import (
    CriterionResult,
    EpisodeOutcome,
    GroundTruthEpisode,
    InvocationStatus,
    Judgement,
    Scored,
    Scorer,
    ScoringCase,
    Verdict,
)
from theatre.engine.scoring.arithmetic import exact, normalised_weights, to_nano
from theatre.engine.scoring.ratings import committed_ratings
from theatre.engine.scoring.repeats import (
    RepeatScores,
    deciding_status,
    mean_result,
    published_nano,
)

# Dotted paths into JSON: `cells.0.q` walks objects by key and arrays by index.


class Absent(Enum):
    """The value of a path that leads nowhere; null is a value, this is not."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

# One spelling an index: ASCII, no leading zero, and short enough for any int().
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def at_path(value: JsonValue, path: str) -> JsonValue | Absent:
    """Return what lies at `path` below `value`, or ABSENT."""
    current = value
    for step in path.split("."):
        if isinstance(current, dict) and step in current:
            current = current[step]
        elif isinstance(current, list) and _INDEX.fullmatch(step) and int(step) < len(current):
            current = current[int(step)]
        else:
            return ABSENT
    return current


# Where `field` and `expected` of a criterion point: into an answer, an expectation, a gold label.
#
# Source: docs/contract/scoring.md §2.


_GOLD_PREFIX = "gold:"


def expected_at(
    path: str, expected_output: JsonObject | None, label: JsonObject | None
) -> JsonValue | Absent:
    """Return what lies at `path` of the expectation, or of the gold label for `gold:<path>`.

    `gold:` alone names the whole label. ABSENT where the dataset holds nothing there.
    """
    if path.startswith(_GOLD_PREFIX):
        inside = path.removeprefix(_GOLD_PREFIX)
        if label is None:
            return ABSENT
        return at_path(label, inside) if inside else label
    return ABSENT if expected_output is None else at_path(expected_output, path)


def answered_at(path: str | None, hops: Mapping[str, JsonObject]) -> JsonValue | Absent:
    """Return what lies at `path` of the last output, or at `<construct_id>:<path>` of a hop's.

    `hops` is construct → output in call order; no path names the whole of the last output.
    ABSENT where the answer holds nothing there.
    """
    outputs = list(hops.values())
    if path is None:
        return outputs[-1] if outputs else ABSENT
    construct_id, separator, inner = path.partition(":")
    if separator:
        return at_path(hops[construct_id], inner) if construct_id in hops else ABSENT
    return at_path(outputs[-1], path) if outputs else ABSENT


# Which scorer judges which criterion: what a template commits, else the default of its version.


DEFAULT_SCORER = "exact_match"
_LABEL_SCORER = "label_accuracy"

_WITHOUT_SCORERS = "2.0.1"
"""The version whose templates may leave the choice of scorers open."""


def criteria_scorers(document: JsonObject) -> dict[str, JsonObject]:
    """Return criterion → {"scorer", "params"} of a validated template.

    A 2.0.1 template that names no scorers compares, for each criterion, the member of that name
    in the answer with the one in the expectation. Source: docs/contract/template.md §1.
    """
    scoring = cast("JsonObject", document.get("scoring", {}))
    if document.get("schema_version") == _WITHOUT_SCORERS and "criteria_scorers" not in scoring:
        criteria = cast("JsonObject", document["criteria"])
        return {
            criterion: {
                "scorer": DEFAULT_SCORER,
                "params": {"field": criterion, "expected": criterion},
            }
            for criterion in cast("list[str]", criteria["criteria_ids"])
        }
    return cast("dict[str, JsonObject]", scoring.get("criteria_scorers", {}))


def calibration_criterion(document: JsonObject) -> str | None:
    """Return the criterion that stated probabilities are about: as committed, else the obvious.

    Obvious is the one criterion with `label_accuracy`. Source: docs/contract/scoring.md §5.
    """
    committed = cast("JsonObject", document.get("scoring", {})).get("calibration_criterion")
    if isinstance(committed, str):
        return committed
    labels = [
        criterion
        for criterion, choice in criteria_scorers(document).items()
        if choice["scorer"] == _LABEL_SCORER
    ]
    return labels[0] if len(labels) == 1 else None


DEFAULT_HOLDOUT_SPLIT = 0.2


class CriterionPlan(NamedTuple):
    """How one committed criterion is scored: its scorer, parameters and exact weight."""

    criterion_id: str
    scorer: Scorer
    params: JsonObject
    weight: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeAnswer:
    """A construct's answer to one episode: its status and, on success, the output of each hop.

    `hops` is in call order; the last one's output is what `field` points into by default.
    `judgements` has the recorded exchanges of each criterion that a judge was asked about,
    `judge_seed` is what the order of what he is shown follows from.
    """

    status: InvocationStatus
    hops: Mapping[str, JsonObject]
    judgements: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)
    judge_seed: str = ""


class EpisodeScores(NamedTuple):
    """What an episode counts as, and the result for each criterion."""

    outcome: EpisodeOutcome
    by_criterion: Mapping[str, CriterionResult]


class TheatreScoringProvider:
    """Scores episodes by the criteria of one committed template; holds no state of a run."""

    def __init__(self, document: JsonObject, scorers: Mapping[str, Scorer]) -> None:
        """Read the plan out of a validated template.

        Raises UnknownScorerError for a scorer that is not installed and PinMismatchError for
        one whose version is not the pinned one.
        """
        self.criteria = _criterion_plans(document, scorers)
        scoring = cast("JsonObject", document.get("scoring", {}))
        self.holdout_split = exact(
            cast("float", scoring.get("holdout_split", DEFAULT_HOLDOUT_SPLIT))
        )
        policy = cast("JsonObject", document.get("execution_policy") or {})
        self.repeats = int(cast("float", policy.get("repeats", 1)))
        # k answers state k probabilities, and are one question: they would count k times.
        self.calibration_criterion = None if self.repeats > 1 else calibration_criterion(document)
        self.ratings = committed_ratings(document)

    @property
    def criterion_ids(self) -> tuple[str, ...]:
        """Return the criteria in committed order."""
        return tuple(plan.criterion_id for plan in self.criteria)

    @property
    def scorer_pins(self) -> dict[str, str]:
        """Return scorer → version for every scorer the plan uses."""
        return {plan.scorer.name: plan.scorer.version for plan in self.criteria}

    @property
    def scorer_kinds(self) -> dict[str, str]:
        """Return scorer → what its scores rest on, for every scorer the plan uses."""
        return {plan.scorer.name: plan.scorer.kind.value for plan in self.criteria}

    @property
    def needs_judge(self) -> bool:
        """Return whether a judge must be asked about answers."""
        return any(plan.scorer.judgement is not None for plan in self.criteria)

    def case(
        self,
        criterion_id: str,
        episode: GroundTruthEpisode,
        answer: EpisodeAnswer,
        gold: JsonObject | None = None,
    ) -> ScoringCase | CriterionResult:
        """Return what the scorer of a criterion sees, or the result where it is not asked."""
        plan = next(plan for plan in self.criteria if plan.criterion_id == criterion_id)
        return _case(plan, episode, answer, gold)

    def judgements(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, gold: JsonObject | None = None
    ) -> dict[str, Judgement]:
        """Return criterion → what a judge must be asked about `answer`, in committed order."""
        asked = {}
        for plan in self.criteria:
            case = _case(plan, episode, answer, gold)
            if plan.scorer.judgement is not None and isinstance(case, ScoringCase):
                asked[plan.criterion_id] = plan.scorer.judgement(case)
        return asked

    def expectations(
        self, episode: GroundTruthEpisode, gold: JsonObject | None = None
    ) -> dict[str, JsonValue]:
        """Return criterion → what an answer is checked against, null included, where it applies."""
        held = {plan.criterion_id: expectation_of(plan, episode, gold) for plan in self.criteria}
        return {
            criterion: value for criterion, value in held.items() if not isinstance(value, Absent)
        }

    def score_episode(
        self, episode: GroundTruthEpisode, answer: EpisodeAnswer, gold: JsonObject | None = None
    ) -> EpisodeScores:
        """Return outcome and results of `episode`; `gold` is its gold label, if it has one."""
        results = {
            plan.criterion_id: score_criterion(plan, episode, answer, gold)
            for plan in self.criteria
        }
        return EpisodeScores(_outcome(answer.status, results), results)

    def score_repeats(
        self,
        episode: GroundTruthEpisode,
        answers: Sequence[EpisodeAnswer],
        gold: JsonObject | None = None,
    ) -> tuple[EpisodeScores, RepeatScores]:
        """Return what an episode that was asked more than once counts as, and what each counts."""
        status = deciding_status([answer.status for answer in answers])
        by_answer = [self.score_episode(episode, answer, gold).by_criterion for answer in answers]
        results = {
            criterion: mean_result(status, [scores[criterion] for scores in by_answer])
            for criterion in self.criterion_ids
        }
        counted = {
            criterion: None
            if published_nano(result) is None
            else [published_nano(scores[criterion]) or 0 for scores in by_answer]
            for criterion, result in results.items()
        }
        statuses = tuple(answer.status for answer in answers)
        return EpisodeScores(_outcome(status, results), results), RepeatScores(statuses, counted)


def _criterion_plans(
    document: JsonObject, scorers: Mapping[str, Scorer]
) -> tuple[CriterionPlan, ...]:
    criteria = cast("JsonObject", document["criteria"])
    ids = cast("list[str]", criteria["criteria_ids"])
    chosen = criteria_scorers(document)
    pins = cast("dict[str, str]", document.get("scorer_pins", {}))
    weights = cast("dict[str, float]", criteria.get("weights") or dict.fromkeys(ids, 1))
    exact_weights = normalised_weights([weights[criterion] for criterion in ids])
    return tuple(
        CriterionPlan(
            criterion_id=criterion,
            scorer=_pinned_scorer(cast("str", chosen[criterion]["scorer"]), scorers, pins),
            params=cast("JsonObject", chosen[criterion].get("params", {})),
            weight=weight,
        )
        for criterion, weight in zip(ids, exact_weights, strict=True)
    )


def _pinned_scorer(name: str, scorers: Mapping[str, Scorer], pins: Mapping[str, str]) -> Scorer:
    scorer = scorers.get(name)
    if scorer is None:
        installed = ", ".join(sorted(scorers)) or "none"
        raise UnknownScorerError(f"expected scorer {name} to be installed; there are: {installed}")
    pinned = pins.get(name, scorer.version)
    if pinned != scorer.version:
        raise PinMismatchError(
            f"expected scorer {name} in version {pinned} (pinned), got {scorer.version} (installed)"
        )
    return scorer


def score_criterion(
    plan: CriterionPlan,
    episode: GroundTruthEpisode,
    answer: EpisodeAnswer,
    gold: JsonObject | None,
) -> CriterionResult:
    """Return the result of one criterion for one answer."""
    case = _case(plan, episode, answer, gold)
    return score_case(plan, case) if isinstance(case, ScoringCase) else case


def score_case(plan: CriterionPlan, case: ScoringCase) -> CriterionResult:
    """Return the result of one criterion for what its scorer is to see."""
    try:
        number = plan.scorer.score(case)
    except Exception:  # noqa: BLE001  # a plug-in may raise anything: that is a value, not a crash
        return Verdict.UNSCORED
    if number is None:
        return Verdict.DECLINED
    nano = to_nano(number)
    return Verdict.UNSCORED if nano is None else Scored(nano)


def _case(
    plan: CriterionPlan,
    episode: GroundTruthEpisode,
    answer: EpisodeAnswer,
    gold: JsonObject | None,
) -> ScoringCase | CriterionResult:
    """Return what the scorer is to see, or the result where it is not to be asked."""
    expected = expectation_of(plan, episode, gold)
    if isinstance(expected, Absent):
        return Verdict.NOT_APPLICABLE
    # A refusal is in no mean, and the tier bounds how many there may be; any other failure is a 0.
    if answer.status is InvocationStatus.REFUSED:
        return Verdict.EXCLUDED
    if answer.status is not InvocationStatus.SUCCESS:
        return Verdict.MISSING
    path = plan.params.get("field")
    value = answered_at(path if isinstance(path, str) else None, answer.hops)
    # An answer without the member that was asked for is a wrong answer, not a gap.
    if isinstance(value, Absent):
        return Scored(0)
    return ScoringCase(
        input_data=episode.input_data,
        expected=expected,
        answer=value,
        params=plan.params,
        hops=answer.hops,
        exchanges=answer.judgements.get(plan.criterion_id, ()),
        judge_seed=answer.judge_seed,
    )


def expectation_of(
    plan: CriterionPlan, episode: GroundTruthEpisode, gold: JsonObject | None
) -> JsonValue | Absent:
    """Return what the answer is checked against; ABSENT where the criterion does not apply."""
    path = plan.params.get("expected")
    if not isinstance(path, str):
        if episode.expected_output is None and plan.scorer.needs_expectation:
            return ABSENT
        return episode.expected_output
    return expected_at(path, episode.expected_output, gold)


def _outcome(status: InvocationStatus, results: Mapping[str, CriterionResult]) -> EpisodeOutcome:
    if status is InvocationStatus.REFUSED:
        return EpisodeOutcome.EXCLUDED
    if status is not InvocationStatus.SUCCESS:
        return EpisodeOutcome.MISSING
    if any(isinstance(result, Scored) for result in results.values()):
        return EpisodeOutcome.SCORED
    return EpisodeOutcome.UNSCORED
