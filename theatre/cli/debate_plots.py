"""Pictures of one debate: quality over the attempts, the controller's trace, the quadrants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from theatre.cli.plot_style import ACCENT, QUIET, STYLE, finish
from theatre.debate.models import Audit, Debate
from theatre.debate.pid import Quadrant

QUADRANTS = tuple(quadrant.value for quadrant in Quadrant)


class Step(NamedTuple):
    """One attempt, and the figures that the loop stored of it: there are any, or none."""

    label: str
    figures: dict[str, float]
    quadrant: str | None

    def has(self, *members: str) -> bool:
        """Tell whether all of these were stored."""
        return all(member in self.figures for member in members)


def read_steps(debate: Debate) -> list[Step]:
    """Return the attempts of `debate` with what their audits stored.

    Members that the format leaves open may hold anything: what is no number is not drawn.
    """
    return [
        Step(
            label=f"{turn.turn_index}.{attempt.attempt_index}",
            figures=_numbers(attempt.audit),
            quadrant=_quadrant(attempt.audit),
        )
        for turn in debate.turns
        for attempt in turn.attempts or ()
    ]


def _numbers(audit: Audit | None) -> dict[str, float]:
    parts = (audit.crit, audit.pid) if audit is not None else ()
    stored = [part.model_dump() for part in parts if part is not None]
    members = [item for part in stored for item in part.items()]
    return {name: float(one) for name, one in members if type(one) in {int, float}}


def _quadrant(audit: Audit | None) -> str | None:
    members = (audit.pid.model_extra if audit is not None and audit.pid is not None else None) or {}
    name = members.get("quadrant")
    return name if isinstance(name, str) and name in QUADRANTS else None


_QUALITY, _CONTROLLER = ("gamma_mean", "theta_mean"), ("e_t", "u_t", "beta_applied")
_PLACE = ("divergence", "rho_bar")


def _drawn(steps: Sequence[Step], member: str) -> tuple[list[int], list[float]]:
    """Return the places of the steps that have a figure, and the figures."""
    places = [place for place, step in enumerate(steps) if step.has(member)]
    return places, [steps[place].figures[member] for place in places]


def write_debate_plots(debate: Debate, folder: Path) -> list[Path]:
    """Write `quality.svg`, `controller.svg` and `quadrants.svg` as far as there are numbers."""
    steps = read_steps(debate)
    title = f"{debate.debate_id}, run {debate.run_id[:8]}"
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figures: dict[str, Figure] = {}
        if any(step.has(name) for step in steps for name in _QUALITY):
            figures["quality.svg"] = _quality(steps, title)
        if any(step.has(*_CONTROLLER) for step in steps):
            figures["controller.svg"] = _controller(steps, title)
        if any(step.has(*_PLACE) for step in steps):
            figures["quadrants.svg"] = _quadrants(steps, title)
        for name, figure in figures.items():
            figure.savefig(folder / name, format="svg", metadata={"Date": None})
    return [folder / name for name in figures]


def _quality(steps: Sequence[Step], title: str) -> Figure:
    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    axes: Axes = figure.add_subplot()
    for member, colour, marker in zip(_QUALITY, (ACCENT, QUIET), "os", strict=True):
        axes.plot(*_drawn(steps, member), marker, ls="-", lw=1, color=colour, label=member)
    axes.axhline(0.8, color=ACCENT, lw=0.8, ls="--")
    axes.axhline(0.5, color=QUIET, lw=0.8, ls="--")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("mean over reasons; dashed: thresholds")
    _label_steps(axes, steps)
    finish(axes, title)
    return figure


def _controller(steps: Sequence[Step], title: str) -> Figure:
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for member, colour, marker in (("e_t", QUIET, "s"), ("u_t", ACCENT, "o")):
        upper.plot(*_drawn(steps, member), marker, ls="-", lw=1, color=colour, label=member)
    upper.axhline(0, color=QUIET, lw=0.6)
    upper.set_ylabel("error, output")
    upper.legend(loc="upper right", frameon=False, fontsize=8)
    lower.step(*_drawn(steps, "beta_applied"), where="mid", color=ACCENT, lw=1.5)
    lower.set_ylim(-0.02, 1.02)
    lower.set_ylabel("strength applied next")
    finish(upper, title)
    finish(lower, "")
    lower.set_xticks(range(len(steps)), [step.label for step in steps], fontsize=8)
    lower.set_xlabel("turn.attempt")
    return figure


def _quadrants(steps: Sequence[Step], title: str) -> Figure:
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    path, table = figure.subplots(1, 2, width_ratios=(3, 2))
    placed = [step.figures for step in steps if step.has(*_PLACE)]
    _draw_path(path, [(one["divergence"], one["rho_bar"]) for one in placed])
    finish(path, title)
    _draw_transitions(table, [step.quadrant for step in steps if step.quadrant is not None])
    finish(table, "steps from a quadrant to the next")
    table.grid(visible=False)
    return figure


def _draw_path(axes: Axes, drawn: Sequence[tuple[float, float]]) -> None:
    """Draw where each step lies, and by an arrow where the next one is."""
    arrow = {"arrowstyle": "->", "color": QUIET, "lw": 0.8, "shrinkA": 3, "shrinkB": 4}
    for here, there in pairwise(drawn):
        axes.annotate("", xy=there, xytext=here, arrowprops=arrow)
    if drawn:
        axes.plot(*zip(*drawn, strict=True), "o", color=ACCENT, ms=5)
        axes.annotate("first", drawn[0], xytext=(7, -10), textcoords="offset points", fontsize=8)
        axes.annotate("last", drawn[-1], xytext=(7, 9), textcoords="offset points", fontsize=8)
    right = max([0.12, *(x * 1.1 for x, _ in drawn)])
    axes.axvline(0.05, color=QUIET, lw=0.8, ls="--")
    axes.axhline(0.8, color=QUIET, lw=0.8, ls="--")
    corners = (("CONVERGED", 0.0, 1.0), ("HEALTHY", right, 1.0), ("STUCK", 0.0, 0.0))
    for name, x, y in (*corners, ("CHAOTIC", right, 0.0)):
        side = "left" if x == 0 else "right"
        axes.text(x, y, name, ha=side, va="top" if y else "bottom", fontsize=8, color=QUIET)
    axes.set_xlim(-0.004, right + 0.004)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("divergence of the agents' quality, bits")
    axes.set_ylabel("mean quality")


def _draw_transitions(axes: Axes, quadrants: Sequence[str]) -> None:
    """Draw how often a step in one quadrant was followed by one in another."""
    names = QUADRANTS
    counts = Counter(pairwise(quadrants))
    most = max(counts.values(), default=1)
    for row, before in enumerate(names):
        for column, after in enumerate(names):
            count = counts[before, after]
            place = (column - 0.5, row - 0.5)
            shade = 0.55 * count / most
            axes.add_patch(Rectangle(place, 1, 1, fc=ACCENT, alpha=shade, lw=0))
            if count:
                axes.text(column, row, str(count), ha="center", va="center", fontsize=10)
    places = range(len(names))
    axes.set_xticks(places, names, fontsize=7)
    axes.set_yticks(places, names, fontsize=7, rotation=90, va="center")
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("to")
    axes.set_ylabel("from")
    axes.set_aspect("equal")


def _label_steps(axes: Axes, steps: Sequence[Step]) -> None:
    axes.set_xticks(range(len(steps)), [step.label for step in steps], fontsize=8)
    axes.set_xlabel("turn.attempt")
    axes.legend(loc="lower right", frameon=False, fontsize=8)
