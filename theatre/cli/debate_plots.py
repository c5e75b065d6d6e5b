"""Pictures of one debate: quality over the attempts, the controller's trace, the quadrants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theatre.cli.plot_style import ACCENT, QUIET, STYLE, finish
from theatre.debate.models import Debate


class Step(NamedTuple):
    """One attempt, as the loop stored it; None where it stored nothing of the kind."""

    label: str
    crit: dict[str, Any] | None
    pid: dict[str, Any] | None


def steps_of(debate: Debate) -> list[Step]:
    """Return the attempts of `debate` with what their audits stored."""
    return [
        Step(
            label=f"{turn.turn_index}.{attempt.attempt_index}",
            crit=audit.crit.model_dump() if audit and audit.crit else None,
            pid=audit.pid.model_dump() if audit and audit.pid else None,
        )
        for turn in debate.turns
        for attempt in turn.attempts or ()
        for audit in [attempt.audit]
    ]


def write_debate_plots(debate: Debate, folder: Path) -> list[Path]:
    """Write `quality.svg`, `controller.svg` and `quadrants.svg` as far as there are numbers."""
    steps = steps_of(debate)
    title = f"{debate.debate_id}, run {debate.run_id[:8]}"
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figures: dict[str, Figure] = {}
        if any(step.crit for step in steps):
            figures["quality.svg"] = _quality(steps, title)
        if any(step.pid for step in steps):
            figures["controller.svg"] = _controller(steps, title)
            figures["quadrants.svg"] = _quadrants(steps, title)
        for name, figure in figures.items():
            figure.savefig(folder / name, format="svg", metadata={"Date": None})
    return [folder / name for name in figures]


def _quality(steps: Sequence[Step], title: str) -> Figure:
    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    axes: Axes = figure.add_subplot()
    marks = (("gamma_mean", ACCENT, "o"), ("theta_mean", QUIET, "s"))
    for member, colour, marker in marks:
        at = [(place, step.crit[member]) for place, step in enumerate(steps) if step.crit]
        drawn = [(place, value) for place, value in at if value is not None]
        axes.plot(*zip(*drawn, strict=True), marker, ls="-", lw=1, color=colour, label=member)
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
    pids = [(place, step.pid) for place, step in enumerate(steps) if step.pid]
    places = [place for place, _ in pids]
    for member, colour, marker in (("e_t", QUIET, "s"), ("u_t", ACCENT, "o")):
        values = [pid[member] for _, pid in pids]
        upper.plot(places, values, marker, ls="-", lw=1, color=colour, label=member)
    upper.axhline(0, color=QUIET, lw=0.6)
    upper.set_ylabel("error, output")
    upper.legend(loc="upper right", frameon=False, fontsize=8)
    betas = [pid.get("beta_applied") for _, pid in pids]
    lower.step(places, betas, where="mid", color=ACCENT, lw=1.5)
    lower.set_ylim(-0.02, 1.02)
    lower.set_ylabel("strength applied next")
    finish(upper, title)
    finish(lower, "")
    lower.set_xticks(range(len(steps)), [step.label for step in steps], fontsize=8)
    lower.set_xlabel("turn.attempt")
    return figure


def _quadrants(steps: Sequence[Step], title: str) -> Figure:
    figure = Figure(figsize=(5.5, 4.6), layout="constrained")
    axes: Axes = figure.add_subplot()
    pids = [step.pid for step in steps if step.pid]
    drawn = [(one["divergence"], one["rho_bar"]) for one in pids if "rho_bar" in one]
    if drawn:
        axes.plot(*zip(*drawn, strict=True), "-", color=QUIET, lw=0.8)
        axes.plot(*zip(*drawn, strict=True), "o", color=ACCENT, ms=5)
        axes.annotate("first", drawn[0], xytext=(5, -10), textcoords="offset points", fontsize=8)
        axes.annotate("last", drawn[-1], xytext=(5, 5), textcoords="offset points", fontsize=8)
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
    finish(axes, title)
    return figure


def _label_steps(axes: Axes, steps: Sequence[Step]) -> None:
    axes.set_xticks(range(len(steps)), [step.label for step in steps], fontsize=8)
    axes.set_xlabel("turn.attempt")
    axes.legend(loc="lower right", frameon=False, fontsize=8)
