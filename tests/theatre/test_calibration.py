"""Calibration: against sklearn, against the definitions, and null wherever nothing was measured."""

import random
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.scored_runs import NANO, Run, episode
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.models import (
    CriterionResult,
    InvocationStatus,
    Scored,
    Scorer,
    ScorerKind,
    Verdict,
)
from theatre.engine.scoring import (
    Probability,
    ScoredEpisode,
    TheatreScoringProvider,
    stated_probability,
)
from theatre.engine.scoring.calibration import (
    BINS,
    Bin,
    CalibrationTally,
    brier_score,
    decomposition,
    expected_calibration_error,
)

Stated = tuple[int, bool]
"""A probability in billionths, and whether the answer was right."""

RIGHT, WRONG = Scored(NANO), Scored(0)


def calibration_of(*episodes: ScoredEpisode) -> dict[str, Any]:
    _, aggregate = Run(weights={"a": 1}, split=0, episodes=episodes, calibrated="a").aggregate()
    return cast("dict[str, Any]", aggregate["calibration"])


def measured(stated: list[Stated]) -> dict[str, Any]:
    tally = CalibrationTally("a")
    for nano, right in stated:
        tally.add({"a": RIGHT if right else WRONG}, Probability(nano))
    return cast("dict[str, Any]", tally.as_document())


