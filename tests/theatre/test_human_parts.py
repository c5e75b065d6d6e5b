"""What people's scores make of a criterion: items, means, agreement, intervals."""

import hmac
import math
from fractions import Fraction
from statistics import mean, stdev
from typing import cast

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from tests.theatre.mixed_runs import RATED, MixedRun, scored
from tests.theatre.runs import COIN
from tests.theatre.scored_runs import COMMITMENT, NANO, episode, nine_places
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus, Scored, Verdict
from theatre.engine.scoring import CommittedRating, committed_ratings
from theatre.engine.scoring.ratings import agreement, interval_alpha

per_property = settings(deadline=None, max_examples=drawn(100))
OTHER = "b"
Z = 1.959963984540054


def items_of(run: MixedRun) -> tuple[str, ...]:
    return run.aggregator().items(run.rating)


def panel(run: MixedRun, *values: list[Fraction]) -> dict[str, dict[str, Fraction]]:
    """Return what people gave to the items in the order of the draw, a list a person."""
    return {
        f"person {n}": dict(zip(items_of(run), given, strict=True))
        for n, given in enumerate(values)
    }


def of_taste(aggregate: JsonObject) -> JsonObject:
    return cast("dict[str, JsonObject]", aggregate["human_scores"])["taste"]


def interval(aggregate: JsonObject, name: str = RATED) -> JsonObject:
    return cast("dict[str, JsonObject]", aggregate["score_intervals"])[name]


def bounds(score: float, error: float) -> dict[str, float]:
    return {"low": max(0.0, score - Z * error), "high": min(1.0, score + Z * error)}


# The draw


@per_property
@given(st.integers(min_value=1, max_value=30), st.integers(min_value=1, max_value=40))
def test_items_are_the_scored_episodes_with_the_smallest_draws(count: int, size: int) -> None:
    kinds = {
        0: (InvocationStatus.ERROR, Verdict.MISSING),
        1: (InvocationStatus.REFUSED, Verdict.EXCLUDED),
        2: (InvocationStatus.SUCCESS, Verdict.UNSCORED),
        3: (None, Verdict.NOT_RUN),
    }
    all_ = [
        episode(n, {RATED: kinds[n % 7][1]}, status=kinds[n % 7][0])
        if n % 7 in kinds
        else scored(n, {RATED: 0.5})
        for n in range(count)
    ]
    eligible = [f"episode {n}" for n in range(count) if n % 7 not in kinds]
    key = hmac.digest(COIN.secret, b"", "sha256")
    digests = {
        name: hmac.digest(key, rfc8785.dumps(["item", COMMITMENT, name]), "sha256")
        for name in eligible
    }
    expected = tuple(sorted(eligible, key=lambda name: digests[name])[:size])
    for order in (all_, all_[::-1]):
        assert items_of(MixedRun(episodes=order, items=size)) == expected


# Means


@per_property
@given(
    st.lists(st.integers(min_value=0, max_value=NANO), min_size=1, max_size=8),
    st.lists(st.lists(st.fractions(0, 1), min_size=8, max_size=8), min_size=1, max_size=4),
    st.sampled_from([0.1, 1 / 3, 0.5, 1]),
)
def test_both_parts_are_exact_and_so_is_what_is_made_of_them(
    nanos: list[int], given_: list[list[Fraction]], share: float
) -> None:
    run = MixedRun(
        episodes=[
            episode(n, {RATED: Scored(nano), OTHER: Scored(NANO)})
            for n, nano in enumerate(nanos, start=1)
        ],
        share=share,
        items=8,
        weights={RATED: 0.25, OTHER: 0.75},
    )
    people = [values[: len(nanos)] for values in given_]
    aggregate = run.aggregate(panel(run, *people))
    machine = Fraction(sum(nanos), len(nanos) * NANO)
    every = [value for values in people for value in values]
    human = sum(every, Fraction(0)) / len(every)
    exact_share = Fraction(str(share))
    score = machine - exact_share * machine + exact_share * human
    assert aggregate["scores"] == {RATED: nine_places(score), OTHER: 1}
    assert aggregate["composite_score"] == nine_places(score / 4 + Fraction(3, 4))
    assert aggregate["answered_only"] == aggregate["scores"] == aggregate["refusals_as_zero"]
    seen = of_taste(aggregate)
    assert {name: seen[name] for name in ("machine", "human", "share", "items", "scorers")} == {
        "machine": nine_places(machine),
        "human": nine_places(human),
        "share": share,
        "items": len(nanos),
        "scorers": len(people),
    }


