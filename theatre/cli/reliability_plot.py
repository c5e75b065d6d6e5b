"""Stated confidence against what came of it, as one picture: a point a bin, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from theatre.cli.plot_style import ACCENT, QUIET, finish, plain_style
from theatre.engine.scoring import wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedBin:
    """One bin of stated confidence that is not empty; all but the count are shares."""

    low: float
    high: float
    count: int
    mean: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """A reliability curve, and the words around it."""

    bins: Sequence[StatedBin]
    summary: str
    share_label: str
    count_label: str
    confidence_label: str


def reliability_figure(curve: Reliability, title: str) -> Figure:
    """Draw a curve above the number of values in each bin."""
    figure = Figure(figsize=(5.5, 6.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    upper.plot([0, 1], [0, 1], color=QUIET, lw=1, ls="--", label="perfectly calibrated")
    for one in curve.bins:
        interval: Mapping[str, Any] = wilson_interval(round(one.share * one.count), one.count)
        upper.plot(
            [one.mean, one.mean],
            [interval["low"], interval["high"]],
            color=ACCENT,
            lw=2,
            alpha=0.4,
            solid_capstyle="butt",
        )
        upper.plot(one.mean, one.share, "o", color=ACCENT, ms=6)
        lower.bar((one.low + one.high) / 2, one.count, width=0.09, color=ACCENT)
    upper.set_ylim(-0.02, 1.02)
    upper.set_ylabel(curve.share_label)
    upper.legend(loc="upper left", frameon=False, fontsize=8)
    upper.text(0.98, 0.03, curve.summary, transform=upper.transAxes, ha="right", fontsize=8)
    lower.set_xlim(0, 1)
    lower.set_ylabel(curve.count_label)
    lower.set_xlabel(curve.confidence_label)
    finish(upper, title)
    finish(lower, "")
    return figure


def write_claim_reliability(certificate: Mapping[str, Any], folder: Path) -> Path:
    """Write `reliability.svg` of a verification certificate that has stated claims; its path.

    Raises OSError where the folder cannot be written.
    """
    calibration, brier = certificate["claim_calibration"], certificate["brier"]
    reason = certificate["brier_reason"]
    by_words = certificate["judge"] is None
    supported = "whose words occur" if by_words else "that the model supports"
    scored = f"no Brier score: {reason}" if brier is None else f"Brier {brier:.3f}"
    curve = Reliability(
        bins=[
            StatedBin(
                low=one["low"],
                high=one["high"],
                count=one["count"],
                mean=one["mean_confidence"],
                share=one["share_supported"],
            )
            for one in calibration["bins"]
            if one["count"]
        ],
        summary=f"n = {calibration['stated']} claims\n{scored}",
        share_label="share of claims " + supported + " (Wilson 95 %)",
        count_label="claims",
        confidence_label="confidence that the oracle stated for a claim",
    )
    title = f"{certificate['construct_id']} @ {str(certificate['construct_version'])[:12]}"
    path = folder / "reliability.svg"
    with mpl.rc_context():
        plain_style()
        reliability_figure(curve, title).savefig(path, format="svg", metadata={"Date": None})
    return path
