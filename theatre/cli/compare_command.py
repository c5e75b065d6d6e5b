"""`echelon compare`: sealed runs of several constructs on one dataset."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from theatre.api.workspace import Workspace
from theatre.cli.check_report import require_consistent
from theatre.cli.exits import echo, json_option, print_document, require_extras
from theatre.cli.inspect_command import print_measures
from theatre.cli.pictures import differences, write_pictures
from theatre.cli.report_command import write_page
from theatre.cli.score_command import SealedRunFolder, find_recorded_run
from theatre.cli.tables import (
    format_estimate,
    format_number,
    format_p,
    format_tier,
    print_table,
    score_name,
    tier_at,
)
from theatre.engine.comparison import compare_bundles
from theatre.engine.errors import NotComparableError, NotFoundError
from theatre.engine.scoring import COMPOSITE
from theatre.verification.confidence_discipline import read_confidence_discipline

_FLIPS = 5


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--flips",
    type=click.IntRange(0),
    default=_FLIPS,
    show_default=True,
    help="List so many episodes a criterion whose scores differ; --json has all of them.",
)
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw the differences with their intervals, as SVG into this folder.",
)
@click.option(
    "--report",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page for people, as one file: differences, and no ranks.",
)
@json_option
def compare(
    runs: Sequence[str], *, flips: int, plot: Path | None, page: Path | None, as_json: bool
) -> None:
    """Compare sealed runs of one dataset: a bundle, a folder, or a theatre id each.

    Every bundle is checked first. They must be committed to the same dataset, the same scorers and
    the same terms, and differ in the construct alone. Runs are paired episode by episode;
    interactive ones only where they were played in the same worlds, else they are two samples.
    """
    if page is not None:
        require_extras("pages")
    workspace = Workspace.from_environment()
    bundles = [_bundle(run, workspace) for run in runs]
    for bundle in bundles:
        require_consistent(bundle, as_json=as_json, is_named=True)
    comparison: dict[str, Any] = compare_bundles(bundles)
    now = datetime.now(UTC)
    for run, bundle in zip(comparison["runs"].values(), bundles, strict=True):
        run["effective_tier"] = tier_at(run, now)
        run["confidence_discipline"] = read_confidence_discipline(bundle)
    picture = None
    if plot is not None:
        (picture,) = write_pictures({"differences.svg": differences(comparison)}, plot)
    if page is not None:
        from theatre.pages.comparison_page import render_comparison_file  # noqa: PLC0415 - only with the extra

        write_page(render_comparison_file(comparison), page)
    if as_json:
        print_document(comparison | ({} if picture is None else {"plot": str(picture)}))
        return
    _print_comparison(comparison, flips, now)
    if picture is not None:
        echo(f"plot         {picture}")


def _bundle(run: str, workspace: Workspace) -> Path:
    """Return the bundle that a user names.

    Raises NotFoundError for what is neither a folder nor a theatre, and NotComparableError for a
    run that is not sealed.
    """
    folder = Path(run)
    theatre_id = run if folder.is_dir() else workspace.store.begun_with(run)
    if theatre_id in workspace.store.theatre_ids():
        folder = workspace.store.folder(theatre_id)
    if not folder.is_dir():
        raise NotFoundError(f"expected a folder or the id of a theatre, got {run:.200}")
    found = find_recorded_run(folder, workspace)
    if not isinstance(found, SealedRunFolder):
        raise NotComparableError(
            f"expected a sealed run, got {folder} without an evidence bundle: run it to its end "
            "first (echelon theatre run, echelon verify --resume)"
        )
    return found.bundle


_TESTS = {
    "mcnemar": "McNemar",
    "sign_flip": "sign flip",
    "sign_flip_clt": "sign flip",
    "fisher": "Fisher",
    "permutation": "permutation",
    "permutation_clt": "permutation",
}
_HEADER = ("measure", "episodes", "difference", "95 % interval", "detectable", "test", "p")


def _print_comparison(comparison: Mapping[str, Any], flips: int, now: datetime) -> None:
    source = comparison["ground_truth_source"]
    echo(f"dataset      {comparison['dataset_hash']} ({source}), {comparison['episodes']} episodes")
    scorers = ", ".join(f"{name}@{version}" for name, version in comparison["scorers"].items())
    echo(f"scored by    {scorers}")
    verified = [run["confidence_discipline"] for run in comparison["runs"].values()]
    by_words = set(comparison["scorer_kinds"].values()) == {"textual"}
    if any(verified):
        print_measures(is_judged=not by_words)
    echo("")
    rank = "rank by words" if by_words else "rank"
    header = ("construct", "tier", "scored", "composite", "on common episodes", rank, "percentile")
    print_table(header, list(_run_rows(comparison, now)))
    common = comparison["ranking"][COMPOSITE]["episodes"]
    echo(f"ranked on    the {common} episodes that count for all of them")
    for name, run in comparison["runs"].items():
        # Those on a criterion: those on the data are the same for all.
        for code in run["findings"]:
            if ":" in code:
                echo(f"finding      {name}: {code}")
    for pair in comparison["pairs"]:
        _print_pair(pair, flips)
    echo("")
    _print_discipline(comparison)
    _print_notes(comparison, by_words=by_words)


def _run_rows(comparison: Mapping[str, Any], now: datetime) -> Iterator[Sequence[str]]:
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
            format_tier(run, now),
            f"{run['replay_count']} of {comparison['episodes']}",
            format_number(run["scores"][COMPOSITE]),
            mean,
            rank,
            percentile,
        )


def _print_pair(pair: Mapping[str, Any], flips: int) -> None:
    first, second, measures = pair["first"], pair["second"], pair["measures"]
    echo("")
    echo(f"pair         {first} minus {second}")
    if not pair["is_paired"]:
        echo("             two samples: played under different coins, so in different worlds")
    rows = [_pair_row(name, one) for name, one in measures.items()]
    print_table((*_HEADER, "p (Holm)"), rows)
    left, failed = measures[COMPOSITE]["left_out"], measures[COMPOSITE]["failed"]
    if any(left.values()):
        echo(
            f"left out     {left['first']} that count for {second} alone, {left['second']} for "
            f"{first} alone, {left['both']} for neither (composite)"
        )
        worst = measures[COMPOSITE]["at_worst"]
        if worst is not None:
            bounds = f"{worst['low']:+.3f} … {worst['high']:+.3f}"
            echo(f"at worst     {bounds}, with each gap as 0 or as 1")
    if any(failed.values()):
        echo(f"failed       {failed['first']} and {failed['second']} episodes, counted 0")
    for name, one in measures.items():
        _print_flips(name, one["flips"], flips)


def _pair_row(measure: str, one: Mapping[str, Any]) -> Sequence[str]:
    difference, test, counted = one["difference"], one["test"], one["counted"]
    bounds = "no interval"
    if difference["low"] is not None:
        bounds = f"{difference['low']:+.3f} … {difference['high']:+.3f}"
    count = str(counted["first"])
    return (
        score_name(measure),
        count if one["is_paired"] else f"{count} and {counted['second']}",
        "-" if difference["value"] is None else f"{difference['value']:+.3f}",
        bounds,
        format_number(one["detectable"]),
        "-" if test is None else _TESTS[test["test"]],
        "-" if test is None else format_p(test["p_value"]),
        "-" if test is None else format_p(one["p_holm"]),
    )


def _print_flips(measure: str, flips: Sequence[Mapping[str, Any]], most: int) -> None:
    """Print the episodes whose scores differ, the farthest first; of withheld ones the id alone."""
    if not flips:
        return
    up = sum(one["first"] > one["second"] for one in flips)
    echo(f"flipped      {measure}: {up} for the first, {len(flips) - up} for the second")
    for one in flips[:most]:
        failed = [side for side in ("first", "second") if one[f"{side}_outcome"] == "missing"]
        notes = [f"failed in the {side}" for side in failed]
        notes += ["withheld"] if one["is_withheld"] else []
        words = f" ({', '.join(notes)})" if notes else ""
        echo(f"  {one['episode_id']}  {one['first']:.3f} → {one['second']:.3f}{words}")
    if len(flips) > most > 0:
        echo(f"  … {len(flips) - most} more: --flips {len(flips)}")


def _print_notes(comparison: Mapping[str, Any], *, by_words: bool) -> None:
    if comparison["clusters"]:
        echo(f"note         {comparison['clusters']} clusters, not episodes, count as independent")
    if comparison["people_have_a_share"]:
        echo("note         people's share of the scores is in no difference: the machine's part is")
    withheld = sum(run["withheld"] > 0 for run in comparison["runs"].values())
    if withheld:
        echo(f"note         {withheld} runs withhold episodes: only their issuers computed those")
    if by_words:
        echo("note         words were scored: a higher mean makes no better construct")
    echo("note         a comparison is no certificate: each construct has its own")


def _print_discipline(comparison: Mapping[str, Any]) -> None:
    discipline = {
        name: run["confidence_discipline"]
        for name, run in comparison["runs"].items()
        if run["confidence_discipline"] is not None
    }
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