def test_each_view_of_the_machine_mean_is_mixed_with_the_same_human_mean() -> None:
    run = MixedRun(
        episodes=[
            scored(1, {RATED: 1}),
            episode(2, {RATED: Verdict.MISSING}, status=InvocationStatus.ERROR),
            episode(3, {RATED: Verdict.EXCLUDED}, status=InvocationStatus.REFUSED),
            episode(4, {RATED: Verdict.NOT_RUN}, status=None),
        ],
        share=0.2,
    )
    aggregate = run.aggregate(panel(run, [Fraction(1, 2)]))
    assert aggregate["scores"] == {RATED: 0.5}
    assert aggregate["answered_only"] == {RATED: 0.9}
    assert aggregate["refusals_as_zero"] == {RATED: 0.366666667}
    assert aggregate["worst_case_bounds"] == {
        RATED: {"low": 0.3, "high": 0.9},
        "composite_score": {"low": 0.3, "high": 0.9},
    }
    parts = cast("dict[str, JsonObject]", aggregate["holdout_scores"])
    machine = [cast("JsonObject", parts[name]["scores"])[RATED] for name in ("train", "holdout")]
    assert set(machine) <= {None, 0, 0.5, 1}


def test_a_human_part_alone_needs_no_machine_mean() -> None:
    nowhere = episode(1, {RATED: Verdict.NOT_APPLICABLE, OTHER: Scored(NANO)})
    for share, score in ((1, 0.25), (0.5, None)):
        run = MixedRun(episodes=[nowhere], share=share, weights={RATED: 0.5, OTHER: 0.5})
        aggregate = run.aggregate(panel(run, [Fraction(1, 4)]))
        assert aggregate["scores"] == {RATED: score, OTHER: 1}
        assert aggregate["composite_score"] == (0.625 if score else None)
        assert of_taste(aggregate)["machine"] is None


def test_without_a_panel_the_criterion_was_not_measured_as_committed() -> None:
    run = MixedRun(episodes=[scored(n, {RATED: 1}) for n in range(4)])
    aggregate = run.aggregate(None)
    assert (aggregate["scores"], aggregate["composite_score"]) == ({RATED: None}, None)
    assert of_taste(aggregate) == {
        "criterion_id": RATED,
        "share": 0.5,
        "machine": 1,
        "human": None,
        "items": 3,
        "scorers": 0,
        "agreement": {"method": METHOD, "value": None, "reason": "not-rated"},
    }


def test_human_scores_are_part_of_the_results_hash_and_their_order_is_not() -> None:
    run = MixedRun(episodes=[scored(n, {RATED: 1}) for n in range(4)])
    low, high = [Fraction(0)] * 3, [Fraction(1), Fraction(1), Fraction(0)]
    hashes = [
        run.aggregate(panel(run, *people))["results_hash"]
        for people in ([low, high], [high, low], [high, high])
    ]
    assert (hashes[0] == hashes[1], hashes[0] == hashes[2]) == (True, False)


# What is committed


def test_a_rating_is_read_with_the_documented_defaults_and_an_exact_scale() -> None:
    document: JsonObject = {
        "resolution_programme": [
            {"step_id": "call", "type": "construct_invocation"},
            {"step_id": "second", "type": "hitl_rubric"},
            {"step_id": "sum", "type": "aggregation"},
            {"step_id": "first", "type": "hitl_rubric"},
        ],
        "hitl_steps": [
            {"step_id": "first", "rubric": "A", "scoring_scale": {"min": -0.1, "max": 0.2}},
            {
                "step_id": "second",
                "rubric": "B",
                "scoring_scale": {"min": 1, "max": 4, "labels": {"1": "low"}},
                "identity_separation": {"minimum_scorers": 3, "scorer_must_not_be_author": False},
                "criterion_id": "a",
                "share": 0.3,
                "items": 20,
            },
        ],
    }
    second, first = committed_ratings(document)
    assert first == CommittedRating(
        step_id="first",
        rubric="A",
        low=Fraction(-1, 10),
        high=Fraction(1, 5),
        labels={},
        in_aggregate=False,
    )
    assert second == CommittedRating(
        step_id="second",
        rubric="B",
        low=Fraction(1),
        high=Fraction(4),
        labels={"1": "low"},
        scorer_must_not_be_author=False,
        minimum_scorers=3,
        criterion_id="a",
        share=Fraction(3, 10),
        items=20,
    )
    assert [first.scaled(score) for score in (-0.1, 0, 0.2)] == [0, Fraction(1, 3), 1]
    assert [first.on_scale(score) for score in (-0.1000001, -0.1, 0.2, 0.21)] == [
        *(False, True, True, False)
    ]


