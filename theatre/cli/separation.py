"""Prints the results of `paired_separation` steps: how far two constructs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.output import echo
from theatre.cli.tables import print_table
from theatre.engine.canonical_json import parse_object
from theatre.scorers.computations.paired_separation import COMPUTATION

_HEADER = ("verdict", "pairs", "first passes", "second passes", "difference", "McNemar p")


def print_separation(bundle: Path) -> None:
    """Print, for each such step that was completed, the table by verdict and the AUROC."""
    for step_id, output in _outputs(bundle):
        echo("")
        echo(f"separation   {step_id}: both constructs in the same {output['episodes']} episodes")
        rows = [_row(name, found) for name, found in output["verdicts"].items()]
        print_table(_HEADER, rows)
        area = output["auroc"]
        echo(f"AUROC        {'-' if area is None else f'{area:.3f}'}")


def _outputs(bundle: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") == COMPUTATION.pin:
            yield step["step_id"], step["result"]["output"]


def _row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    apart = found["risk_difference"]
    bounds = "" if apart["low"] is None else f" ({apart['low']:.3f} … {apart['high']:.3f})"
    return (
        name,
        str(found["pairs"]),
        _share(found["first"]["value"]),
        _share(found["second"]["value"]),
        f"{_share(apart['value'])}{bounds}",
        f"{found['mcnemar']['p_value']:.2g}",
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
