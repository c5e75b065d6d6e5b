"""`echelon theatre show`: how far a theatre is, and what it was certified for."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.output import echo, json_option, print_document
from theatre.cli.pictures import draw_bundle
from theatre.cli.reports import print_run, run_report
from theatre.cli.workspace import Workspace
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.files.theatre_store import TheatreView


@click.command()
@click.argument("theatre_id")
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw scores and calibration as SVG into this folder.",
)
@json_option
def show(theatre_id: str, *, plot: Path | None, as_json: bool) -> None:
    """Show the state of a theatre and, once it is resolved, its certificate."""
    workspace = Workspace.from_environment()
    view = workspace.store.view(workspace.store.begun_with(theatre_id))
    report = run_report(view)
    plots = None if plot is None else draw_bundle(_certified_bundle(view), plot)
    if as_json:
        print_document(report | ({} if plots is None else {"plots": [str(p) for p in plots]}))
        return
    print_run(report)
    for path in plots or ():
        echo(f"plot         {path}")


def _certified_bundle(view: TheatreView) -> Path:
    resolution = view.resolution or {}
    if resolution.get("outcome") == "certified":
        return view.folder / bundle_name(view.theatre_id)
    ended = f"{resolution['outcome']} ({resolution['outcome_reason']})" if resolution else None
    seen = f"its outcome is {ended}" if ended else f"it is {view.state}: run it to its end first"
    raise NotFoundError(
        f"expected a certificate of theatre {view.theatre_id} to draw, got none: {seen}"
    )
