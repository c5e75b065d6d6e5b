"""Pictures of one certified run, drawn from its `scores/aggregate.json` and certificate alone.

Drawn with matplotlib's object interface: no window system, no state, the same bytes for the same
documents.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theatre.cli.evidence_report import best_baseline
from theatre.cli.plot_style import ACCENT, INK, QUIET, finish, plain_style
from theatre.cli.reliability_plot import Reliability, StatedBin, reliability_figure
from theatre.engine.canonical_json import JsonObject
from theatre.engine.scoring import COMPOSITE


class _Row(NamedTuple):
    """A score with its interval; None where there is none."""

    name: str
    score: float | None
    low: float | None
    high: float | None
    method: str


def write_plots(aggregate: JsonObject, certificate: JsonObject, folder: Path) -> list[Path]:
    """Write the pictures that a run has the numbers for, as SVG; return their paths.

    `criteria.svg` always; `reliability.svg` where the construct gave probabilities. Raises
    OSError where the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    numbers: Mapping[str, Any] = aggregate
    title = (
        f"{certificate['template_id']}: {certificate['construct_id']} "
        f"@ {str(certificate['construct_version'])[:12]}"
    )
    with mpl.rc_context():
        plain_style()
        figures = {"criteria.svg": _criteria(numbers, certificate, title)}
        calibration = numbers["calibration"]
        if calibration is not None and calibration["probabilities"]:
            figures["reliability.svg"] = _reliability(calibration, title)
        for name, figure in figures.items():
            figure.savefig(folder / name, format="svg", metadata={"Date": None})
    return [folder / name for name in figures]


def _criteria(numbers: Mapping[str, Any], certificate: Mapping[str, Any], title: str) -> Figure:
    rows = _rows(numbers)
    figure = Figure(figsize=(7.5, 1.8 + 0.55 * len(rows)), layout="constrained")
    axes: Axes = figure.add_subplot()
    for place, row in enumerate(reversed(rows)):
        _draw_row(axes, place, row)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    _draw_parts(axes, rows, numbers["holdout_scores"])
    _draw_trivial(axes, rows, certificate["baselines"])
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("score, with its 95 % interval\n" + _evidence(certificate), fontsize=8)
    if axes.get_legend_handles_labels()[1]:
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
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


def _draw_trivial(axes: Axes, rows: Sequence[_Row], baselines: Mapping[str, Any] | None) -> None:
    """Mark what the best answer without any work scores, where one was tried."""
    best = {row.name: best_baseline(baselines, row.name) for row in rows if row.name != COMPOSITE}
    points = [
        (found[0], place)
        for place, row in enumerate(reversed(rows))
        if isinstance(found := best.get(row.name), tuple)
    ]
    if points:
        label = "best trivial answer"
        axes.plot(*zip(*points, strict=True), "v", color=INK, ms=6, mfc="none", label=label)


def _evidence(certificate: Mapping[str, Any]) -> str:
    """Return tier, questions and kinds of findings, in lines of the picture's width."""
    audit = certificate["data_audit"]
    parts = [str(certificate["verification_tier"])]
    if audit is not None:
        parts.append(f"{audit['episodes']} questions, {audit['distinct_inputs']} distinct")
    codes = Counter(finding.partition(":")[0] for finding in certificate["findings"])
    parts += [code if times == 1 else f"{code} ({times})" for code, times in codes.items()]
    return textwrap.fill("; ".join(parts), 90, break_on_hyphens=False)


def _reliability(calibration: Mapping[str, Any], title: str) -> Figure:
    curve = Reliability(
        bins=[
            StatedBin(
                low=one["low"],
                high=one["high"],
                count=one["count"],
                mean=one["mean_probability"],
                share=one["share_right"],
            )
            for one in calibration["bins"]
            if one["count"]
        ],
        summary=_summary(calibration),
        share_label="share that was right (Wilson 95 %)",
        count_label="answers",
        confidence_label=f"confidence that the construct gave ({calibration['criterion']})",
    )
    return reliability_figure(curve, title)


def _summary(calibration: Mapping[str, Any]) -> str:
    lines = [f"n = {calibration['probabilities']}", f"Brier {calibration['brier_score']:.3f}"]
    ece = calibration["ece"]
    if ece is None:
        return "\n".join([*lines, f"no ECE: {calibration['ece_reason']}"])
    expected, upper = ece["expected_if_calibrated"], ece["upper_95_if_calibrated"]
    null = f"if calibrated: {expected:.3f}, 95 % below {upper:.3f}"
    return "\n".join([*lines, f"ECE {ece['value']:.3f}", null])
