"""Two hands, one page: what the run makes of people's scores, and what the check makes of them.

Both were written from docs/contract/evidence.md, without a look at each other; here they are given
the same episodes and the same panels.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import stdev
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.theatre.mixed_runs import RATED, MixedRun, scored
from tests.theatre.scored_runs import COMMITMENT, DRAWS, episode_results
from theatre.engine.bundle_check.arithmetic import NANO, Tally
from theatre.engine.bundle_check.human_scores import Panel, RatedColumns
from theatre.engine.bundle_check.plan import CommittedRubric
from theatre.engine.bundle_check.scorers import ResultsHash, add_up
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.models import (
    CriterionResult,
    EpisodeOutcome,
    GroundTruthEpisode,
    Scored,
    Verdict,
)
from theatre.engine.scoring import ScoredEpisode

per_property = settings(deadline=None, max_examples=60)
OTHER = "b"
Z = 1.959963984540054


def checked(run: MixedRun, values: Sequence[Sequence[Fraction]]) -> JsonObject:
    """Return the aggregate as the check has it; `values` are those of each person, by item."""
    tally = Tally(run.document, COMMITMENT, len(run.episodes))
    columns, lines = RatedColumns(tally.plan.ids, DRAWS), ResultsHash()
    for one in run.episodes:
        line = tally.add(
            seq=one.seq,
            episode_id=one.episode_id,
            status=None if one.status is None else one.status.value,
            results={name: recorded(result) for name, result in one.scores.items()},
            cluster_key=one.cluster_key,
        )
        columns.add(as_read(one), EpisodeOutcome(line["outcome"]), line["scores"])
        lines.add(canonical_line(line))
    items = list(columns.items(run.items))
    rubric = CommittedRubric(
        step_id="taste",
        low=Fraction(0),
        high=Fraction(1),
        minimum_scorers=1,
        scorer_must_not_be_author=True,
        items=run.items,
        criterion_id=RATED,
        share=run.share,
        timeout_seconds=None,
        in_aggregate=True,
    )
    complete = {
        f"person {n}": dict(zip(items, given_, strict=False)) for n, given_ in enumerate(values)
    }
    panel = Panel(rubric=rubric, items=items, complete=complete)
    return lines.within(add_up(tally, columns, [panel]))


def recorded(result: CriterionResult) -> float | str:
    """Return a result as a scorer gives it; 0 where none is asked."""
    if isinstance(result, Scored):
        return result.nano / NANO
    asked = {Verdict.NOT_APPLICABLE, Verdict.DECLINED, Verdict.UNSCORED}
    return result.value if result in asked else 0


def as_read(one: ScoredEpisode) -> GroundTruthEpisode:
    return GroundTruthEpisode(
        seq=one.seq,
        episode_id=one.episode_id,
        input_data={},
        expected_output=None,
        cluster_key=one.cluster_key,
    )


def by_the_run(run: MixedRun, values: Sequence[Sequence[Fraction]]) -> JsonObject:
    items = run.aggregator().items(run.rating)
    panel = {f"person {n}": dict(zip(items, v, strict=False)) for n, v in enumerate(values)}
    return run.aggregate(panel if values else None)


def without_bounds(aggregate: JsonObject) -> JsonObject:
    """Return an aggregate with the method alone of each interval."""
    intervals = cast("Mapping[str, JsonObject]", aggregate["score_intervals"])
    return aggregate | {"score_intervals": {n: one["method"] for n, one in intervals.items()}}


def require_same(run: MixedRun, values: Sequence[Sequence[Fraction]]) -> None:
    wanted, seen = by_the_run(run, values), checked(run, values)
    assert without_bounds(seen) == without_bounds(wanted)
    intervals = cast("Mapping[str, Mapping[str, float | None]]", seen["score_intervals"])
    for name, one in cast("dict[str, JsonObject]", wanted["score_intervals"]).items():
        for end in ("low", "high"):
            assert intervals[name][end] == pytest.approx(one[end], abs=2e-6)


CLUSTERS: list[list[str | None]] = [[None], [None, "x", "y"], ["x", "y", "z"]]


@st.composite
def rated_runs(draw: st.DrawFn) -> MixedRun:
    """Draw a run of up to a dozen episodes with every sort of result, clusters or none."""
    weights = draw(
        st.sampled_from([{RATED: 1.0}, {OTHER: 0.25, RATED: 0.75}, {RATED: 0.0, OTHER: 1.0}])
    )
    count = draw(st.integers(min_value=0, max_value=11))
    keys = draw(st.sampled_from(CLUSTERS))
    episodes = [
        draw(episode_results(n, [*weights]))._replace(cluster_key=draw(st.sampled_from(keys)))
        for n in range(1, count + 1)
    ]
    # Where nothing was scored there is no bundle.
    first = scored(0, {name: draw(st.sampled_from([0, 0.3, 1])) for name in weights})
    return MixedRun(
        episodes=[first, *episodes],
        share=draw(st.sampled_from([None, 0.1, 0.5, 1])),
        items=draw(st.integers(min_value=1, max_value=14)),
        weights=weights,
    )


PEOPLE = st.lists(
    st.lists(st.sampled_from([Fraction(n, 4) for n in range(5)]), min_size=14, max_size=14),
    max_size=3,
)


def graded(**grades: Sequence[float]) -> MixedRun:
    """Return a run of these grades by criterion, all answers of which are rated."""
    rows = zip(*grades.values(), strict=True)
    episodes: list[ScoredEpisode] = [
        scored(n, dict(zip(grades, row, strict=True))) for n, row in enumerate(rows, start=1)
    ]
    weights = dict.fromkeys(grades, 1 / len(grades))
    return MixedRun(episodes=episodes, items=len(episodes), weights=weights)


@per_property
@given(rated_runs(), PEOPLE)
@example(graded(a=[0.25, 0.75, 1], b=[0.75, 0.25, 0]), [[Fraction(1, 2)] * 14])
@example(graded(a=[0.1, 0.2, 0.7]), [[Fraction(9, 10), Fraction(8, 10), Fraction(3, 10)]])
def test_both_hands_come_to_the_same_aggregate(run: MixedRun, values: list[list[Fraction]]) -> None:
    require_same(run, values)


@pytest.mark.parametrize("people", [1, 2, 3])
@pytest.mark.parametrize("count", [9, 10, 11, 40])
def test_both_hands_come_to_the_same_agreement(people: int, count: int) -> None:
    run = MixedRun(episodes=[scored(n, {RATED: n % 5 / 4}) for n in range(count)], items=count)
    values = [[Fraction((n * k + k) % 5, 4) for n in range(count)] for k in range(1, people + 1)]
    require_same(run, values)


def test_where_every_answer_is_rated_the_interval_is_that_of_both_parts_together() -> None:
    run = graded(a=[0.9, 0.2, 0.6, 0.4, 1.0, 0.0])
    columns = RatedColumns([RATED], DRAWS)
    for one in run.episodes:
        scores = {name: recorded(result) for name, result in one.scores.items()}
        columns.add(as_read(one), EpisodeOutcome.SCORED, cast("dict[str, float]", scores))
    tastes = {f"episode {n}": Fraction(t, 4) for n, t in enumerate([3, 1, 2, 4, 4, 0], start=1)}
    drawn = [tastes[name] for name in columns.items(6)]
    seen = cast("dict[str, JsonObject]", checked(run, [drawn])["score_intervals"])[RATED]
    error = Z * stdev([0.825, 0.225, 0.55, 0.7, 1, 0]) / 6**0.5
    assert seen == {
        "low": pytest.approx(0.55 - error, abs=2e-6),
        "high": pytest.approx(0.55 + error, abs=2e-6),
        "method": "mixed_clt",
        "level": 0.95,
    }
