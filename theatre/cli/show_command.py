"""`echelon theatre list`, `show` and `cancel`: how far theatres are, and the end of one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click

from theatre.api.run_log import close_commitment
from theatre.api.runs import logged_report, run_report
from theatre.api.workspace import Workspace, utc_now
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.pictures import draw_bundle
from theatre.cli.reports import print_run
from theatre.cli.tables import format_number, format_tier, print_table
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import InvalidTransitionError, NotFoundError, TheatreError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import CANCELLED
from theatre.files.theatre_store import FileTheatreStore, TheatreView

_SHORTEST = 8
"""So many characters of an id are shown, or as many as tell the ids apart."""

_OF_REPORT = (
    "state",
    "outcome",
    "outcome_reason",
    "verification_tier",
    "expires_at",
    "composite_score",
    "episodes_recorded",
    "commitment_hash",
)


@click.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the theatres here, oldest first, with how each ended or how far it is."""
    theatres = [*_theatres(Workspace.from_environment().store)]
    if as_json:
        print_document({"theatres": theatres})
        return
    ids = [cast("str", one["theatre_id"]) for one in theatres]
    length = _SHORTEST
    while len({one[:length] for one in ids}) < len(ids):
        length += 1
    print_table(
        ("theatre", "template", "state", "result", "episodes", "composite"),
        [_row(one, length) for one in theatres],
    )
    # What changes a theatre takes no beginning of an id: it could be meant for another one.
    if theatres:
        note = "note: show has the whole id, which run, hitl, cancel and export need"
        click.echo(note, err=True)


def _theatres(store: FileTheatreStore) -> Iterator[JsonObject]:
    for theatre_id in store.theatre_ids():
        try:
            view = store.view(theatre_id)
            report = run_report(view)
        except (TheatreError, OSError) as error:
            # One damaged theatre does not hide the others.
            yield {"theatre_id": theatre_id, "error": str(error)}
            continue
        config = cast("JsonObject", view.template.get("product_theatre_config", {}))
        yield {
            "theatre_id": theatre_id,
            "template_id": view.template["theatre_id"],
            "construct_id": config.get("construct_under_test"),
            **{name: report[name] for name in _OF_REPORT},
        }


def _row(one: JsonObject, length: int) -> tuple[str, ...]:
    theatre_id = cast("str", one["theatre_id"])[:length]
    if "error" in one:
        return theatre_id, "-", "cannot be read", cast("str", one["error"]), "-", "-"
    return (
        theatre_id,
        _text(one["template_id"]),
        _text(one["state"]),
        format_tier(one, utc_now())
        if one["verification_tier"]
        else _text(one["outcome_reason"] or one["outcome"]),
        _text(one["episodes_recorded"]),
        format_number(cast("float | None", one["composite_score"])),
    )


def _text(value: JsonValue) -> str:
    return "-" if value is None else str(value)


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
    report = logged_report(view)
    plots = None if plot is None else draw_bundle(certified_bundle(view), plot)
    if as_json:
        print_document(report | ({} if plots is None else {"plots": [str(p) for p in plots]}))
        return
    print_run(report)
    for path in plots or ():
        echo(f"plot         {path}")


def certified_bundle(view: TheatreView) -> Path:
    """Return the bundle of a theatre; NotFoundError where it has no certificate."""
    resolution = view.resolution or {}
    if resolution.get("outcome") == "certified":
        return view.folder / bundle_name(view.theatre_id)
    ended = f"{resolution['outcome']} ({resolution['outcome_reason']})" if resolution else None
    seen = f"its outcome is {ended}" if ended else f"it is {view.state}: run it to its end first"
    raise NotFoundError(f"expected a certificate of theatre {view.theatre_id}, got none: {seen}")


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
        if held.theatre.state not in {TheatreState.COMMITTED, TheatreState.ACTIVE} and not waits:
            raise InvalidTransitionError(
                "expected a theatre that is COMMITTED, ACTIVE or waits for people, got one in "
                f"{held.theatre.state}"
            )
        _, events = held.theatre.end(at=utc_now(), outcome={**CANCELLED})
        asyncio.run(held.journal.note_together(events))
        asyncio.run(close_commitment(store.view(theatre_id)))
    report = logged_report(store.view(theatre_id))
    if as_json:
        print_document(report)
    else:
        print_run(report)
