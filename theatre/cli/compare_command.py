"""`echelon compare`: sealed verifications of several oracles on the same ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from theatre.cli.checking import require_consistent
from theatre.cli.comparison_report import print_comparison
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.pictures import differences, write_pictures
from theatre.cli.score_command import SealedRunFolder, find_recorded_run
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import NotFoundError
from theatre.verification.comparison.compare import compare_bundles
from theatre.verification.errors import NotComparableError


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
    picture = None if plot is None else _draw_differences(comparison, plot)
    if as_json:
        print_document(comparison | ({} if picture is None else {"plot": str(picture)}))
        return
    print_comparison(comparison)
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


def _draw_differences(comparison: JsonObject, folder: Path) -> Path:
    (path,) = write_pictures({"differences.svg": differences(comparison)}, folder)
    return path
