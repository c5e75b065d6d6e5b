"""`echelon theatre show`: how far a theatre is, and what it was certified for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from theatre.cli.committing import utc_now
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.pictures import draw_bundle
from theatre.cli.reports import print_run, run_report
from theatre.cli.workspace import Workspace
from theatre.engine.errors import InvalidTransitionError, NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import CANCELLED
from theatre.files.theatre_store import TheatreView

# `echelon theatre cancel`: ends a theatre as void.


_BEFORE_SETTLING = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE})


@click.command()
@click.argument("theatre_id")
@json_option
def cancel(theatre_id: str, *, as_json: bool) -> None:
    """End a theatre as void: one that is COMMITTED, was interrupted, or waits for people.

    Its construct is not called again, and it has no certificate. A run that goes on is stopped
    first, with Ctrl-C.
    """
    store = Workspace.from_environment().store
    with store.hold(theatre_id) as held:
        waits = store.view(theatre_id).open_rubric is not None
        if held.theatre.state not in _BEFORE_SETTLING and not waits:
            raise InvalidTransitionError(
                "expected a theatre that is COMMITTED, ACTIVE or waits for people, got one in "
                f"{held.theatre.state}"
            )
        _, events = held.theatre.end(at=utc_now(), outcome={**CANCELLED})
        asyncio.run(held.journal.note_together(events))
    report = run_report(store.view(theatre_id))
    if as_json:
        print_document(report)
    else:
        print_run(report)


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
