"""A ladder report as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from theatre.axion.harness.ladder import LEVELS

_WIDTH = 96
_ASKED = {
    "L0": "the claims are true of the published model (P5-MCI as it was required)",
    "L1": "and what was done is what that model chooses",
    "L2": "and a tenth of the claims are about a change of choice",
    "L3": "and one model for the whole episode explains 95 % of the steps",
    "P5'": "the claims are what the agent does in the changed world (interface full)",
}


def ladder_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the matrix, the curve of L3, the sweep, and what the probe cannot do."""
    yield f"Share of {report['episodes']} episodes passed, Wilson 95 %, by what the probe asks:"
    for level, asked in _ASKED.items():
        yield f"  {level:4}{asked}"
    yield "fidelity: the share of steps that are what the published model chooses"
    yield ""
    yield f"{'mci_latent':18}" + "".join(f"{level:20}" for level in LEVELS) + "fidelity"
    for name, row in report["matrix"].items():
        cells = "".join(f"{_with_interval(row[level]):20}" for level in LEVELS)
        yield f"{name:18}{cells}{row['fidelity']:.3f}"
    yield ""
    yield f"{'full':18}P5'"
    for name, rate in report["full"].items():
        yield f"{name:18}{_with_interval(rate)}"
    yield ""
    yield "L3 by the fidelity asked for"
    for point in report["fidelity"]["points"]:
        rates = ", ".join(f"{k} {v['value']:.2f}" for k, v in point.items() if k != "fidelity")
        yield f"  {point['fidelity']:.3f}  {rates}"
    for name, area in report["fidelity"]["auroc"].items():
        yield f"  fidelity of honest_lossy above that of {name}: AUROC {area:.3f}"
    yield ""
    bins = next(iter(report["sweep"].values()))["bins"]
    yield "replays: how many of its claims a liar tries on its published model before it speaks"
    yield (
        f"{'mci_minimal':18}{'replays':9}{'P5':20}"
        f"by env_entropy {' '.join(one['bin'] for one in bins)}"
    )
    for name, row in report["sweep"].items():
        budget = row["replays_before_speaking"]
        cliff = f"cliff: {row['cliff']['kind']} {row['cliff']['bin'] or ''}".rstrip()
        yield (
            f"{name:18}{'-' if budget is None else budget:<9}"
            f"{_with_interval(row['pass_rate']):20}{_curve(row['bins'])}; {cliff}"
        )
    yield ""
    yield from textwrap.wrap(report["limits"], _WIDTH)


def _with_interval(rate: Mapping[str, Any]) -> str:
    return f"{rate['value']:.2f} ({rate['low']:.2f}…{rate['high']:.2f})"


def _curve(bins: list[Mapping[str, Any]]) -> str:
    return " ".join(
        "-" if one["pass_rate"]["value"] is None else f"{one['pass_rate']['value']:.2f}"
        for one in bins
    )