def forecasts(n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return n overconfident probabilities to nine places, none on the edge of a bin."""
    rng = np.random.default_rng(n)
    probabilities = np.round(rng.beta(3, 1.5, n), 9)
    return probabilities, rng.random(n) < 0.2 + 0.6 * probabilities


def stated_by(probabilities: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> list[Stated]:
    return [(round(p * NANO), bool(y)) for p, y in zip(probabilities, right, strict=True)]


@pytest.mark.parametrize("n", [1, 7, 100, 2500])
def test_the_brier_score_is_that_of_sklearn(n: int) -> None:
    from sklearn.metrics import brier_score_loss

    probabilities, right = forecasts(n)
    reference = brier_score_loss(right, probabilities, labels=[False, True])
    assert measured(stated_by(probabilities, right))["brier_score"] == pytest.approx(
        reference, abs=1e-9
    )


@pytest.mark.parametrize("n", [1, 7, 100, 2500])
def test_the_curve_is_that_of_sklearn(n: int) -> None:
    from sklearn.calibration import calibration_curve

    probabilities, right = forecasts(n)
    shares, means = calibration_curve(right, probabilities, n_bins=BINS, strategy="uniform")
    bins = measured(stated_by(probabilities, right))["bins"]
    assert [(one["low"], one["high"]) for one in bins] == [
        (k / 10, (k + 1) / 10) for k in range(10)
    ]
    filled = [one for one in bins if one["count"]]
    assert [one["share_right"] for one in filled] == pytest.approx([*shares], abs=1e-9)
    assert [one["mean_probability"] for one in filled] == pytest.approx([*means], abs=1e-9)
    assert sum(one["count"] for one in bins) == n


def test_a_small_case_is_as_computed_by_hand() -> None:
    stated = [(200_000_000, False), (300_000_000, True), (320_000_000, False), (NANO, True)]
    empty: dict[str, Any] = {"count": 0, "mean_probability": None, "share_right": None}
    filled: dict[int, dict[str, Any]] = {
        2: {"count": 1, "mean_probability": 0.2, "share_right": 0},
        3: {"count": 2, "mean_probability": 0.31, "share_right": 0.5},
        9: {"count": 1, "mean_probability": 1, "share_right": 1},
    }
    assert measured(stated) == {
        "criterion": "a",
        "probabilities": 4,
        "without_probability": 0,
        "without_verdict": 0,
        # The mean of 0.04, 0.49, 0.1024 and 0.
        "brier_score": 0.1581,
        "decomposition": {
            # The mean of 0.2², twice 0.19², and 0.
            "reliability": 0.02805,
            # The mean of 0.5², twice 0, and 0.5².
            "resolution": 0.125,
            "uncertainty": 0.25,
            # Bin 3 only: a variance of 2 x 0.01², less twice a covariance of 2 x -0.005.
            "within_bin": 0.00505,
        },
        "ece": None,
        "ece_reason": "fewer-than-100-probabilities",
        "bins": [
            {"low": k / 10, "high": (k + 1) / 10, **filled.get(k, empty)} for k in range(BINS)
        ],
    }


@pytest.mark.parametrize(
    ("nano", "place"),
    [
        (0, 0),
        (99_999_999, 0),
        (100_000_000, 1),
        (699_999_999, 6),
        (700_000_000, 7),
        (999_999_999, 9),
        (NANO, 9),
    ],
)
def test_a_bin_begins_with_its_lower_edge_and_the_last_one_holds_certainty(
    nano: int, place: int
) -> None:
    counts = [one["count"] for one in measured([(nano, True)])["bins"]]
    assert counts == [int(k == place) for k in range(BINS)]


STATED = st.lists(
    st.tuples(st.integers(0, NANO) | st.sampled_from([0, NANO // 2, NANO]), st.booleans()),
    min_size=1,
    max_size=40,
)


def bins_of(stated: list[Stated]) -> list[Bin]:
    bins = [Bin() for _ in range(BINS)]
    for nano, right in stated:
        bins[min(nano * 10 // NANO, 9)].add(nano, right=right)
    return bins


@given(STATED)
def test_reliability_less_resolution_plus_uncertainty_plus_within_bin_is_the_brier_score_exactly(
    stated: list[Stated],
) -> None:
    bins = bins_of(stated)
    parts = decomposition(bins)
    by_definition = sum((Fraction(p, NANO) - y) ** 2 for p, y in stated) / len(stated)
    assert brier_score(bins) == by_definition
    assert by_definition == (
        parts.reliability - parts.resolution + parts.uncertainty + parts.within_bin
    )
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= 0


@given(STATED)
def test_murphys_parts_and_the_ece_are_the_textbook_ones(stated: list[Stated]) -> None:
    grouped: dict[int, list[Stated]] = {}
    for one in stated:
        grouped.setdefault(min(one[0] * 10 // NANO, 9), []).append(one)
    n, base_rate = len(stated), Fraction(sum(y for _, y in stated), len(stated))
    reliability = resolution = error = Fraction(0)
    for members in grouped.values():
        share = Fraction(sum(y for _, y in members), len(members))
        mean = Fraction(sum(p for p, _ in members), len(members) * NANO)
        reliability += Fraction(len(members), n) * (mean - share) ** 2
        resolution += Fraction(len(members), n) * (share - base_rate) ** 2
        error += Fraction(len(members), n) * abs(mean - share)
    bins = bins_of(stated)
    parts = decomposition(bins)
    assert (parts.reliability, parts.resolution) == (reliability, resolution)
    assert parts.uncertainty == base_rate * (1 - base_rate)
    assert expected_calibration_error(bins) == error


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([100, 1300]))
def test_the_order_of_episodes_changes_no_byte(seed: int, n: int) -> None:
    stated = stated_by(*forecasts(n))
    shuffled = random.Random(seed).sample(stated, n)  # noqa: S311  # a shuffle, not a secret
    assert canonical_bytes(measured(shuffled)) == canonical_bytes(measured(stated))


def test_below_100_probabilities_there_is_no_ece_and_a_reason() -> None:
    stated = stated_by(*forecasts(100))
    too_few, enough = measured(stated[:99]), measured(stated)
    assert (too_few["ece"], too_few["ece_reason"]) == (None, "fewer-than-100-probabilities")
    assert too_few["brier_score"] is not None
    assert enough["ece_reason"] is None
    assert enough["ece"] == {
        "value": round(float(expected_calibration_error(bins_of(stated))), 9),
        "bins": 10,
        "scheme": "equal-width",
        "expected_if_calibrated": enough["ece"]["expected_if_calibrated"],
        "upper_95_if_calibrated": enough["ece"]["upper_95_if_calibrated"],
    }


@pytest.mark.reproducibility
def test_the_null_values_are_the_same_on_every_machine() -> None:
    ramp = [(k * NANO // 1500, k % 3 > 0) for k in range(1500)]
    crowd = [(NANO * 9 // 10 + k * 60_000, k % 10 > 0) for k in range(1200)]
    assert measured(ramp + crowd)["ece"] == RAMP_AND_CROWD


RAMP_AND_CROWD: JsonObject = {
    "value": 0.169764445,
    "bins": 10,
    "scheme": "equal-width",
    "expected_if_calibrated": 0.016172,
    "upper_95_if_calibrated": 0.023245,
}


def test_an_answer_counts_once_as_stated_as_unstated_or_as_neither_right_nor_wrong() -> None:
    results: list[tuple[CriterionResult, int | None]] = [
        (RIGHT, 900_000_000),
        (WRONG, None),
        (RIGHT, None),
        (Scored(NANO // 2), 900_000_000),
        (Scored(1), None),
        (Verdict.NOT_APPLICABLE, 500_000_000),
        (Verdict.DECLINED, 500_000_000),
        (Verdict.UNSCORED, 500_000_000),
    ]
    found = calibration_of(
        *(
            episode(seq, {"a": result}, probability=nano)
            for seq, (result, nano) in enumerate(results, start=1)
        )
    )
    counts = [found[name] for name in ("probabilities", "without_probability", "without_verdict")]
    assert counts == [1, 2, 2]
    assert found["brier_score"] == 0.01


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (Verdict.MISSING, InvocationStatus.ERROR),
        (Verdict.EXCLUDED, InvocationStatus.REFUSED),
        (Verdict.NOT_RUN, None),
    ],
)
def test_where_nothing_was_answered_no_probability_counts_and_nothing_is_made_up(
    result: Verdict, status: InvocationStatus | None
) -> None:
    found = calibration_of(episode(1, {"a": result}, status=status, probability=NANO))
    gone = {"count": 0, "mean_probability": None, "share_right": None}
    assert found == {
        "criterion": "a",
        "probabilities": 0,
        "without_probability": 0,
        "without_verdict": 0,
        "brier_score": None,
        "decomposition": None,
        "ece": None,
        "ece_reason": "fewer-than-100-probabilities",
        "bins": [{"low": k / 10, "high": (k + 1) / 10, **gone} for k in range(BINS)],
    }


def test_accuracy_alone_gives_no_calibration() -> None:
    episodes = [episode(seq, {"a": RIGHT if seq % 4 else WRONG}) for seq in range(1, 301)]
    found = calibration_of(*episodes)
    assert (found["probabilities"], found["without_probability"]) == (0, 300)
    assert (found["brier_score"], found["decomposition"], found["ece"]) == (None, None, None)


@pytest.mark.parametrize(
    ("stated", "nano"),
    [
        (0, 0),
        (1, NANO),
        (0.75, 750_000_000),
        # To nine places, half to even.
        (0.0000000005, 0),
        (0.0000000015, 2),
        (-0.1, None),
        (1.000000001, None),
        (10**400, None),
        (True, None),
        ("0.5", None),
        (None, None),
        ([0.5], None),
        ({"p": 0.5}, None),
    ],
)
def test_a_probability_is_a_number_from_0_to_1_at_confidence(
    stated: JsonValue, nano: int | None
) -> None:
    found = stated_probability(stated)
    assert (None if found is None else found.nano) == nano


def provider(scorers: dict[str, str], committed: str | None = None) -> TheatreScoringProvider:
    scoring: JsonObject = {"criteria_scorers": {c: {"scorer": s} for c, s in scorers.items()}}
    if committed is not None:
        scoring["calibration_criterion"] = committed
    document: JsonObject = {"criteria": {"criteria_ids": [*scorers]}, "scoring": scoring}
    installed = {
        name: Scorer(
            name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, score=lambda _: None
        )
        for name in scorers.values()
    }
    return TheatreScoringProvider(document, installed)


@pytest.mark.parametrize(
    ("scorers", "committed", "criterion"),
    [
        ({"a": "exact_match", "b": "label_accuracy"}, None, "b"),
        ({"a": "exact_match", "b": "label_accuracy"}, "a", "a"),
        ({"a": "label_accuracy", "b": "label_accuracy"}, None, None),
        ({"a": "label_accuracy", "b": "label_accuracy"}, "b", "b"),
        ({"a": "exact_match"}, None, None),
    ],
    ids=["the only label", "as committed", "two labels", "one of two", "no label"],
)
def test_probabilities_are_about_the_committed_criterion_else_about_the_only_label(
    scorers: dict[str, str], committed: str | None, criterion: str | None
) -> None:
    assert provider(scorers, committed).calibration_criterion == criterion


def test_where_no_criterion_can_be_calibrated_the_aggregate_says_null() -> None:
    run = Run(weights={"a": 1}, split=0, episodes=(episode(1, {"a": RIGHT}, probability=NANO),))
    assert run.aggregate()[1]["calibration"] is None
