"""Prints the results of `chain_propagation` steps: where decisions were lost in a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.output import echo
from theatre.cli.tables import print_table
from theatre.engine.canonical_json import parse_object
from theatre.scorers.computations.chain_propagation import COMPUTATION

_HEADER = ("hop", "arrived", "lost", "no answer", "invented", "claims", "without effect")
_MEMBERS = ("arrived", "lost", "unanswered", "invented", "claims", "without_effect")
_SHOWN = 3


def print_propagation(bundle: Path) -> None:
    """Print, for each such step that was completed, the table by hop and what was lost most."""
    for step_id, output in _outputs(bundle):
        echo("")
        echo(
            f"decisions    {step_id}: {output['decisions']} in {output['episodes']} episodes, "
            "and where in the chain they were lost"
        )
        rows = [(hop["hop"], *(_cell(hop[name]) for name in _MEMBERS)) for hop in output["hops"]]
        print_table(_HEADER, rows)
        lost = Counter(
            f"at {one['hop']}, {_statement(item, one['decision'])}"
            for one in output["lost"]["listed"]
            for item in one["items"]
        )
        for what, times in sorted(lost.items(), key=lambda pair: (-pair[1], pair[0]))[:_SHOWN]:
            echo(f"lost most    {times} times {what}")


def _outputs(bundle: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") == COMPUTATION.pin:
            yield step["step_id"], step["result"]["output"]


def _cell(count: int | None) -> str:
    return "-" if count is None else str(count)


def _statement(item: object, decision: str | None) -> str:
    """Return what an item says, without the name of its decision."""
    parts = item.values() if isinstance(item, dict) else [item]
    return " ".join(str(part) for part in parts if part != decision)
