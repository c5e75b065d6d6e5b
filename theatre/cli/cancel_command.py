"""`echelon theatre cancel`: ends a theatre as void."""

from __future__ import annotations

import asyncio

import click

from theatre.cli.committing import utc_now
from theatre.cli.output import json_option, print_document
from theatre.cli.reports import print_run, run_report
from theatre.cli.workspace import Workspace
from theatre.engine.errors import InvalidTransitionError
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import CANCELLED

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
