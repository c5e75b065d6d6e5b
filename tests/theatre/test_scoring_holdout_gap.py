"""The gap between train and holdout: by hand, by other formulas, and as often wrong as it may."""

import hashlib
import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.scored_runs import NANO, SCORER, SPLITS, Run, episode, episode_results, held_out
from theatre.engine.models import CriterionResult, EpisodeOutcome, Scored, Verdict
from theatre.engine.scoring import CriterionPlan, ScoredEpisode, is_held_out
from theatre.engine.scoring.holdout import JointMoments, SplitScores, holdout_gap

Z = Fraction("1.959963984540054")
HALF = Fraction(1, 2)
PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
SOAK = os.environ.get("ECHELON_SOAK") == "1"
REPEATS = 2000 if SOAK else 100
Scores = npt.NDArray[np.float64]
Row = dict[str, Fraction]
"""Criterion → value, for the criteria in which an episode counts."""


def gap_of(
    train: list[dict[str, int]],
    holdout: list[dict[str, int]],
    weights: dict[str, Fraction] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the gap between two lists of rows of scores in billionths."""
    shares = weights or {"a": Fraction(1)}
    plans = plans_of(shares)
    parts = []
    for rows in (train, holdout):
        moments = JointMoments.of(plans)
        for row in rows:
            moments.add({name: _result(row, name) for name in shares})
        parts.append(moments)
    return cast("dict[str, dict[str, Any]]", holdout_gap(plans, *parts))


def plans_of(shares: dict[str, Fraction]) -> list[CriterionPlan]:
    return [
        CriterionPlan(criterion_id=name, scorer=SCORER, params={}, weight=weight)
        for name, weight in shares.items()
    ]


def _result(row: dict[str, int], name: str) -> CriterionResult:
    return Scored(row[name]) if name in row else Verdict.NOT_APPLICABLE


def single(train: list[float], holdout: list[float]) -> dict[str, Any]:
    gap = gap_of(
        [{"a": round(value * NANO)} for value in train],
        [{"a": round(value * NANO)} for value in holdout],
    )
    assert gap["composite_score"] == gap["a"]
    return gap["a"]


# fmt: off
GAPS: list[tuple[str, list[float], list[float], float | None, bool | None]] = [
    ("no train", [], [1, 0], None, None),
    ("no holdout", [1, 0], [], None, None),
    ("one right answer", [1, 0, 1, 0], [1], -0.5, None),
    ("one graded answer", [0.3, 0.4], [0.9], -0.55, None),
    ("all right in both", [1] * 40, [1] * 10, 0, False),
    ("one grade in both", [0.5] * 40, [0.5] * 10, 0, False),
    ("all right, none right", [1] * 40, [0] * 10, 1, True),
    ("six right of six", [1, 0] * 20, [1] * 6, -0.5, True),
    ("three right of three", [1, 0] * 20, [1] * 3, -0.5, False),
    ("another grade", [0.5] * 40, [0.7] * 10, -0.2, True),
    ("another grade, twice", [0.5] * 2, [0.7] * 2, -0.2, False),
    ("right twice, wrong twice", [1] * 2, [0] * 2, 1, False),
    ("a holdout without spread, alike", [0.2, 0.8] * 20, [0.5] * 10, 0, False),
    ("a holdout without spread, not alike", [0.2, 0.8] * 20, [0.9] * 10, -0.4, True),
]
# fmt: on


@pytest.mark.parametrize(
    ("train", "holdout", "expected"),
    [
        pytest.param(train, holdout, (difference, beyond), id=name)
        for name, train, holdout, difference, beyond in GAPS
    ],
)
def test_a_gap_is_the_difference_and_whether_the_draw_explains_it(
    train: list[float], holdout: list[float], expected: tuple[float | None, bool | None]
) -> None:
    difference, beyond = expected
    assert single(train, holdout) == {"difference": difference, "beyond_sampling_error": beyond}


def drawn(n: int, seed: int, *, spread: float = 1.0, shift: float = 0.0) -> Scores:
    """Return n graded scores to nine places, the same on every machine."""
    values = np.random.default_rng(seed).beta(2, 2, n) * spread + shift
    return np.asarray(np.clip(values, 0, 1).round(9), dtype=np.float64)


def standard_errors(train: Scores, holdout: Scores) -> float:
    """Return how many standard errors of a random draw lie between two means.

    Its square is (n - 1) r², r being the correlation of score and part.
    """
    part = np.repeat([0.0, 1.0], [len(train), len(holdout)])
    ((_, r), _) = np.corrcoef(np.concatenate([train, holdout]), part)
    return float(abs(r) * math.sqrt(len(part) - 1))


@pytest.mark.parametrize("shift", [-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_graded_scores_are_compared_with_the_error_of_the_draw(shift: float, spread: float) -> None:
    train, holdout = drawn(60, 7), drawn(15, 8, spread=spread, shift=shift + 0.2)
    assert single([*train], [*holdout]) == {
        "difference": round(float(train.mean() - holdout.mean()), 9),
        "beyond_sampling_error": standard_errors(train, holdout) > float(Z),
    }


@pytest.mark.parametrize("right", range(13))
def test_right_and_wrong_are_compared_as_two_proportions(right: int) -> None:
    train, holdout = [1.0] * 40 + [0.0] * 8, [1.0] * right + [0.0] * (12 - right)
    # The chi-square statistic of a two-by-two table is the square of the pooled z; n - 1 for n.
    apart, wrong = 40 * (12 - right) - 8 * right, 20 - right
    statistic = 59 * apart**2 / (48 * 12 * (40 + right) * wrong)
    assert single(train, holdout)["beyond_sampling_error"] is bool(statistic > float(Z) ** 2)


@pytest.mark.parametrize("shift", [0.0, 0.08, 0.12, 0.3])
def test_the_composite_of_criteria_on_every_episode_is_compared_as_one_score(shift: float) -> None:
    train = drawn(60, 1), drawn(60, 2, spread=0.6)
    holdout = drawn(15, 3), drawn(15, 4, spread=0.6, shift=shift)
    first, second = [a / 4 + b * 3 / 4 for a, b in (train, holdout)]
    gap = gap_of(rows_of(*train), rows_of(*holdout), {"a": Fraction(1, 4), "b": Fraction(3, 4)})
    assert gap["composite_score"] == {
        "difference": pytest.approx(first.mean() - second.mean(), abs=1e-9),
        "beyond_sampling_error": standard_errors(first, second) > float(Z),
    }


def rows_of(a: Scores, b: Scores) -> list[dict[str, int]]:
    return [{"a": round(x * NANO), "b": round(y * NANO)} for x, y in zip(a, b, strict=True)]


def by_hand(train: list[Row], holdout: list[Row], weights: Row) -> dict[str, Any]:
    """Read the definition (docs/statistics.md) episode by episode."""
    parts = (train, holdout)
    values = {c: [[row[c] for row in rows if c in row] for rows in parts] for c in weights}
    fewest = min(len(column) for columns in values.values() for column in columns)
    if fewest == 0:
        return {"difference": None, "beyond_sampling_error": None}
    means = [{c: mean(values[c][side]) for c in weights} for side in (0, 1)]
    difference = sum((w * (means[0][c] - means[1][c]) for c, w in weights.items()), Fraction(0))
    published = float(round(difference, 9))
    if fewest == 1:
        return {"difference": published, "beyond_sampling_error": None}
    moves = contributions([*train, *holdout], weights)
    squares = sum((move**2 for move in moves), Fraction(0))
    sizes = [sum(counts_in(row, weights) for row in rows) for rows in parts]
    variance = squares / (len(moves) - 1) * sum(Fraction(1, size) for size in sizes)
    beyond = difference**2 > Z**2 * variance
    return {"difference": published, "beyond_sampling_error": beyond}


def counts_in(row: Row, weights: Row) -> bool:
    return any(weights.get(c) for c in row)


def contributions(rows: list[Row], weights: Row) -> list[Fraction]:
    """Return how much each counted episode adds to, or takes from, the weighted mean, times n."""
    columns = {c: [row[c] for row in rows if c in row] for c in weights}
    counted = [row for row in rows if counts_in(row, weights)]
    return [
        sum(
            (
                w * (row[c] - mean(columns[c])) * Fraction(len(counted), len(columns[c]))
                for c, w in weights.items()
                if c in row
            ),
            Fraction(0),
        )
        for row in counted
    ]


def mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


@st.composite
def split_runs(draw: st.DrawFn) -> Run:
    """Draw a run with a holdout, of right and wrong answers only or with graded ones."""
    criteria = draw(st.sampled_from([["a"], ["b", "a"], ["c", "a", "b"]]))
    levels = draw(st.sampled_from([(0, 1), (0, 2, 4), (1, 2, 3)]))
    row = st.fixed_dictionaries({c: st.sampled_from([*levels, None]) for c in criteria})
    episodes = [
        draw(row.map(partial(graded, seq, levels[-1])) | episode_results(seq, criteria))
        for seq in range(1, 1 + draw(st.integers(0, 24)))
    ]
    weights = {criterion: draw(st.integers(0, 9)) for criterion in criteria}
    weights["a"] += not any(weights.values())
    return Run(weights=weights, split=draw(st.sampled_from([0.2, 0.5])), episodes=tuple(episodes))


def graded(seq: int, top: int, row: dict[str, int | None]) -> ScoredEpisode:
    scores = {
        c: Verdict.NOT_APPLICABLE if level is None else Scored(level * NANO // top)
        for c, level in row.items()
    }
    return episode(seq, scores)


def test_episodes_that_count_without_weight_do_not_sharpen_the_composite() -> None:
    train = [{"b": score} for score in (NANO, NANO, NANO, 360_000_000, 0, 0, 0, 0)]
    holdout = [{"b": NANO}] * 4
    weights = {"a": Fraction(0), "b": Fraction(1)}
    silent = [{"a": NANO}, {"a": 0}] * 10
    gap = gap_of([*train, *silent], [*holdout, *silent], weights)
    assert gap["composite_score"] == gap["b"]


@settings(deadline=None, max_examples=200 if SOAK else 50)
@given(split_runs())
def test_the_gap_of_any_run_is_the_one_by_hand(run: Run) -> None:
    total = sum(run.weights.values())
    shares = {c: Fraction(weight, total) for c, weight in run.weights.items()}
    split, parts = SplitScores(plans_of(shares)), (list[Row](), list[Row]())
    for one in run.episodes:
        if one.outcome is not EpisodeOutcome.NOT_RUN:
            held = held_out(one, SPLITS[run.split])
            split.add(one.scores, held_out=held)
            parts[held].append(counted(one))
    expected = {c: by_hand(*parts, {c: Fraction(1)}) for c in run.weights}
    assert split.as_document()["gap"] == expected | {"composite_score": by_hand(*parts, shares)}


def counted(one: ScoredEpisode) -> Row:
    return {
        c: Fraction(result.nano, NANO) if isinstance(result, Scored) else Fraction(0)
        for c, result in one.scores.items()
        if isinstance(result, Scored) or result is Verdict.MISSING
    }


def test_without_a_split_there_is_no_gap() -> None:
    run = Run(weights={"a": 1}, split=0, episodes=(episode(1, {"a": Scored(0)}),))
    assert run.aggregate()[1]["holdout_scores"] is None


def mostly_full_marks(rng: np.random.Generator, n: int) -> npt.NDArray[Any]:
    return np.where(rng.random(n) < 0.7, 1, rng.beta(2, 2, n))


def nearly_always_0(rng: np.random.Generator, n: int) -> npt.NDArray[Any]:
    return np.where(rng.random(n) < 0.9, 0, rng.beta(2, 2, n))


Draw = Callable[[np.random.Generator, int], npt.NDArray[Any]]


def right(share: float) -> Draw:
    return lambda rng, n: rng.random(n) < share


CONSTRUCTS: dict[str, tuple[Draw, Draw]] = {
    "80 % right": (right(0.8), right(0.8)),
    "95 % right": (right(0.95), right(0.95)),
    "graded, 70 % full marks": (mostly_full_marks, mostly_full_marks),
    "graded, 90 % zeros": (nearly_always_0, nearly_always_0),
    "90 % right, 80 % on the holdout": (right(0.9), right(0.8)),
    "90 % right, 70 % on the holdout": (right(0.9), right(0.7)),
    "90 % right, 60 % on the holdout": (right(0.9), right(0.6)),
}
"""Row of the table in docs/statistics.md → scores on the train part, and on the holdout."""


def documented() -> list[tuple[str, int, float]]:
    """Return name of the construct, number of episodes, share of the runs that are flagged."""
    (header, table) = re.findall(
        r"^\| scores (\|.+ episodes \|)\n.+\n((?:\|.*\n)+)", PAGE, re.MULTILINE
    )[0]
    sizes = [int(size.replace(",", "")) for size in re.findall(r"([\d,]+) episodes", header)]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
    return [
        (name, n, float(share.rstrip(" %")) / 100)
        for name, *shares in cells
        for n, share in zip(sizes, shares, strict=True)
    ]


def share_flagged(name: str, n: int, repeats: int) -> float:
    rng, flagged = np.random.default_rng(n), 0
    on_train, on_holdout = CONSTRUCTS[name]
    for _ in range(repeats):
        held = int((rng.random(n) < 0.2).sum())
        train, holdout = on_train(rng, n - held), on_holdout(rng, held)
        flagged += bool(single([*train], [*holdout])["beyond_sampling_error"])
    return flagged / repeats


@pytest.mark.parametrize(("name", "n", "share"), documented())
def test_a_gap_is_flagged_as_often_as_documented(name: str, n: int, share: float) -> None:
    tolerance = 0.001 if SOAK else 4 * math.sqrt(max(share * (1 - share), 0.01) / REPEATS)
    assert share_flagged(name, n, REPEATS) == pytest.approx(share, abs=tolerance)


def test_the_table_has_every_construct() -> None:
    assert {name for name, *_ in documented()} == CONSTRUCTS.keys()


def test_a_construct_that_learned_the_train_part_by_heart_is_flagged() -> None:
    episodes = tuple(episode(seq, {"a": Scored(0)}) for seq in range(1, 241))
    by_heart = tuple(
        episode(one.seq, {"a": Scored(NANO * (one.seq % 2 if held_out(one, HALF) else 1))})
        for one in episodes
    )
    _, aggregate = Run(weights={"a": 1}, split=0.5, episodes=by_heart).aggregate()
    gap = cast("dict[str, Any]", aggregate["holdout_scores"])["gap"]
    assert gap["a"]["beyond_sampling_error"] is True
    assert gap["a"]["difference"] == pytest.approx(0.5, abs=0.15)


COMMITMENT = "5e" * 32
SHARES = [Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)]


def share_drawn(commitment: str, episode_id: str) -> Fraction:
    """Return the draw of docs/contract/scoring.md §6, with the standard library alone."""
    digest = hashlib.sha256((commitment + ":" + episode_id).encode("utf-8")).hexdigest()
    return Fraction(int(digest[:16], 16), 2**64)


@given(st.text(), st.sampled_from(SHARES))
def test_an_episode_is_held_out_if_its_draw_lies_below_the_share(
    episode_id: str, split: Fraction
) -> None:
    assert is_held_out(COMMITMENT, episode_id, split) is (
        share_drawn(COMMITMENT, episode_id) < split
    )


def test_a_known_draw_lies_where_it_was_computed_by_hand() -> None:
    # printf '%s:episode-1' 5e5e…5e | sha256sum
    assert hashlib.sha256(f"{COMMITMENT}:episode-1".encode()).hexdigest()[:16] == "e1d8e0d5de94c2a8"
    exactly = Fraction(int("e1d8e0d5de94c2a8", 16), 2**64)
    assert not is_held_out(COMMITMENT, "episode-1", exactly)
    assert is_held_out(COMMITMENT, "episode-1", exactly + Fraction(1, 2**64))


@pytest.mark.parametrize("split", SHARES)
def test_the_share_of_held_out_episodes_converges_to_the_committed_one(split: Fraction) -> None:
    n = 20_000
    held = sum(is_held_out(COMMITMENT, f"episode-{number}", split) for number in range(n))
    four_deviations = 4 * math.sqrt(n * split * (1 - split))
    assert abs(held - n * split) <= four_deviations


def test_another_commitment_draws_another_holdout() -> None:
    ids = [f"episode-{number}" for number in range(64)]
    holdouts = {
        tuple(is_held_out(commitment, one, Fraction(1, 2)) for one in ids)
        for commitment in (COMMITMENT, "5f" * 32, "00" * 32)
    }
    assert len(holdouts) == 3
