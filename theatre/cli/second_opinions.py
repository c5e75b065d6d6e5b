"""A judge's scores beside those of its second opinion, by a step `second_opinion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.output import echo
from theatre.cli.tables import print_table
from theatre.engine.canonical_json import parse_object
from theatre.verification.judge.second_opinion import COMPUTATION

_HEADER = ("judged", "changes", "judge", "second", "difference", "95 % interval", "passes apart")


def print_second_opinions(bundle: Path) -> None:
    """Print, for each such step that was completed, both scores and what is flagged."""
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") != COMPUTATION.pin:
            continue
        output = step["result"]["output"]
        models = ", ".join(f"{name} {count}" for name, count in output["models"].items())
        echo("")
        echo(f"judge        {step['step_id']}: answers by model: {models or 'none'}")
        print_table(_HEADER, list(_rows(output["criteria"])))
        for name in output["flagged"]:
            echo(f"note         {name}: judge and second opinion disagree; read the answers")


def _rows(criteria: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for name, one in criteria.items():
        difference = one["difference"]
        bounds = "no interval"
        if difference["low"] is not None:
            bounds = f"{difference['low']:.3f} … {difference['high']:.3f}"
        yield (
            name,
            str(one["episodes"]),
            _number(one["judge"]),
            _number(one["second"]),
            _number(difference["value"]),
            bounds,
            _number(one["spread"]["mean"]),
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
