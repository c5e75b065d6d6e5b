"""The looks that all pictures share."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

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


def plain_style() -> None:
    """Set the shared style, whatever the user's own matplotlibrc says."""
    mpl.rcdefaults()
    mpl.rcParams.update(STYLE)


def finish(axes: Axes, title: str) -> None:
    """Give `axes` its title and the looks that all pictures share."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(visible=True, axis="both", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
