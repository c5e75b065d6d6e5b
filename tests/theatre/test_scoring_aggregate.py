"""The aggregate, member by member, against a slow and straightforward reading of the rules.

Source: docs/contract/scoring.md §1 and §4.
"""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from tests.theatre.scored_runs import (
    DRAWS,
    NANO,
    SCORER,
    SPLITS,
    Run,
    episode,
    held_out,
    nine_places,
    runs,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import CriterionResult, EpisodeOutcome, InvocationStatus, Scored, Verdict
from theatre.engine.scoring import Aggregator, ScoredEpisode, TheatreScoringProvider

KINDS = ("scored", "missing", "not_applicable", "declined", "unscored")
BOUNDED = {"scored", "missing", "excluded", "declined", "unscored", "not_run"}


def places_or_none(value: Fraction | None) -> float | None:
    return None if value is None else nine_places(value)


class Oracle:
    """One set of episodes, read as the rules read: lists of values, no running sums."""

    def __init__(self, run: Run, episodes: list[ScoredEpisode]) -> None:
        self.weights = run.weights
        self.episodes = episodes
        self.ran = [e for e in episodes if e.outcome is not EpisodeOutcome.NOT_RUN]

    def kinds(self, criterion: str) -> list[str]:
        results = [episode.scores[criterion] for episode in self.ran]
        return ["scored" if isinstance(r, Scored) else r.value for r in results]

    def mean(self, criterion: str, *counted: str) -> Fraction | None:
        results = [episode.scores[criterion] for episode in self.ran]
        values = [
            Fraction(r.nano, NANO) if isinstance(r, Scored) else Fraction(0)
            for r, kind in zip(results, self.kinds(criterion), strict=True)
            if kind in counted
        ]
        return sum(values, Fraction(0)) / len(values) if values else None

    def means(self, *counted: str) -> dict[str, float | None]:
        return {c: places_or_none(self.mean(c, *counted)) for c in self.weights}

    def composite(self) -> float | None:
        total = Fraction(0)
        for criterion, weight in self.weights.items():
            mean = self.mean(criterion, "scored", "missing")
            if mean is None:
                return None
            total += mean * weight / sum(self.weights.values())
        return nine_places(total)

    def bounds(self) -> dict[str, dict[str, float] | None]:
        """Fill every gap with 0, then with 1."""
        low, high = (self.with_gaps_as(gap) for gap in (0, NANO))
        return {
            name: {"low": nine_places(low[name]), "high": nine_places(high[name])}
            if name in low
            else None
            for name in [*self.weights, "composite_score"]
        }

    def with_gaps_as(self, gap: int) -> dict[str, Fraction]:
        """Return the means of the criteria that apply; the composite too if all of them do."""
        filled = {criterion: self.filled(criterion, gap) for criterion in self.weights}
        means = {criterion: mean for criterion, mean in filled.items() if mean is not None}
        if len(means) == len(self.weights):
            weighted = sum((w * means[c] for c, w in self.weights.items()), Fraction(0))
            means["composite_score"] = weighted / sum(self.weights.values())
        return means

    def filled(self, criterion: str, gap: int) -> Fraction | None:
        results = [episode.scores[criterion] for episode in self.episodes]
        values = [
            r.nano if isinstance(r, Scored) else gap
            for r in results
            if isinstance(r, Scored) or r.value in BOUNDED
        ]
        return Fraction(sum(values), len(values) * NANO) if values else None

    def statuses(self, *wanted: InvocationStatus) -> int:
        return sum(episode.status in wanted for episode in self.ran)

    def outcomes(self, outcome: EpisodeOutcome) -> int:
        return sum(episode.outcome is outcome for episode in self.episodes)

    def summary(self) -> dict[str, Any]:
        return {
            "episodes": len(self.ran),
            "scores": self.means("scored", "missing"),
            "composite_score": self.composite(),
        }


def expected_aggregate(run: Run) -> dict[str, Any]:
    everything, split = Oracle(run, list(run.episodes)), SPLITS[run.split]
    total, ran = len(run.episodes), len(everything.ran)
    refused = everything.statuses(InvocationStatus.REFUSED)
    scored = everything.outcomes(EpisodeOutcome.SCORED)
    answerable = ran - refused
    held = [episode for episode in run.episodes if held_out(episode, split)]
    train = [episode for episode in run.episodes if episode not in held]
    return {
        "scores": everything.means("scored", "missing"),
        "composite_score": everything.composite(),
        "score_counts": {
            c: {kind: everything.kinds(c).count(kind) for kind in KINDS} for c in run.weights
        },
        "episode_counts": {
            "total": total,
            "scored": scored,
            "timeout": everything.statuses(InvocationStatus.TIMEOUT),
            "error": everything.statuses(InvocationStatus.ERROR),
            "refused": refused,
            "unscored": everything.outcomes(EpisodeOutcome.UNSCORED),
            "not_run": total - ran,
        },
        "coverage": nine_places(Fraction(scored, answerable)) if answerable else None,
        "refusal_rate": nine_places(Fraction(refused, ran)) if ran else None,
        "holdout_scores": None
        if split == 0
        else {"train": Oracle(run, train).summary(), "holdout": Oracle(run, held).summary()},
        "answered_only": everything.means("scored"),
        "refusals_as_zero": everything.means("scored", "missing", "excluded"),
        "worst_case_bounds": everything.bounds(),
        "calibration": None,
        "human_scores": None,
    }


per_property = settings(deadline=None, max_examples=drawn(200))


@per_property
@given(runs())
def test_every_member_of_the_aggregate_is_what_the_contract_defines(run: Run) -> None:
    _, aggregate = run.aggregate()
    plain = {k: v for k, v in aggregate.items() if k not in {"score_intervals", "results_hash"}}
    if run.split:
        # The gap has an oracle of its own: test_scoring_holdout_gap.py.
        gap = cast("JsonObject", plain["holdout_scores"]).pop("gap")
        assert list(cast("JsonObject", gap)) == [*run.weights, "composite_score"]
    assert plain == expected_aggregate(run)
    intervals = cast("dict[str, JsonObject]", aggregate["score_intervals"])
    assert list(intervals) == [*run.weights, "composite_score"]


@per_property
@given(runs())
def test_the_mean_of_the_numbers_in_a_column_is_the_criterion_s_score(run: Run) -> None:
    lines, aggregate = run.aggregate()
    rows = [json.loads(line, parse_float=Fraction, parse_int=Fraction) for line in lines]
    for criterion in run.weights:
        column = [row["scores"][criterion] for row in rows if row["scores"][criterion] is not None]
        mean = sum(column, Fraction(0)) / len(column) if column else None
        assert places_or_none(mean) == cast("JsonObject", aggregate["scores"])[criterion]


@per_property
@given(runs())
def test_the_composite_of_a_line_is_the_weighted_mean_of_the_numbers_in_it(run: Run) -> None:
    for line in run.aggregate()[0]:
        row = json.loads(line, parse_float=Fraction, parse_int=Fraction)
        numbers = {name: score for name, score in row["scores"].items() if score is not None}
        whole = sum(run.weights[name] for name in numbers)
        weighted = sum((run.weights[name] * score for name, score in numbers.items()), Fraction(0))
        by_hand = places_or_none(weighted / whole if whole else None)
        assert json.loads(line)["composite"] == by_hand


def test_the_composite_of_a_line_is_rounded_half_even_and_weights_what_applies() -> None:
    halves = {"a": 5, "b": 5}
    cases: list[tuple[dict[str, int], dict[str, CriterionResult], float | None]] = [
        (halves, {"a": Scored(0), "b": Scored(1)}, 0),
        (halves, {"a": Scored(0), "b": Scored(3)}, 2e-9),
        (halves, {"a": Scored(NANO), "b": Verdict.NOT_APPLICABLE}, 1),
        ({"a": 9, "b": 1}, {"a": Verdict.DECLINED, "b": Scored(700)}, 7e-7),
        ({"a": 9, "b": 1}, {"a": Verdict.MISSING, "b": Verdict.NOT_APPLICABLE}, 0),
        ({"a": 10, "b": 0}, {"a": Verdict.UNSCORED, "b": Scored(NANO)}, None),
        ({"a": 1, "b": 2, "c": 0}, {"a": Scored(NANO), "b": Scored(0), "c": Scored(NANO)},
         0.333333333),
    ]  # fmt: skip
    for weights, scores, composite in cases:
        status = InvocationStatus.ERROR if Verdict.MISSING in scores.values() else None
        one = episode(1, scores, status=status or InvocationStatus.SUCCESS)
        (line,) = Run(weights=weights, split=0, episodes=(one,)).aggregate()[0]
        assert json.loads(line)["composite"] == composite


@per_property
@given(runs())
def test_the_results_hash_is_over_the_lines_and_the_aggregate_without_hash_and_intervals(
    run: Run,
) -> None:
    lines, aggregate = run.aggregate()
    rest = {k: v for k, v in aggregate.items() if k not in {"results_hash", "score_intervals"}}
    by_hand = hashlib.sha256(b"".join(lines) + rfc8785.dumps(cast("Any", rest))).hexdigest()
    assert aggregate["results_hash"] == by_hand


@per_property
@given(runs().flatmap(lambda run: st.tuples(st.just(run), st.permutations(run.episodes))))
def test_no_number_depends_on_the_order_of_the_episodes(
    both: tuple[Run, list[ScoredEpisode]],
) -> None:
    run, order = both
    lines, aggregate = run.aggregate()
    other_lines, other = replace(run, episodes=tuple(order)).aggregate()
    assert sorted(other_lines) == sorted(lines)
    assert other | {"results_hash": None} == aggregate | {"results_hash": None}
    assert (other["results_hash"] == aggregate["results_hash"]) == (other_lines == lines)


@per_property
@given(runs())
def test_no_score_leaves_the_range_from_0_to_1(run: Run) -> None:
    _, aggregate = run.aggregate()
    for name in ("scores", "answered_only", "refusals_as_zero"):
        numbers = [n for n in cast("dict[str, Any]", aggregate[name]).values() if n is not None]
        assert all(0 <= number <= 1 for number in numbers)
    composite = cast("float | None", aggregate["composite_score"])
    assert composite is None or 0 <= composite <= 1


@given(st.lists(st.floats(min_value=1e-9, max_value=1), min_size=1, max_size=8))
def test_full_marks_everywhere_give_a_composite_of_exactly_one(weights: list[float]) -> None:
    criteria = [f"c{number}" for number in range(len(weights))]
    document: JsonObject = {
        "criteria": {
            "criteria_ids": [*criteria],
            "weights": dict(zip(criteria, weights, strict=True)),
        },
        "scoring": {"criteria_scorers": {c: {"scorer": "any"} for c in criteria}},
    }
    aggregator = Aggregator(TheatreScoringProvider(document, {"any": SCORER}), DRAWS)
    aggregator.add(episode(1, dict.fromkeys(criteria, Scored(NANO))))
    assert aggregator.finish()["composite_score"] == 1


def test_results_are_counted_however_many_of_them_differ() -> None:
    nanos = [NANO * (seq % 300) // 299 for seq in range(1, 5_002)]
    episodes = tuple(episode(seq, {"a": Scored(nano)}) for seq, nano in enumerate(nanos, start=1))
    _, aggregate = Run(weights={"a": 1}, split=0.5, episodes=episodes).aggregate()
    counts: Any = aggregate["score_counts"]
    split: Any = aggregate["holdout_scores"]
    assert aggregate["scores"] == {"a": nine_places(Fraction(sum(nanos), len(nanos) * NANO))}
    assert counts["a"]["scored"] == len(nanos)
    assert split["train"]["episodes"] + split["holdout"]["episodes"] == len(nanos)


def test_a_line_shows_a_failure_as_0_and_every_other_gap_as_null() -> None:
    run = Run(
        weights=dict.fromkeys(["z", "a"], 5),
        split=0.5,
        episodes=(
            episode(1, {"z": Scored(333_333_333), "a": Verdict.UNSCORED}),
            episode(
                2,
                {"z": Verdict.MISSING, "a": Verdict.NOT_APPLICABLE},
                status=InvocationStatus.ERROR,
            ),
            episode(
                3, {"z": Verdict.EXCLUDED, "a": Verdict.EXCLUDED}, status=InvocationStatus.REFUSED
            ),
            episode(4, {"z": Verdict.DECLINED, "a": Verdict.NOT_APPLICABLE}),
            episode(5, {"z": Verdict.NOT_RUN, "a": Verdict.NOT_RUN}, status=None),
            episode(6, {"z": Scored(NANO), "a": Scored(0)}),
        ),
    )
    marks = [str(held_out(one, Fraction(1, 2))).lower() for one in run.episodes]
    assert set(marks) == {"true", "false"}
    lines, aggregate = run.aggregate()
    expected = [
        (1, "scored", '{"a":null,"z":0.333333333}', "0.333333333"),
        (2, "missing", '{"a":null,"z":0}', "0"),
        (3, "excluded", '{"a":null,"z":null}', "null"),
        (4, "unscored", '{"a":null,"z":null}', "null"),
        (5, "not_run", '{"a":null,"z":null}', "null"),
        (6, "scored", '{"a":0,"z":1}', "0.5"),
    ]
    assert lines == [
        (
            f'{{"composite":{composite},"episode_id":"episode {seq}","holdout":{holdout},'
            f'"outcome":"{outcome}",'
            f'"scores":{scores},"seq":{seq}}}\n'
        ).encode()
        for (seq, outcome, scores, composite), holdout in zip(expected, marks, strict=True)
    ]
    assert aggregate["scores"] == {"z": 0.444444444, "a": 0.0}
    assert aggregate["composite_score"] == 0.222222222


def test_the_composite_is_made_of_the_unrounded_means() -> None:
    # 0.4 and 1.4 billionths: 0.9 in the middle, but 0.5 between their roundings, and so 0.
    run = Run(
        weights={"a": 5, "b": 5},
        split=0,
        episodes=tuple(
            episode(seq, {"a": Scored(a), "b": Scored(b)})
            for seq, (a, b) in enumerate([(2, 7), (0, 0), (0, 0), (0, 0), (0, 0)], start=1)
        ),
    )
    _, aggregate = run.aggregate()
    assert aggregate["scores"] == {"a": 0.0, "b": 1e-9}
    assert aggregate["composite_score"] == 1e-9


WILSON_45_OF_50 = {"low": 0.786398, "high": 0.956524, "method": "wilson", "level": 0.95}
UNDEFINED = {"low": None, "high": None, "method": "undefined", "level": 0.95}


def interval(*results: CriterionResult, cluster_key: str | None = None) -> object:
    statuses = {Verdict.MISSING: InvocationStatus.ERROR, Verdict.EXCLUDED: InvocationStatus.REFUSED}
    episodes = (
        episode(
            seq,
            {"a": result},
            status=statuses.get(cast("Verdict", result), InvocationStatus.SUCCESS),
            cluster_key=cluster_key if seq == 1 else None,
        )
        for seq, result in enumerate(results, start=1)
    )
    _, aggregate = Run(weights={"a": 1}, split=0, episodes=tuple(episodes)).aggregate()
    return cast("JsonObject", aggregate["score_intervals"])["a"]


RIGHT, WRONG, GRADED = Scored(NANO), Scored(0), Scored(1)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([RIGHT] * 45 + [WRONG] * 5, WILSON_45_OF_50),
        ([RIGHT] * 45 + [Verdict.MISSING] * 5, WILSON_45_OF_50),
        ([Verdict.EXCLUDED] * 9 + [RIGHT] * 45 + [WRONG] * 5, WILSON_45_OF_50),
        ([Verdict.DECLINED, Verdict.UNSCORED, *[RIGHT] * 45, *[WRONG] * 5], WILSON_45_OF_50),
        ([], UNDEFINED),
        ([RIGHT], UNDEFINED),
        ([RIGHT, Verdict.EXCLUDED, Verdict.NOT_APPLICABLE], UNDEFINED),
        (
            [RIGHT, Verdict.MISSING],
            {"low": 0.094531, "high": 0.905469, "method": "wilson", "level": 0.95},
        ),
        ([Verdict.MISSING] * 2, {"low": 0.0, "high": 0.65762, "method": "wilson", "level": 0.95}),
    ],
    ids=[
        *("45 of 50 right", "failures count", "refusals do not", "nor do gaps", "no value"),
        *("one value", "one value and gaps", "one right, one failed", "all failed"),
    ],
)
def test_an_interval_is_given_where_every_counted_value_is_0_or_1(
    results: list[CriterionResult], expected: object
) -> None:
    assert interval(*results) == expected


def test_graded_values_and_clusters_are_resampled() -> None:
    graded = cast("dict[str, object]", interval(*[RIGHT] * 45, *[WRONG] * 4, GRADED))
    clustered = cast(
        "dict[str, object]", interval(*[RIGHT] * 45, *[WRONG] * 5, cluster_key="family")
    )
    assert (graded["method"], clustered["method"]) == ("bca", "cluster_bca")


def test_one_cluster_only_leaves_the_interval_undefined_and_the_results_hash_alone() -> None:
    results: list[CriterionResult] = [RIGHT, WRONG, RIGHT]
    hashes, intervals = set(), []
    for key in ("family", None):
        episodes = [episode(s, {"a": r}, cluster_key=key) for s, r in enumerate(results, start=1)]
        _, aggregate = Run(weights={"a": 1}, split=0.2, episodes=tuple(episodes)).aggregate()
        hashes.add(aggregate["results_hash"])
        intervals.append(cast("JsonObject", aggregate["score_intervals"])["a"])
    assert len(hashes) == 1
    assert intervals[0] == UNDEFINED
    assert intervals[1] != UNDEFINED
