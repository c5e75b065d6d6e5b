"""Scored episodes for the tests of the aggregate: made by hand, or drawn by hypothesis."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from hypothesis import strategies as st

from tests.theatre.runs import COIN
from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Draws
from theatre.engine.models import (
    CriterionResult,
    EpisodeOutcome,
    InvocationStatus,
    Scored,
    Scorer,
    ScorerKind,
    Verdict,
)
from theatre.engine.scoring import Aggregator, Probability, ScoredEpisode, TheatreScoringProvider

COMMITMENT = "5e" * 32
DRAWS = Draws(COIN, COMMITMENT)
NANO = 10**9
SPLITS = {0: Fraction(0), 0.2: Fraction(1, 5), 0.5: Fraction(1, 2)}
SCORER = Scorer(
    name="any", version="1", kind=ScorerKind.EXACT, params_schema={}, score=lambda _: None
)


@dataclass(frozen=True)
class Run:
    """A committed set of criteria and the episodes that it came to."""

    weights: dict[str, int]
    split: float
    episodes: tuple[ScoredEpisode, ...]
    calibrated: str | None = None

    @property
    def aggregator(self) -> Aggregator:
        """Return an aggregator that has seen no episode yet."""
        document: JsonObject = {
            "criteria": {
                "criteria_ids": [*self.weights],
                "weights": {name: weight / 10 for name, weight in self.weights.items()},
            },
            "scoring": {
                "holdout_split": self.split,
                "criteria_scorers": {name: {"scorer": "any"} for name in self.weights},
            },
        }
        if self.calibrated is not None:
            cast("JsonObject", document["scoring"])["calibration_criterion"] = self.calibrated
        return Aggregator(TheatreScoringProvider(document, {"any": SCORER}), DRAWS)

    def aggregate(self) -> tuple[list[bytes], JsonObject]:
        """Return the lines of the episodes, and the aggregate."""
        aggregator = self.aggregator
        lines = [aggregator.add(episode) for episode in self.episodes]
        return lines, aggregator.finish()


def nine_places(value: Fraction) -> float:
    """Round half-even by hand and read the decimal as a double; value ≥ 0."""
    whole, rest = divmod(value.numerator * NANO, value.denominator)
    whole += 2 * rest > value.denominator or (2 * rest == value.denominator and whole % 2 == 1)
    return float(f"{whole // NANO}.{whole % NANO:09d}")


def held_out(episode: ScoredEpisode, split: Fraction) -> bool:
    """Tell by hand whether the draw of COMMITMENT holds an episode out."""
    digest = hashlib.sha256(f"{COMMITMENT}:{episode.episode_id}".encode()).hexdigest()
    return int(digest[:16], 16) * split.denominator < split.numerator * 2**64


STATUSES = [*InvocationStatus, None]
NANOS = st.integers(min_value=0, max_value=NANO) | st.sampled_from([0, NANO])


@st.composite
def episode_results(draw: st.DrawFn, seq: int, criteria: list[str]) -> ScoredEpisode:
    """Draw one episode whose outcome and results could stand beside each other in a run."""
    status = draw(st.sampled_from(STATUSES))
    choices: st.SearchStrategy[CriterionResult]
    if status is None:
        choices = st.just(Verdict.NOT_RUN)
    elif status is InvocationStatus.SUCCESS:
        gaps = [Verdict.NOT_APPLICABLE, Verdict.DECLINED, Verdict.UNSCORED]
        choices = NANOS.map(Scored) | st.sampled_from(gaps)
    else:
        refused = status is InvocationStatus.REFUSED
        usual = Verdict.EXCLUDED if refused else Verdict.MISSING
        choices = st.sampled_from([usual, Verdict.NOT_APPLICABLE])
    scores = {criterion: draw(choices) for criterion in criteria}
    return ScoredEpisode(
        seq=seq,
        episode_id=f"episode {seq}",
        status=status,
        outcome=outcome_of(status, scores),
        scores=scores,
    )


def outcome_of(
    status: InvocationStatus | None, scores: dict[str, CriterionResult]
) -> EpisodeOutcome:
    """Return what an episode with this status and these results counts as."""
    if status is None:
        return EpisodeOutcome.NOT_RUN
    if status is InvocationStatus.REFUSED:
        return EpisodeOutcome.EXCLUDED
    if status is not InvocationStatus.SUCCESS:
        return EpisodeOutcome.MISSING
    measured = any(isinstance(result, Scored) for result in scores.values())
    return EpisodeOutcome.SCORED if measured else EpisodeOutcome.UNSCORED


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Draw a run of up to twelve episodes with every sort of result."""
    criteria = draw(st.sampled_from([["a"], ["b", "a"], ["c", "a", "b"]]))
    weights = [draw(st.integers(min_value=0, max_value=9)) for _ in criteria[1:]]
    return Run(
        weights=dict(
            zip(criteria, [draw(st.integers(min_value=1, max_value=9)), *weights], strict=True)
        ),
        split=draw(st.sampled_from(list(SPLITS))),
        episodes=tuple(
            draw(episode_results(seq, criteria))
            for seq in range(1, 1 + draw(st.integers(min_value=0, max_value=12)))
        ),
    )


def episode(
    seq: int,
    scores: dict[str, CriterionResult],
    *,
    status: InvocationStatus | None = InvocationStatus.SUCCESS,
    cluster_key: str | None = None,
    probability: int | None = None,
) -> ScoredEpisode:
    """Return one episode; `probability` in billionths."""
    return ScoredEpisode(
        seq=seq,
        episode_id=f"episode {seq}",
        status=status,
        outcome=outcome_of(status, scores),
        scores=scores,
        cluster_key=cluster_key,
        probability=None if probability is None else Probability(probability),
    )
