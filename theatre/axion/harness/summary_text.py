"""The summary of a suite as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from theatre.axion.kernel.probe_engine import FAIL

_READ_AS = {
    "pass_rate": "episodes passed",
    "p5_failure": "P5 failed, of episodes",
    "p5_challenge_failure": "P5 failed, of challenges",
    "p5_check_failure": "P5 failed, of single claims",
}


def summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield who passed and which probes failed whom, then each threshold with what was seen."""
    yield (
        f"{summary['episodes']} episodes of {summary['steps']} steps each, "
        f"{summary['interface_mode']}, seed {summary['seed']}"
    )
    probes = summary["probes"]
    yield (
        f"{'agent':20} {'passed':24}" + " ".join(f"{f'{one} {FAIL}':9}" for one in probes).rstrip()
    )
    for name, agent in summary["agents"].items():
        failed = [str(agent["probes"][probe]["failed"]) for probe in probes]
        counts = " ".join(f"{count:9}" for count in failed)
        yield f"{name:20} {_rate(agent['pass_rate']):24}{counts}".rstrip()
    for name, agent in summary["agents"].items():
        yield (
            f"{name:8} claims that are false: {_rate(agent['p5_check_failure'])} of the probed, "
            f"{_rate(agent['claims_failure'])} of all, {_rate(agent['worlds_failure'])} in worlds "
            "shown once more"
        )
    for held in summary["thresholds"]:
        read = _READ_AS[held["measure"]]
        yield (
            f"{held['agent']:8} {read:28} {held['relation']} {held['bound']:.2f}  "
            f"{_rate(held['rate']):22} {held['verdict']}"
        )


def _rate(rate: Mapping[str, Any]) -> str:
    if rate["value"] is None:
        return "-"
    return f"{rate['value']:.3f} ({rate['low']:.3f} … {rate['high']:.3f})"
