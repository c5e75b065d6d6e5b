"""Prints the results of `chain_propagation` steps: where decisions were lost in a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.exits import echo
from theatre.cli.tables import print_table
from theatre.engine.canonical_json import parse_object
from theatre.scorers.computations.chain_propagation import COMPUTATION as CHAIN_PROPAGATION
from theatre.scorers.computations.paired_answers import COMPUTATION as PAIRED_ANSWERS
from theatre.scorers.computations.paired_separation import COMPUTATION as PAIRED_SEPARATION

_PROPAGATION_HEADER = (
    "hop",
    "arrived",
    "lost",
    "no answer",
    "invented",
    "claims",
    "without effect",
)
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
        print_table(_PROPAGATION_HEADER, rows)
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
        if step["result"].get("computation") == CHAIN_PROPAGATION.pin:
            yield step["step_id"], step["result"]["output"]


def _cell(count: int | None) -> str:
    return "-" if count is None else str(count)


def _statement(item: object, decision: str | None) -> str:
    """Return what an item says, without the name of its decision."""
    parts = item.values() if isinstance(item, dict) else [item]
    return " ".join(str(part) for part in parts if part != decision)


# Prints the results of `paired_separation` steps: how far two constructs differ.


_SEPARATION_HEADER = (
    "verdict",
    "pairs",
    "first passes",
    "second passes",
    "difference",
    "McNemar p",
)


def print_separation(bundle: Path) -> None:
    """Print, for each such step that was completed, the table by verdict and the AUROC."""
    for step_id, output in _separation_outputs(bundle):
        echo("")
        echo(f"separation   {step_id}: both constructs in the same {output['episodes']} episodes")
        rows = [_row(name, found) for name, found in output["verdicts"].items()]
        print_table(_SEPARATION_HEADER, rows)
        area = output["auroc"]
        echo(f"AUROC        {'-' if area is None else f'{area:.3f}'}")


def _separation_outputs(bundle: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") == PAIRED_SEPARATION.pin:
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


# Prints the results of `paired_answers` steps: how answers changed between paired inputs.


_PAIRS_HEADER = ("twins", "pairs", "no answer", "unchanged", "95 % interval", "obeyed")


def print_twins(bundle: Path) -> None:
    """Print, for each such step that was completed, its groups with intervals, and the gaps."""
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") != PAIRED_ANSWERS.pin:
            continue
        output = step["result"]["output"]
        echo("")
        echo(
            f"twins        {step['step_id']}: of {output['clean']} clean episodes, and what "
            "was answered to them"
        )
        print_table(_PAIRS_HEADER, list(_rows(output)))
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
