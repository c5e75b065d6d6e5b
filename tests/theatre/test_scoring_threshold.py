"""The failure stop against its definition, read by brute force."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.models import EpisodeOutcome
from theatre.engine.scoring import FailureStop, exact

MISSING, SCORED = EpisodeOutcome.MISSING, EpisodeOutcome.SCORED


def stopped_at(
    outcomes: list[EpisodeOutcome], *, total: int, threshold: Fraction | None
) -> int | None:
    """Return after how many episodes (from 1) the stop first says that the run is over."""
    stop = FailureStop(total=total, threshold=threshold)
    stopped = [stop.stopped]
    for outcome in outcomes:
        stop.count(int(outcome is MISSING))
        stopped.append(stop.stopped)
    # It never starts again.
    assert stopped == sorted(stopped)
    return stopped.index(True) if True in stopped else None


def by_definition(outcomes: list[EpisodeOutcome], total: int, threshold: Fraction) -> int | None:
    """Smallest k at which the failures among episodes 1…k exceed threshold x total."""
    for k in range(1, len(outcomes) + 1):
        if sum(outcome is MISSING for outcome in outcomes[:k]) > threshold * total:
            return k
    return None


OUTCOMES = st.lists(st.sampled_from(list(EpisodeOutcome)) | st.just(MISSING), max_size=40)
THRESHOLDS = st.decimals(min_value=0, max_value=1, places=3).map(float)


@given(OUTCOMES, st.integers(min_value=0, max_value=20), THRESHOLDS)
def test_a_run_stops_where_the_definition_says(
    outcomes: list[EpisodeOutcome], unanswered: int, threshold: float
) -> None:
    total = len(outcomes) + unanswered
    expected = by_definition(outcomes, total, Fraction(str(threshold)))
    assert stopped_at(outcomes, total=total, threshold=exact(threshold)) == expected


@given(OUTCOMES)
def test_without_a_threshold_a_run_never_stops(outcomes: list[EpisodeOutcome]) -> None:
    assert stopped_at(outcomes, total=len(outcomes), threshold=None) is None


@pytest.mark.parametrize(
    ("threshold", "failures_allowed"),
    [(0.0, 0), (0.2, 20), (0.205, 20), (0.07, 7), (0.29, 29), (0.57, 57)],
)
def test_exactly_the_threshold_is_allowed_and_one_more_is_not(
    threshold: float, failures_allowed: int
) -> None:
    # In doubles 0.29 * 100 is 28.999999999999996, and 29 failures would end the run.
    allowed = [MISSING] * failures_allowed + [SCORED] * (100 - failures_allowed)
    assert stopped_at(allowed, total=100, threshold=exact(threshold)) is None
    expected = failures_allowed + 1
    assert stopped_at([MISSING] * 100, total=100, threshold=exact(threshold)) == expected


def test_a_threshold_of_1_never_stops_a_run() -> None:
    assert stopped_at([MISSING] * 100, total=100, threshold=Fraction(1)) is None


@pytest.mark.parametrize("outcome", [one for one in EpisodeOutcome if one is not MISSING])
def test_only_failures_count_against_the_threshold(outcome: EpisodeOutcome) -> None:
    assert stopped_at([outcome] * 50, total=50, threshold=Fraction(0)) is None
    assert stopped_at([outcome] * 49 + [MISSING], total=50, threshold=Fraction(0)) == 50


@given(st.integers(min_value=1, max_value=400), THRESHOLDS)
def test_the_fatal_number_of_failures_is_the_first_that_stops(total: int, threshold: float) -> None:
    fatal = FailureStop(total=total, threshold=exact(threshold)).fatal
    assert fatal is not None
    failures = [MISSING] * (total + 1)
    assert stopped_at(failures, total=total, threshold=exact(threshold)) == fatal
    assert FailureStop(total=total, threshold=None).fatal is None