# Agreement

METHOD = "krippendorff-alpha-interval"
# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", the data of section C.
OBSERVERS = [
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
]


def test_alpha_of_the_published_example_is_the_published_one() -> None:
    columns = zip(*(row.split() for row in OBSERVERS), strict=True)
    units = [[Fraction(value) for value in column if value != "."] for column in columns]
    alpha = interval_alpha(units)
    assert alpha is not None
    assert round(float(alpha), 3) == 0.849


def test_alpha_by_hand() -> None:
    units = [[Fraction(a), Fraction(b)] for a, b in ((0, 0), (1, 1), (0, 1))]
    # Observed 2; expected 18 squared differences over 6 - 1.
    assert interval_alpha(units) == 1 - Fraction(2) / Fraction(18, 5)


UNITS = st.lists(
    st.lists(st.fractions(0, 1, max_denominator=8), min_size=0, max_size=4), max_size=12
)


def pairs(values: list[Fraction]) -> Fraction:
    return sum(
        ((a - b) ** 2 for i, a in enumerate(values) for j, b in enumerate(values) if i != j),
        Fraction(0),
    )


@per_property
@given(UNITS)
def test_alpha_is_one_less_observed_over_expected_disagreement(units: list[list[Fraction]]) -> None:
    pairable = [values for values in units if len(values) > 1]
    every = [value for values in pairable for value in values]
    n = len(every)
    observed = sum((pairs(v) / (len(v) - 1) for v in pairable), Fraction(0)) / max(n, 1)
    expected = pairs(every) / max(1, n * (n - 1))
    assert interval_alpha(units) == (1 - observed / expected if expected else None)


def given_values(count: int, *scorers: int) -> list[list[Fraction]]:
    """Return items to which scorer n gives `scorers[n]` more each time, on a scale of ten."""
    return [[Fraction(item * step % 11, 10) for step in scorers] for item in range(count)]


@pytest.mark.parametrize(
    ("units", "value", "reason"),
    [
        ([], None, "not-rated"),
        ([[], []], None, "not-rated"),
        (given_values(20, 3), None, "fewer-than-2-scorers"),
        (given_values(9, 1, 1), None, "fewer-than-10-items"),
        (given_values(10, 0, 0), None, "no-variation"),
        (given_values(10, 1, 1), 1, None),
        # 1 - 21 · 220 / 9680 and 1 - 21 · 660 / 9680.
        (given_values(11, 1, 2), 0.522727273, None),
        (given_values(11, 1, 10), -0.431818182, None),
    ],
)
def test_agreement_is_measured_from_ten_items_and_two_people_on(
    units: list[list[Fraction]], value: float | None, reason: str | None
) -> None:
    assert agreement(units) == {"method": METHOD, "value": value, "reason": reason}


# Intervals


GRADES = [0.9, 0.2, 0.6, 0.4, 1.0, 0.0]
TASTES = [Fraction(n, 4) for n in (3, 1, 2, 4, 4, 0)]


def in_draw_order(run: MixedRun, values: list[Fraction]) -> list[Fraction]:
    """Return what belongs to episode 1, 2, … in the order of the items."""
    return [values[int(item.split()[1]) - 1] for item in items_of(run)]


def graded(share: float, *, items: int = 6, grades: list[float] | None = None) -> MixedRun:
    return MixedRun(
        episodes=[scored(n, {RATED: g}) for n, g in enumerate(grades or GRADES, start=1)],
        share=share,
        items=items,
    )


def close(seen: JsonObject, score: float, error: float) -> bool:
    wanted = bounds(score, error)
    return all(seen[end] == pytest.approx(wanted[end], abs=2e-6) for end in ("low", "high"))


def test_where_every_answer_is_rated_an_interval_is_that_of_both_parts_together() -> None:
    run = graded(0.25)
    aggregate = run.aggregate(panel(run, in_draw_order(run, TASTES)))
    both = [0.75 * g + 0.25 * float(t) for g, t in zip(GRADES, TASTES, strict=True)]
    for name in (RATED, "composite_score"):
        seen = interval(aggregate, name)
        assert (seen["method"], seen["level"]) == ("mixed_clt", 0.95)
        assert close(seen, mean(both), stdev(both) / math.sqrt(6))


