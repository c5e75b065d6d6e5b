"""`echelon theatre list`: the theatres of the store, and how far each is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import click

from theatre.cli.exits import json_option, print_document
from theatre.cli.reports import run_report
from theatre.cli.tables import format_number, print_table
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import TheatreError
from theatre.files.theatre_store import FileTheatreStore

_SHORTEST = 8
"""So many characters of an id are shown, or as many as tell the ids apart."""

_OF_REPORT = (
    "state",
    "outcome",
    "outcome_reason",
    "verification_tier",
    "composite_score",
    "episodes_recorded",
    "commitment_hash",
)


@click.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the theatres here, oldest first, with how each ended or how far it is."""
    store = Workspace.from_environment().store
    theatres = [*_theatres(store)]
    if as_json:
        print_document({"theatres": theatres})
        return
    length = _telling_length([cast("str", one["theatre_id"]) for one in theatres])
    print_table(
        ("theatre", "template", "state", "result", "episodes", "composite"),
        [_row(one, length) for one in theatres],
    )


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
        _text(one["verification_tier"] or one["outcome_reason"] or one["outcome"]),
        _text(one["episodes_recorded"]),
        format_number(cast("float | None", one["composite_score"])),
    )


def _text(value: JsonValue) -> str:
    return "-" if value is None else str(value)


def _telling_length(ids: list[str]) -> int:
    """Return how many characters tell all ids apart, at least _SHORTEST."""
    length = _SHORTEST
    while len({one[:length] for one in ids}) < len(ids):
        length += 1
    return length
