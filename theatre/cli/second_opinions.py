"""Prints a judge's scores next to those of its second opinion, by a step `second_opinion`."""

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
        echo("")
        _print_opinion(step["step_id"], step["result"]["output"])


def print_certified_judge(judge: Mapping[str, Any]) -> None:
    """Print the member `judge` of a verification certificate."""
    temperature = judge["temperature"]
    taken = "no temperature" if temperature is None else f"temperature {temperature}"
    echo(f"judge        {judge['model']}, {taken}, passes of each answer: {judge['repeats']}")
    asked = ", ".join(f"{origin} {count}" for origin, count in judge["origins"].items())
    echo(f"asked at     {asked or 'none'}")
    if judge["second_opinion"] is None:
        echo("             no second opinion was completed")
        return
    _print_opinion("second opinion", judge["second_opinion"])


def _print_opinion(name: str, opinion: Mapping[str, Any]) -> None:
    models = ", ".join(f"{model} {count}" for model, count in opinion["models"].items())
    echo(f"judge        {name}: answers by model: {models or 'none'}")
    print_table(_HEADER, list(_rows(opinion["criteria"])))
    for criterion in opinion["flagged"]:
        echo(f"note         {criterion}: judge and second opinion disagree; read the answers")


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
