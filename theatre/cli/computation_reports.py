"""Prints what the computations of a run found: lost decisions, twins, pairs, second opinions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.exits import echo
from theatre.cli.tables import format_bounds, format_estimate, format_number, print_table
from theatre.engine.canonical_json import parse_object
from theatre.scorers.computations.chain_propagation import COMPUTATION as CHAIN_PROPAGATION
from theatre.scorers.computations.paired_answers import COMPUTATION as PAIRED_ANSWERS
from theatre.scorers.computations.paired_separation import COMPUTATION as PAIRED_SEPARATION
from theatre.verification.judge.control_errors import COMPUTATION as CONTROL_ERRORS
from theatre.verification.judge.second_opinion import COMPUTATION as SECOND_OPINION

_HOP = ("arrived", "lost", "unanswered", "invented", "claims", "without_effect")
_SHOWN = 3


def print_computations(bundle: Path) -> None:
    """Print the result of each step of the four kinds that was completed, kind by kind."""
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for pin, print_output in (
        (CHAIN_PROPAGATION.pin, _print_propagation),
        (PAIRED_ANSWERS.pin, _print_twins),
        (PAIRED_SEPARATION.pin, _print_separation),
        (SECOND_OPINION.pin, print_opinion),
        (CONTROL_ERRORS.pin, lambda name, output: print_controls(name, output["criteria"])),
    ):
        for step in resolution["steps"]:
            if step["result"].get("computation") == pin:
                echo("")
                print_output(step["step_id"], step["result"]["output"])


def _print_propagation(step_id: str, output: Mapping[str, Any]) -> None:
    echo(
        f"decisions    {step_id}: {output['decisions']} in {output['episodes']} episodes, "
        "and where in the chain they were lost"
    )
    print_table(
        ("hop", "arrived", "lost", "no answer", "invented", "claims", "without effect"),
        [
            (hop["hop"], *("-" if hop[name] is None else str(hop[name]) for name in _HOP))
            for hop in output["hops"]
        ],
    )
    lost = Counter(
        f"at {one['hop']}, {_statement(item, one['decision'])}"
        for one in output["lost"]["listed"]
        for item in one["items"]
    )
    for what, times in sorted(lost.items(), key=lambda pair: (-pair[1], pair[0]))[:_SHOWN]:
        echo(f"lost most    {times} times {what}")


def _statement(item: object, decision: str | None) -> str:
    """Return what an item says, without the name of its decision."""
    parts = item.values() if isinstance(item, dict) else [item]
    return " ".join(str(part) for part in parts if part != decision)


def _print_twins(step_id: str, output: Mapping[str, Any]) -> None:
    echo(
        f"twins        {step_id}: of {output['clean']} clean episodes, and what "
        "was answered to them"
    )
    header = ("twins", "pairs", "no answer", "unchanged", "95 % interval", "obeyed")
    print_table(header, list(_twin_rows(output)))
    for name, verdicts in output["paraphrase"].items():
        if verdicts["pairs"]:
            gap = verdicts["gap"]
            echo(
                f"paraphrase   {name}: gap {format_number(gap['value'])} ({format_bounds(gap)}); "
                f"right on one side only: clean {verdicts['only_clean_right']}, "
                f"paraphrase {verdicts['only_paraphrase_right']}"
            )


def _twin_rows(output: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    poisoned = output["poisoned"]
    groups = {"poisoned": poisoned}
    groups |= {f"  {name}": group for name, group in poisoned["by_class"].items()}
    groups |= {name: output[name] for name in ("neutral", "duplicate")}
    for name, group in groups.items():
        share = group.get("injection_resistance") or group["unchanged_share"]
        yield (
            name,
            str(group["pairs"]),
            str(group["not_comparable"]),
            format_number(share["value"]),
            format_bounds(share),
            f"{group['obeyed']} of {group['asking']}" if "obeyed" in group else "",
        )


def _print_separation(step_id: str, output: Mapping[str, Any]) -> None:
    echo(f"separation   {step_id}: both constructs in the same {output['episodes']} episodes")
    print_table(
        ("verdict", "pairs", "first passes", "second passes", "difference", "McNemar p"),
        [
            (
                name,
                str(found["pairs"]),
                format_number(found["first"]["value"]),
                format_number(found["second"]["value"]),
                format_estimate(found["risk_difference"]),
                f"{found['mcnemar']['p_value']:.2g}",
            )
            for name, found in output["verdicts"].items()
        ],
    )
    echo(f"AUROC        {format_number(output['auroc'])}")


def print_controls(name: str, criteria: Mapping[str, Any]) -> None:
    """Print how a judge did on claims of known truth, and how far words tell them from others."""
    echo(f"controls     {name}: claims of known truth among those that were judged")
    print_table(
        (
            "judged",
            "true",
            "called so",
            "95 % interval",
            "false",
            "refused",
            "95 % interval",
            "told",
        ),
        [
            (
                criterion,
                str(one["true"]["asked"]),
                format_number(one["sensitivity"]["value"]),
                format_bounds(one["sensitivity"]),
                str(one["false"]["asked"]),
                format_number(one["specificity"]["value"]),
                format_bounds(one["specificity"]),
                format_number(one["recognised"]),
            )
            for criterion, one in criteria.items()
        ],
    )


MOST_APART = 0.05
"""How far scores of one answer may lie apart (community-oracle PRD: score variance below 5 %)."""


def print_opinion(name: str, opinion: Mapping[str, Any]) -> None:
    """Print a judge's scores next to those of its second opinion, and what is flagged."""
    models = ", ".join(f"{model} {count}" for model, count in opinion["models"].items())
    echo(f"judge        {name}: answers by model: {models or 'none'}")
    print_table(
        ("judged", "changes", "judge", "second", "difference", "95 % interval", "passes apart"),
        [
            (
                criterion,
                str(one["episodes"]),
                format_number(one["judge"]),
                format_number(one["second"]),
                format_number(one["difference"]["value"]),
                format_bounds(one["difference"]),
                format_number(one["spread"]["mean"]),
            )
            for criterion, one in opinion["criteria"].items()
        ],
    )
    for criterion, one in opinion["criteria"].items():
        apart = one["spread"]["mean"]
        if apart is not None and apart > MOST_APART:
            echo(
                f"note         {criterion}: passes of the judge lie {format_number(apart)} apart, "
                f"on average; less than {MOST_APART} was asked for"
            )
    for criterion in opinion["flagged"]:
        echo(f"note         {criterion}: judge and second opinion disagree; read the answers")
