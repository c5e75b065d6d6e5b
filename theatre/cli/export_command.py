"""`echelon theatre export`: the training records of a run; the first export archives it."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from theatre.api.workspace import Workspace, utc_now
from theatre.cli.exits import echo, json_option, print_document
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import InvalidTransitionError, NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.rlmf_export import RlmfExport
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.state_machine import TheatreState
from theatre.files.durable import sync_folder
from theatre.files.theatre_store import FileTheatreStore, TheatreView
from theatre.harness.every_eval_ever import EveryEvalEverExport
from theatre.verification.certificate import training_calibration

EXPORTS = {"rlmf": RlmfExport}
"""Format → what writes it."""

EVERY_EVAL_EVER = "every-eval-ever"

EXPORTABLE = frozenset({TheatreState.RESOLVED, TheatreState.ARCHIVED})


@click.command()
@click.argument("theatre_id")
@click.option(
    "--format",
    "export_format",
    type=click.Choice([*sorted(EXPORTS), EVERY_EVAL_EVER]),
    default="rlmf",
    show_default=True,
    help="rlmf: a training record a line (docs/rlmf.md); the other: two files, below --out.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write to this file, not to stdout; for every-eval-ever to this folder.",
)
@json_option
def export(theatre_id: str, export_format: str, out: Path | None, *, as_json: bool) -> None:
    """Export a theatre that is RESOLVED with a certificate; rlmf archives it.

    Later exports give the same bytes. --json needs --out: the records are not one document.
    """
    if export_format == EVERY_EVAL_EVER:
        _export_for_others(theatre_id, out, as_json=as_json)
        return
    if as_json and out is None:
        raise click.UsageError("expected --out FILE with --json: stdout would be the records")
    store = Workspace.from_environment().store
    report = asyncio.run(_export(store, theatre_id, export_format, out))
    if as_json:
        print_document(report)
        return
    # Not among the records.
    for name in ("theatre_id", "state", "records", "not_run", "export_sha256"):
        echo(f"{name.removesuffix('_id'):13}  {report[name]}", err=out is None)


def _export_for_others(theatre_id: str, out: Path | None, *, as_json: bool) -> None:
    if out is None:
        raise click.UsageError("expected --out FOLDER: there are two files")
    store = Workspace.from_environment().store
    view = store.view(theatre_id)
    _require_certified(view)
    report = EveryEvalEverExport(view.folder / bundle_name(view.theatre_id)).write(out)
    if as_json:
        print_document({"theatre_id": view.theatre_id, **report})
        return
    for name, value in report.items():
        echo(f"{name:13}  {value}")


async def _export(
    store: FileTheatreStore, theatre_id: str, export_format: str, out: Path | None
) -> JsonObject:
    """Write the export, then archive: a theatre is never ARCHIVED without one."""
    with store.hold(theatre_id) as held:
        view = store.view(theatre_id)
        _require_certified(view)
        exported_at = parse_rfc3339(view.archived_at) if view.archived_at else utc_now()
        bundle = held.folder / bundle_name(view.theatre_id)
        records = EXPORTS[export_format](
            bundle, SchemaRegistry(), exported_at=exported_at, calibration=training_calibration
        )
        with _destination(out) as target:
            for line in records.lines():
                target.write(line)
        summary = records.summary().as_document()
        if view.archived_at is None:
            _, event = held.theatre.archive(at=exported_at, detail=summary)
            await held.journal.note(event)
    state = TheatreState.ARCHIVED.value
    path = None if out is None else str(out)
    return {"theatre_id": view.theatre_id, "state": state, **summary, "out": path}


def _require_certified(view: TheatreView) -> None:
    if view.state not in EXPORTABLE:
        raise InvalidTransitionError(
            f"expected a theatre that is RESOLVED, got {view.theatre_id} in {view.state}: "
            "there is nothing to export before its end"
        )
    outcome = (view.resolution or {}).get("outcome")
    if outcome != "certified":
        raise NotFoundError(
            f"expected an evidence bundle of theatre {view.theatre_id}, got none: its outcome is "
            f"{outcome} ({(view.resolution or {}).get('outcome_reason')})"
        )


@contextlib.contextmanager
def _destination(out: Path | None) -> Iterator[IO[bytes]]:
    """Open stdout, or a draft that is renamed to `out` once all of it is durable."""
    if out is None:
        with click.open_file("-", "wb") as stdout:
            yield stdout
            # The reader closed the pipe and did not get the whole export.
            stdout.flush()
        return
    draft = out.with_name(f".{out.name}.partial")
    try:
        with draft.open("wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(out.parent)
