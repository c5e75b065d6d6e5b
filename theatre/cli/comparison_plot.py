"""The differences between oracles as one picture: a panel a measure, a line a pair of oracles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theatre.cli.plot_style import ACCENT, QUIET, finish, plain_style
from theatre.engine.scoring import COMPOSITE

_ROOM = 0.08
"""Margin next to the outermost bound, in units of the difference."""


def write_comparison(comparison: Mapping[str, Any], folder: Path) -> Path:
    """Write `differences.svg` into a folder that is there; return its path.

    Raises OSError where the folder cannot be written.
    """
    pairs, measures = comparison["pairs"], list(comparison["ranking"])
    path = folder / "differences.svg"
    with mpl.rc_context():
        plain_style()
        height = 1.0 + len(measures) * (0.75 + 0.34 * len(pairs))
        figure = Figure(figsize=(8.5, height), layout="constrained")
        panels = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
        reach = _reach(pairs, measures)
        for axes, measure in zip(panels, measures, strict=True):
            _draw_measure(axes, pairs, measure, comparison["changes"])
            axes.set_xlim(-reach, reach)
        panels[-1].set_xlabel("first minus second, change by change, with its 95 % interval")
        figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _reach(pairs: Sequence[Mapping[str, Any]], measures: Sequence[str]) -> float:
    found = [pair["measures"][measure]["difference"] for pair in pairs for measure in measures]
    bounds: list[float] = [
        abs(bound) for one in found for bound in (one["low"], one["high"]) if bound is not None
    ]
    return max(bounds, default=0.0) + _ROOM


def _draw_measure(
    axes: Axes, pairs: Sequence[Mapping[str, Any]], measure: str, changes: int
) -> None:
    axes.axvline(0, color=QUIET, lw=1, ls="--")
    for place, pair in enumerate(reversed(pairs)):
        one = pair["measures"][measure]
        difference = one["difference"]
        if difference["value"] is None:
            axes.text(0, place, "no change counts for both", va="center", ha="center", color=QUIET)
            continue
        if difference["low"] is not None:
            bounds = [difference["low"], difference["high"]]
            axes.plot(bounds, [place] * 2, color=ACCENT, lw=6, alpha=0.35, solid_capstyle="butt")
        axes.plot(difference["value"], place, "o", color=ACCENT, ms=6)
        axes.annotate(
            f"{difference['value']:+.3f}  ({one['changes']} of {changes})",
            (1, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    names = [f"{pair['first']} minus {pair['second']}" for pair in reversed(pairs)]
    axes.set_yticks(range(len(pairs)), names)
    axes.set_ylim(-0.6, len(pairs) - 0.4)
    finish(axes, "composite" if measure == COMPOSITE else measure)
