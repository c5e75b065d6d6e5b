"""`echelon compare`: sealed verifications of several oracles on the same ground truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from theatre.api.workspace import Workspace
from theatre.cli.check_report import require_consistent
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.inspect_command import print_measures
from theatre.cli.pictures import differences, write_pictures
from theatre.cli.score_command import SealedRunFolder, find_recorded_run
from theatre.cli.tables import format_estimate, format_number, print_table
from theatre.engine.errors import NotFoundError
from theatre.engine.scoring import COMPOSITE
from theatre.verification.comparison.compare import compare_bundles
from theatre.verification.errors import NotComparableError
from theatre.verification.scoring_providers import LEXICAL


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw the differences with their intervals, as SVG into this folder.",
)
@json_option
def compare(runs: Sequence[str], *, plot: Path | None, as_json: bool) -> None:
    """Compare sealed verifications, change by change: a bundle, a folder, or a theatre id each.

    Every bundle is checked first. They have to be committed to the same ground truth, the same
    scorers and the same terms, and differ in the oracle alone.
    """
    workspace = Workspace.from_environment()
    bundles = [_bundle(run, workspace) for run in runs]
    for bundle in bundles:
        require_consistent(bundle, as_json=as_json, is_named=True)
    comparison = compare_bundles(bundles)
    picture = None
    if plot is not None:
        (picture,) = write_pictures({"differences.svg": differences(comparison)}, plot)
    if as_json:
        print_document(comparison | ({} if picture is None else {"plot": str(picture)}))
        return
    _print_comparison(comparison)
    if picture is not None:
        echo(f"plot         {picture}")


def _bundle(run: str, workspace: Workspace) -> Path:
    """Return the bundle that a user names.

    Raises NotFoundError for what is neither a folder nor a theatre, and NotComparableError for a
    run that is not sealed.
    """
    folder = Path(run)
    if not folder.is_dir() and run in workspace.store.theatre_ids():
        folder = workspace.store.view(run).folder
    if not folder.is_dir():
        raise NotFoundError(f"expected a folder or the id of a theatre, got {run:.200}")
    found = find_recorded_run(folder, workspace)
    if not isinstance(found, SealedRunFolder):
        raise NotComparableError(
            f"expected a sealed verification, got {folder} without an evidence bundle: run it to "
            "its end first"
        )
    return found.bundle


_EXACT = {"mcnemar": "McNemar", "sign_flip": "sign flip"}


def _print_comparison(comparison: Mapping[str, Any]) -> None:
    """Print the ranking, each pair's differences, and the confidence discipline of the oracles."""
    echo(f"ground truth {comparison['ground_truth_source']}, {comparison['changes']} changes")
    echo(f"scored by    {comparison['scoring_model']}, {comparison['methodology_version']}")
    by_words = comparison["scoring_model"] == LEXICAL.scorer_version
    print_measures(is_judged=not by_words)
    echo("")
    rank = "rank by words" if by_words else "rank"
    header = ("oracle", "tier", "scored", "composite", "on common changes", rank, "percentile")
    print_table(header, list(_run_rows(comparison)))
    common = comparison["ranking"][COMPOSITE]["changes"]
    echo(f"ranked on    the {common} changes that count for all of them")
    for pair in comparison["pairs"]:
        echo("")
        echo(f"pair         {pair['first']} minus {pair['second']}")
        print_table(
            (
                "measure",
                "changes",
                "difference",
                "95 % interval",
                "detectable",
                "test",
                "p",
                "p (Holm)",
            ),
            [_pair_row(name, one) for name, one in pair["measures"].items()],
        )
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
    rows = [
        (
            name,
            str(one["confident"]["claims"]),
            format_estimate(one["confident"]["share_wrong"]),
            str(one["tentative"]["claims"]),
            format_estimate(one["tentative"]["share_wrong"]),
            str(one["without_confidence"]),
        )
        for name, one in discipline.items()
        if one["reason"] is None
    ]
    if rows:
        header = ("oracle", "sure claims", "unsupported", "unsure claims", "unsupported")
        print_table((*header, "not stated"), rows)
    for name, one in discipline.items():
        if one["reason"] is not None:
            echo(f"confidence   {name}: {one['reason']}")
