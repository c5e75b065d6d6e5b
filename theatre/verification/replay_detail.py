"""Details behind the scores of one replay: counts of claims and changes, and which claims held.

Recomputed from what is recorded, by the scoring that the template commits to. A judge that was
asked several times has several verdicts; their means are published, as those of the scores are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import (
    ANSWER,
    EpisodeOutcome,
    InvocationStatus,
    ScoringCase,
    judge_passes,
)
from theatre.engine.rlmf_export import SealedEpisode, judge_seed_of, judgements_of, outputs_of
from theatre.engine.scoring import EpisodeAnswer, TheatreScoringProvider
from theatre.engine.scoring.arithmetic import rounded_number
from theatre.engine.scoring.provider import at_path
from theatre.judging.messages import answered_by
from theatre.judging.panel import NotMeasurableError
from theatre.verification.change_facts import change_facts
from theatre.verification.judge.measures import claim_verdicts, covered_changes
from theatre.verification.judge.scorer import SCORER, Measured, repeat_passes
from theatre.verification.lexical import (
    PRECISION,
    RECALL,
    CoveredChanges,
    JudgedClaim,
    expected_changes,
    judged_claims,
    surfaced_changes,
)
from theatre.verification.scoring_providers import LEXICAL

_PRECISION, _RECALL = "precision", "recall"
_FoundT = TypeVar("_FoundT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDetail:
    """What was found of one answer, pass by pass, by whom, and how long they took to say so.

    `claims` has the same claims in every pass, and is None where there is no usable verdict on
    them. `changes` has the passes that found important ones.
    """

    claims: Sequence[Sequence[JudgedClaim]] | None
    changes: Sequence[CoveredChanges]
    scored_by: str | None
    latency_ms: int | None

    def as_document(self) -> JsonObject:
        """Return the counts as means over passes; null where there is none."""
        claims = self.claims or ()
        held = [sum(claim.supported for claim in judged) for judged in claims]
        return {
            "claims_total": _mean([len(judged) for judged in claims]),
            "claims_supported": _mean(held),
            "changes_total": _mean([found.total for found in self.changes]),
            "changes_surfaced": _mean([found.surfaced for found in self.changes]),
            "scoring_model": self.scored_by,
            "scoring_latency_ms": self.latency_ms,
        }


def _mean(counts: Sequence[int]) -> float | None:
    return rounded_number(Fraction(sum(counts), len(counts))) if counts else None


def scored_output(episode: SealedEpisode) -> JsonObject | None:
    """Return the answer that was scored; None where there was none."""
    if episode.line["outcome"] != EpisodeOutcome.SCORED.value:
        return None
    return next(reversed(outputs_of(episode.record).values()), None)


NO_DETAIL: JsonObject = ReplayDetail(
    claims=None, changes=(), scored_by=None, latency_ms=None
).as_document()
"""What is said of a change that was not answered, or whose scoring has no verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailReader:
    """Reads details; `passes` is how often each answer is judged.

    `read` takes an episode with its output. None where that has not the shape for a detail.
    """

    passes: int
    read: Callable[[SealedEpisode, JsonObject], ReplayDetail | None]


def detail_reader(template: JsonObject) -> DetailReader | None:
    """Return the reader for the scoring of a template; None where single claims are not judged."""
    made = _READERS.get((_scoring(template, _PRECISION), _scoring(template, _RECALL)))
    return None if made is None else made(template)


def _scoring(template: JsonObject, criterion: str) -> tuple[str, str | None]:
    chosen = f"scoring.criteria_scorers.{criterion}"
    scorer = at_path(template, f"{chosen}.scorer")
    measure = at_path(template, f"{chosen}.params.measure")
    return str(scorer), measure if isinstance(measure, str) else None


def _lexical_detail(episode: SealedEpisode, output: JsonObject) -> ReplayDetail | None:
    claims, summary = output.get("key_claims"), output.get("summary")
    diff = at_path(episode.truth.input_data, "record.diff_content")
    if not isinstance(claims, list) or not isinstance(summary, str) or not isinstance(diff, str):
        return None
    expected = expected_changes((episode.truth.expected_output or {}).get("important_changes"))
    covered = CoveredChanges(total=len(expected), surfaced=surfaced_changes(summary, expected))
    return ReplayDetail(
        claims=[judged_claims(claims, change_facts(diff))],
        changes=[covered] if expected else [],
        scored_by=LEXICAL.scorer_version,
        # Not the recorded time: scoring again takes another time.
        latency_ms=None,
    )


def _judged_reader(template: JsonObject) -> DetailReader:
    chosen = cast("JsonObject", at_path(template, "scoring.criteria_scorers"))
    judged: JsonObject = {name: chosen[name] for name in (_PRECISION, _RECALL)}
    provider = TheatreScoringProvider(
        {"criteria": {"criteria_ids": [*judged]}, "scoring": {"criteria_scorers": judged}},
        {SCORER.name: SCORER},
    )
    params = cast("JsonObject", at_path(chosen, f"{_PRECISION}.params"))
    return DetailReader(
        passes=judge_passes(params), read=lambda episode, _: _judged_detail(provider, episode)
    )


def _judged_detail(provider: TheatreScoringProvider, episode: SealedEpisode) -> ReplayDetail:
    exchanges = judgements_of(episode.record)
    answer = EpisodeAnswer(
        status=InvocationStatus.SUCCESS,
        hops=outputs_of(episode.record),
        judgements=exchanges,
        judge_seed=judge_seed_of(episode.record),
    )

    def found(criterion: str, measure: Measured[_FoundT]) -> list[_FoundT] | None:
        case = provider.case(criterion, episode.truth, answer, episode.label)
        try:
            return repeat_passes(case, measure) if isinstance(case, ScoringCase) else None
        except NotMeasurableError:
            return None

    answers = [cast("JsonObject", one[ANSWER]) for asked in exchanges.values() for one in asked]
    latencies = [said.get("latency_ms") for said in answers]
    return ReplayDetail(
        claims=found(_PRECISION, claim_verdicts),
        changes=[one for one in found(_RECALL, covered_changes) or () if one is not None],
        scored_by=", ".join(sorted({name for name in map(answered_by, answers) if name})) or None,
        latency_ms=sum(latency for latency in latencies if isinstance(latency, int)),
    )


_Scoring = tuple[str, str | None]
_READERS: Mapping[tuple[_Scoring, _Scoring], Callable[[JsonObject], DetailReader]] = {
    ((PRECISION.name, None), (RECALL.name, None)): lambda _: DetailReader(
        passes=1, read=_lexical_detail
    ),
    ((SCORER.name, _PRECISION), (SCORER.name, _RECALL)): _judged_reader,
}
"""How precision and recall are scored → how their counts are read."""