def test_each_part_alone_has_its_own_error() -> None:
    level = graded(0.25, grades=[0.5] * 6)
    tastes = in_draw_order(level, TASTES)
    seen = interval(level.aggregate(panel(level, tastes)))
    score = 0.375 + 0.25 * float(mean(tastes))
    assert close(seen, score, 0.25 * stdev(map(float, TASTES)) / math.sqrt(6))
    run = graded(0.25)
    seen = interval(run.aggregate(panel(run, [Fraction(1, 2)] * 6)))
    assert close(seen, 0.75 * mean(GRADES) + 0.125, 0.75 * stdev(GRADES) / math.sqrt(6))


def test_some_of_the_answers_tell_less_about_the_human_part() -> None:
    run = graded(0.5, items=3)
    tastes = [Fraction(n, 4) for n in (1, 2, 4)]
    seen = interval(run.aggregate(panel(run, tastes)))
    h = mean(map(float, tastes))
    rated = dict(zip(items_of(run), map(float, tastes), strict=True))
    added = [
        0.5 * (g - mean(GRADES)) / 6 * math.sqrt(6 / 5)
        + (
            0.5 * (rated[f"episode {n}"] - h) / 3 * math.sqrt(3 / 2)
            if f"episode {n}" in rated
            else 0
        )
        for n, g in enumerate(GRADES, start=1)
    ]
    assert close(seen, 0.5 * mean(GRADES) + 0.5 * h, math.sqrt(sum(a * a for a in added)))


def test_a_human_part_alone_has_the_error_of_the_rated_answers() -> None:
    run = graded(1, items=4)
    tastes = TASTES[:4]
    seen = interval(run.aggregate(panel(run, tastes)))
    assert close(seen, float(mean(tastes)), stdev(map(float, tastes)) / 2)


def test_the_composite_sees_what_its_criteria_have_in_common() -> None:
    run = MixedRun(
        episodes=[scored(n, {RATED: g, OTHER: 1 - g}) for n, g in enumerate(GRADES, start=1)],
        items=6,
        weights={RATED: 0.5, OTHER: 0.5},
    )
    aggregate = run.aggregate(panel(run, in_draw_order(run, TASTES)))
    both = [
        0.5 * (0.5 * g + 0.5 * float(t)) + 0.5 * (1 - g)
        for g, t in zip(GRADES, TASTES, strict=True)
    ]
    assert close(interval(aggregate, "composite_score"), mean(both), stdev(both) / math.sqrt(6))
    assert interval(aggregate, OTHER)["method"] == "bca"


def test_clusters_are_counted_as_wholes() -> None:
    twice = [scored(n, {RATED: GRADES[n // 2]}, cluster_key=f"cluster {n // 2}") for n in range(12)]
    run = MixedRun(episodes=twice, items=12)
    tastes = [TASTES[int(item.split()[1]) // 2] for item in items_of(run)]
    seen = interval(run.aggregate(panel(run, tastes)))
    both = [(g + float(t)) / 2 for g, t in zip(GRADES, TASTES, strict=True)]
    assert seen["method"] == "cluster_mixed_clt"
    assert close(seen, mean(both), stdev(both) / math.sqrt(6))


@pytest.mark.parametrize(
    ("run", "tastes"),
    [
        (graded(0.5, items=1), [1]),
        (graded(0.5, grades=[0.5], items=1), [1]),
        (graded(0.5, grades=[0.5, 0.5], items=2), [1, 1]),
        (graded(0.5), []),
    ],
    ids=["one item", "one episode", "nothing varies", "nobody rated"],
)
def test_an_interval_is_undefined_where_a_part_tells_nothing(
    run: MixedRun, tastes: list[int]
) -> None:
    aggregate = run.aggregate(panel(run, [Fraction(t) for t in tastes]) if tastes else None)
    undefined = {"low": None, "high": None, "method": "undefined", "level": 0.95}
    assert [interval(aggregate), interval(aggregate, "composite_score")] == [undefined] * 2


def test_an_interval_does_not_depend_on_the_order_of_the_episodes() -> None:
    run = graded(0.3)
    people = panel(run, in_draw_order(run, TASTES))
    turned = MixedRun(episodes=run.episodes[::-1], share=0.3, items=6)
    assert turned.aggregate(people)["score_intervals"] == run.aggregate(people)["score_intervals"]
