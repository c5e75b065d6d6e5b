"""Pictures of one certified run, drawn from its `scores/aggregate.json` alone.

Drawn with matplotlib's object interface: no window system, no state, the same bytes for the same
aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring import COMPOSITE, wilson_interval

# Two hues that stay apart for colour-blind readers, and greys.
INK, ACCENT, QUIET, GRID = "#1f2933", "#1b5e9b", "#8a6d3b", "#d9dee3"
STYLE: Any = {  # matplotlib types the names of all its settings
    "svg.hashsalt": "echelon",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class _Row(NamedTuple):
    """A score with its interval; None where there is none."""

    name: str
    score: float | None
    low: float | None
    high: float | None
    method: str


def write_plots(aggregate: JsonObject, title: str, folder: Path) -> list[Path]:
    """Write the pictures that `aggregate` has the numbers for, as SVG; return their paths.

    `criteria.svg` always; `reliability.svg` where the construct gave probabilities. Raises
    OSError where the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers: Mapping[str, Any] = aggregate
    with mpl.rc_context():
        # Whatever the user's own matplotlibrc says.
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figures = {"criteria.svg": _criteria(numbers, title)}
        calibration = numbers["calibration"]
        if calibration is not None and calibration["probabilities"]:
            figures["reliability.svg"] = _reliability(calibration, title)
        for name, figure in figures.items():
            figure.savefig(folder / name, format="svg", metadata={"Date": None})
    return [folder / name for name in figures]


def _criteria(numbers: Mapping[str, Any], title: str) -> Figure:
    rows = _rows(numbers)
    figure = Figure(figsize=(7.5, 1.4 + 0.55 * len(rows)), layout="constrained")
    axes: Axes = figure.add_subplot()
    for place, row in enumerate(reversed(rows)):
        _draw_row(axes, place, row)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    _draw_parts(axes, rows, numbers["holdout_scores"])
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("score, with its 95 % interval")
    finish(axes, title)
    return figure


def _rows(numbers: Mapping[str, Any]) -> list[_Row]:
    scores = {**numbers["scores"], COMPOSITE: numbers[COMPOSITE]}
    intervals = numbers["score_intervals"]
    return [
        _Row(
            name=name,
            score=score,
            low=intervals[name]["low"],
            high=intervals[name]["high"],
            method=intervals[name]["method"],
        )
        for name, score in scores.items()
    ]


def _draw_row(axes: Axes, place: int, row: _Row) -> None:
    if row.score is None:
        axes.text(0.01, place, "no score", va="center", color=QUIET)
        return
    if row.low is not None and row.high is not None:
        axes.plot(
            [row.low, row.high],
            [place, place],
            color=ACCENT,
            lw=6,
            alpha=0.35,
            solid_capstyle="butt",
        )
    axes.plot(row.score, place, "o", color=ACCENT, ms=7)
    axes.annotate(
        f"{row.score:.3f}  ({row.method})",
        (row.score, place),
        xytext=(0, 9),
        textcoords="offset points",
        ha="left" if row.score < 0.5 else "right",  # noqa: PLR2004 - towards the middle
        fontsize=8,
    )


def _draw_parts(axes: Axes, rows: Sequence[_Row], parts: Mapping[str, Any] | None) -> None:
    """Mark the scores of the train part and of the holdout, where there is a split."""
    if parts is None:
        return
    for part, marker in (("train", "|"), ("holdout", "x")):
        means = {**parts[part]["scores"], COMPOSITE: parts[part][COMPOSITE]}
        points = [
            (means[row.name], place)
            for place, row in enumerate(reversed(rows))
            if means[row.name] is not None
        ]
        if points:
            label = f"{part} ({parts[part]['episodes']} episodes)"
            axes.plot(*zip(*points, strict=True), marker, color=QUIET, ms=8, mew=1.5, label=label)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2, frameon=False, fontsize=8)


def _reliability(calibration: Mapping[str, Any], title: str) -> Figure:
    bins = [one for one in calibration["bins"] if one["count"]]
    figure = Figure(figsize=(5.5, 6.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    upper.plot([0, 1], [0, 1], color=QUIET, lw=1, ls="--", label="perfectly calibrated")
    for one in bins:
        rate = one["share_right"]
        interval: Mapping[str, Any] = wilson_interval(round(rate * one["count"]), one["count"])
        at = one["mean_probability"]
        upper.plot(
            [at, at],
            [interval["low"], interval["high"]],
            color=ACCENT,
            lw=2,
            alpha=0.4,
            solid_capstyle="butt",
        )
        upper.plot(at, rate, "o", color=ACCENT, ms=6)
        lower.bar((one["low"] + one["high"]) / 2, one["count"], width=0.09, color=ACCENT)
    upper.set_ylim(-0.02, 1.02)
    upper.set_ylabel("share that was right (Wilson 95 %)")
    upper.legend(loc="upper left", frameon=False, fontsize=8)
    upper.text(0.98, 0.03, _summary(calibration), transform=upper.transAxes, ha="right", fontsize=8)
    lower.set_xlim(0, 1)
    lower.set_ylabel("answers")
    lower.set_xlabel(f"confidence that the construct gave ({calibration['criterion']})")
    finish(upper, title)
    finish(lower, "")
    return figure


def _summary(calibration: Mapping[str, Any]) -> str:
    lines = [f"n = {calibration['probabilities']}", f"Brier {calibration['brier_score']:.3f}"]
    ece = calibration["ece"]
    if ece is None:
        return "\n".join([*lines, f"no ECE: {calibration['ece_reason']}"])
    expected, upper = ece["expected_if_calibrated"], ece["upper_95_if_calibrated"]
    null = f"if calibrated: {expected:.3f}, 95 % below {upper:.3f}"
    return "\n".join([*lines, f"ECE {ece['value']:.3f}", null])


def finish(axes: Axes, title: str) -> None:
    """Give `axes` its title and the looks that all pictures share."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(visible=True, axis="both", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
