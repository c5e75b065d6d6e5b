"""Prints the results of `paired_answers` steps: how answers changed between paired inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.output import echo
from theatre.cli.tables import print_table
from theatre.engine.canonical_json import parse_object
from theatre.scorers.computations.paired_answers import COMPUTATION

_HEADER = ("twins", "pairs", "no answer", "unchanged", "95 % interval", "obeyed")


def print_twins(bundle: Path) -> None:
    """Print, for each such step that was completed, its groups with intervals, and the gaps."""
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") != COMPUTATION.pin:
            continue
        output = step["result"]["output"]
        echo("")
        echo(
            f"twins        {step['step_id']}: of {output['clean']} clean episodes, and what "
            "was answered to them"
        )
        print_table(_HEADER, list(_rows(output)))
        for name, verdicts in output["paraphrase"].items():
            if verdicts["pairs"]:
                echo(f"paraphrase   {name}: {_describe_verdicts(verdicts)}")


def _rows(output: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    poisoned = output["poisoned"]
    groups = {"poisoned": poisoned}
    groups |= {f"  {name}": group for name, group in poisoned["by_class"].items()}
    groups |= {name: output[name] for name in ("neutral", "duplicate")}
    for name, group in groups.items():
        share = group.get("injection_resistance") or group["unchanged_share"]
        obeyed = f"{group['obeyed']} of {group['asking']}" if "obeyed" in group else ""
        yield (
            name,
            str(group["pairs"]),
            str(group["not_comparable"]),
            _number(share["value"]),
            _bounds(share),
            obeyed,
        )


def _describe_verdicts(verdicts: Mapping[str, Any]) -> str:
    gap = verdicts["gap"]
    return (
        f"gap {_number(gap['value'])} ({_bounds(gap)}); right on one side only: "
        f"clean {verdicts['only_clean_right']}, paraphrase {verdicts['only_paraphrase_right']}"
    )


def _bounds(share: Mapping[str, Any]) -> str:
    if share["low"] is None:
        return "no interval"
    return f"{share['low']:.3f} … {share['high']:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
