"""Pictures of a ladder report, as SVG whose text is text; the same report gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theatre.axion.harness.ladder import LEVELS

_INK, _GRID = "#1f2933", "#d9dee3"
# Hues that stay apart for colour-blind readers (Okabe and Ito).
_HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKS = ("o", "s", "^", "D", "v", "P")
_STYLE: Any = {  # matplotlib types the names of all its settings
    "svg.hashsalt": "echelon",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}

Report = Mapping[str, Any]


def write_pictures(report: Report, folder: Path) -> list[Path]:
    """Draw `matrix.svg`, `fidelity.svg` and `entropy.svg` into `folder`; return their paths."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figures = {
            "matrix.svg": _matrix(report),
            "fidelity.svg": _fidelity(report),
            "entropy.svg": _entropy(report),
        }
        for name, figure in figures.items():
            figure.savefig(folder / name, format="svg", metadata={"Date": None})
    return [folder / name for name in figures]


def _matrix(report: Report) -> Figure:
    names = list(report["matrix"])[::-1]
    figure = Figure(figsize=(9, 1.4 + 0.42 * len(names)), layout="constrained")
    panels: Sequence[Axes] = figure.subplots(1, len(LEVELS), sharey=True)
    for panel, level in zip(panels, LEVELS, strict=True):
        for place, name in enumerate(names):
            hue = _HUES[0] if name.startswith("honest") else _HUES[1]
            _draw_rate(panel, place, report["matrix"][name][level], hue)
        panel.set_title(level, loc="left", fontsize=10)
        panel.set_xlim(-0.05, 1.05)
        panel.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        _finish(panel)
    panels[0].set_yticks(range(len(names)), names)
    figure.supxlabel(
        f"share of {report['episodes']} episodes that pass, Wilson 95 % "
        "(blue: honest, orange: lying)",
        fontsize=9,
    )
    return figure


def _draw_rate(axes: Axes, place: int, rate: Mapping[str, Any], hue: str) -> None:
    ends, heights = [rate["low"], rate["high"]], [place, place]
    axes.plot(ends, heights, color=hue, lw=5, alpha=0.35, solid_capstyle="butt")
    axes.plot(rate["value"], place, "o", color=hue, ms=6)


def _fidelity(report: Report) -> Figure:
    curve = report["fidelity"]
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes: Axes = figure.add_subplot()
    names = [name for name in curve["points"][0] if name != "fidelity"]
    for name, hue, mark in zip(names, _HUES, _MARKS, strict=False):
        asked = [point["fidelity"] for point in curve["points"]]
        passed = [point[name]["value"] for point in curve["points"]]
        axes.plot(asked, passed, color=hue, marker=mark, ms=5, lw=1.5, label=name)
        lows = [point[name]["low"] for point in curve["points"]]
        highs = [point[name]["high"] for point in curve["points"]]
        axes.fill_between(asked, lows, highs, color=hue, alpha=0.12, lw=0)
    axes.set_xlabel("share of steps that the one published model must explain")
    axes.set_ylabel("episodes that pass all four levels")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    _finish(axes)
    return figure


def _entropy(report: Report) -> Figure:
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes: Axes = figure.add_subplot()
    for (name, row), hue, mark in zip(report["sweep"].items(), _HUES, _MARKS, strict=False):
        filled = [
            (place, one["pass_rate"]["value"])
            for place, one in enumerate(row["bins"])
            if one["episodes"]
        ]
        axes.plot(*zip(*filled, strict=True), color=hue, marker=mark, ms=6, lw=1.5, label=name)
    bins = next(iter(report["sweep"].values()))["bins"]
    axes.set_xticks(range(len(bins)), [f"{one['bin']}\n{one['episodes']} episodes" for one in bins])
    axes.set_xlabel("env_entropy of the world at the start")
    axes.set_ylabel("pass rate of P5-MCI, mci_minimal")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    _finish(axes)
    return figure


def _finish(axes: Axes) -> None:
    axes.grid(visible=True, axis="both", color=_GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
