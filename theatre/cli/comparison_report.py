"""A comparison of oracles as tables for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from theatre.cli.exits import echo
from theatre.cli.tables import format_number, print_table
from theatre.cli.verification_inspection import print_measures
from theatre.engine.scoring import COMPOSITE
from theatre.verification.scoring_providers import LEXICAL

_RUNS = ("oracle", "tier", "scored", "composite", "on common changes", "rank", "percentile")
_DISCIPLINE = (
    "oracle",
    "sure claims",
    "unsupported",
    "unsure claims",
    "unsupported",
    "not stated",
)
_PAIRS = (
    "measure",
    "changes",
    "difference",
    "95 % interval",
    "detectable",
    "test",
    "p",
    "p (Holm)",
)
_EXACT = {"mcnemar": "McNemar", "sign_flip": "sign flip"}


def print_comparison(comparison: Mapping[str, Any]) -> None:
    """Print the ranking, each pair's differences, and the confidence discipline of the oracles."""
    echo(f"ground truth {comparison['ground_truth_source']}, {comparison['changes']} changes")
    echo(f"scored by    {comparison['scoring_model']}, {comparison['methodology_version']}")
    by_words = comparison["scoring_model"] == LEXICAL.scorer_version
    print_measures(is_judged=not by_words)
    echo("")
    headings = [f"{one} by words" if by_words and one == "rank" else one for one in _RUNS]
    print_table(headings, list(_run_rows(comparison)))
    common = comparison["ranking"][COMPOSITE]["changes"]
    echo(f"ranked on    the {common} changes that count for all of them")
    for pair in comparison["pairs"]:
        echo("")
        echo(f"pair         {pair['first']} minus {pair['second']}")
        print_table(_PAIRS, [_pair_row(name, one) for name, one in pair["measures"].items()])
    echo("")
    _print_discipline(comparison)
    if by_words:
        echo("note         the words of the diff scored: a higher mean makes no better oracle")
    echo("note         a comparison is no certificate: each oracle has its own")


def _run_rows(comparison: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield a row a run, the best first."""
    runs, places = comparison["runs"], comparison["ranking"][COMPOSITE]["runs"]
    for name in sorted(runs, key=lambda one: places[one]["rank"] if places else 0):
        run = runs[name]
        rank, mean, percentile = "-", "-", "-"
        if places:
            place = places[name]
            rank = f"{place['rank']} of {place['of']}" + (" (tied)" if place["tied"] else "")
            mean, percentile = format_number(place["mean"]), f"{place['percentile']:.0f}"
        yield (
            name,
            run["verification_tier"],
            f"{run['replay_count']} of {comparison['changes']}",
            format_number(run["scores"][COMPOSITE]),
            mean,
            rank,
            percentile,
        )


def _pair_row(measure: str, one: Mapping[str, Any]) -> Sequence[str]:
    difference, test = one["difference"], one["test"]
    bounds = "no interval"
    if difference["low"] is not None:
        bounds = f"{difference['low']:+.3f} … {difference['high']:+.3f}"
    return (
        "composite" if measure == COMPOSITE else measure,
        str(one["changes"]),
        "-" if difference["value"] is None else f"{difference['value']:+.3f}",
        bounds,
        format_number(one["detectable"]),
        "-" if test is None else _EXACT[test["test"]],
        "-" if test is None else f"{test['p_value']:.2g}",
        "-" if test is None else f"{one['p_holm']:.2g}",
    )


def _print_discipline(comparison: Mapping[str, Any]) -> None:
    discipline = {name: run["confidence_discipline"] for name, run in comparison["runs"].items()}
    rows = [_discipline_row(name, one) for name, one in discipline.items() if one["reason"] is None]
    if rows:
        print_table(_DISCIPLINE, rows)
    for name, one in discipline.items():
        if one["reason"] is not None:
            echo(f"confidence   {name}: {one['reason']}")


def _discipline_row(name: str, discipline: Mapping[str, Any]) -> Sequence[str]:
    sure, unsure = discipline["confident"], discipline["tentative"]
    return (
        name,
        str(sure["claims"]),
        _wrong(sure),
        str(unsure["claims"]),
        _wrong(unsure),
        str(discipline["without_confidence"]),
    )


def _wrong(part: Mapping[str, Any]) -> str:
    share = part["share_wrong"]
    if share["value"] is None:
        return "-"
    bounds = "" if share["low"] is None else f" ({share['low']:.3f} … {share['high']:.3f})"
    return f"{share['value']:.3f}{bounds}"
