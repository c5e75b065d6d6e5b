"""`echelon theatre show`: how far a theatre is, and what it was certified for."""

from __future__ import annotations

from pathlib import Path

import click

from theatre.cli.output import echo, json_option, print_document
from theatre.cli.pictures import draw_pictures
from theatre.cli.reports import print_run, run_report
from theatre.cli.workspace import Workspace


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
    plots = None if plot is None else draw_pictures(view, plot, home=workspace.home)
    if as_json:
        print_document(report | ({} if plots is None else {"plots": [str(p) for p in plots]}))
        return
    print_run(report)
    for path in plots or ():
        echo(f"plot         {path}")
