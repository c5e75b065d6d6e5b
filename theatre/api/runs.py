"""A theatre to its certificate, or on from where it stopped, and what came of it."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

from theatre.api.commitments import commit_named
from theatre.api.errors import InterruptedRunError
from theatre.api.event_loop import complete
from theatre.api.issuer_log import place_in_log
from theatre.api.run_log import sweep
from theatre.api.template_files import read_template, require_runnable
from theatre.api.theatre_run import RunOptions, run_theatre
from theatre.api.workspace import Workspace, utc_now
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.commitment import CommitmentProtocol
from theatre.engine.errors import NotFoundError, TheatreError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.replay import Progress, reasons_with_examples
from theatre.engine.replay.usage import tally_of
from theatre.engine.resolution import ProgrammeStatus
from theatre.engine.state_machine import TheatreState
from theatre.files.recorded_run import count_usage
from theatre.files.run_journal import recorded_results, results_in_order
from theatre.files.theatre_store import TheatreLease, TheatreView

_UNFINISHED = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE, TheatreState.SETTLING})
_LOG: Final = logging.getLogger(__name__)


def run_to_end(
    theatre_id: str,
    workspace: Workspace,
    options: RunOptions,
    on_progress: Callable[[Progress], None],
) -> None:
    """Run a theatre of the store to its end; errors as `run_theatre`.

    InterruptedRunError for one that was stopped from outside: it says how to go on.
    """

    def announce(held: TheatreLease) -> None:
        for name in held.journal.torn:
            _LOG.info("note: removed the unfinished end of %s", name)

    async def sweep_and_run() -> None:
        await sweep(at=utc_now(), running=theatre_id)
        await run_theatre(
            theatre_id, workspace, options, on_start=announce, on_progress=on_progress
        )

    try:
        complete(sweep_and_run())
    except (KeyboardInterrupt, asyncio.CancelledError) as interruption:
        view = workspace.store.view(theatre_id)
        if view.state in _UNFINISHED:
            raise InterruptedRunError(theatre_id, view.recorded) from interruption


def find_or_commit_theatre(target: str, workspace: Workspace, *, new: bool) -> str:
    """Return the id of `target`; a template file is committed, unless its theatre is unfinished."""
    path = Path(target)
    if path.is_file():
        return go_on_or_commit(read_template(path), path.parent, workspace, new=new)
    try:
        return workspace.store.view(target).theatre_id
    except NotFoundError as error:
        raise NotFoundError(f"{error}; no template file of that name either") from error


def go_on_or_commit(document: JsonObject, folder: Path, workspace: Workspace, *, new: bool) -> str:
    """Return the id of the unfinished theatre of a template, else that of a new one.

    `folder` is where its data paths begin. With `new` it is a new one in any case.
    """
    template = require_runnable(document)
    for view in () if new else committed_theatres(template.document, workspace):
        # A reproduction is never certified: it must not be gone on with in a run's place.
        if view.state not in _UNFINISHED or view.reproduces is not None:
            continue
        if view.template_folder != folder.resolve():
            _LOG.info(
                "the unfinished theatre %s began in %s: there it goes on; `echelon theatre cancel` "
                "ends it",
                view.theatre_id,
                view.template_folder,
            )
        else:
            _LOG.info(
                "going on with the unfinished theatre %s (--new starts another)", view.theatre_id
            )
            return view.theatre_id
    return commit_named(template, folder, workspace).theatre_id


def committed_theatres(document: JsonObject, workspace: Workspace) -> Iterator[TheatreView]:
    """Yield the theatres with this commitment, from any folder, the newest first."""
    wanted = CommitmentProtocol.hash_template(document)
    for theatre_id in reversed(workspace.store.theatre_ids()):
        view = workspace.store.view(theatre_id)
        if view.commitment_hash == wanted:
            yield view


# What came of a run, as data.


PENDING = "pending"
"""The outcome of a run that waits for people."""

_FROM_CERTIFICATE = (
    "certificate_id",
    "verification_tier",
    "expires_at",
    "scores",
    "composite_score",
    "results_hash",
    "episode_counts",
    "caps",
    "findings",
    "data_audit",
    "baselines",
    "usage",
)


def run_report(view: TheatreView) -> JsonObject:
    """Return what `run` and `show` print with `--json`; null for what is not there yet."""
    resolution = view.resolution or {}
    certified = resolution.get("outcome") == "certified"
    bundle = view.folder / bundle_name(view.theatre_id) if certified else None
    draft = view.drafts / view.theatre_id
    certificate = {} if bundle is None else parse_object((bundle / "certificate.json").read_bytes())
    found = view.failures.most_frequent()
    reasons = cast("list[JsonValue]", resolution.get("reasons", found))
    details = view.failures.details(reasons)
    seqs = [cast("int", detail["seq"]) for detail in details.values()]
    records = {one.seq: one.record.document for one in recorded_results(view.folder, seqs)}
    return {
        "theatre_id": view.theatre_id,
        "state": view.state.value,
        "commitment_hash": view.commitment_hash,
        "episodes_recorded": view.recorded,
        **_outcome(view),
        **{name: certificate.get(name) for name in _FROM_CERTIFICATE},
        "bundle_path": None if bundle is None else str(bundle.resolve()),
        "draft_path": str(draft.resolve()) if draft.is_dir() else None,
        "statuses": view.failures.statuses,
        "reasons": reasons_with_examples(reasons, details, records),
        "evidence_path": str(view.folder.resolve()),
    }


def logged_report(view: TheatreView) -> JsonObject:
    """Return the same with `log`: where the log has the run, and what became of the others.

    Null where the log does not have it, or cannot be read, which is a warning. `usage` is that of
    what is recorded where there is no certificate.
    """
    try:
        place = place_in_log(view.theatre_id, utc_now())
    except (TheatreError, OSError) as error:
        _LOG.warning("the log cannot be read: %s", error)
        place = None
    report = run_report(view)
    used = report["usage"] or _recorded_usage(view)
    return {**report, "usage": used, "log": place}


def _recorded_usage(view: TheatreView) -> JsonObject | None:
    tally = tally_of(view.template)
    return count_usage(tally, results_in_order(view.folder)) if tally is not None else None


def _outcome(view: TheatreView) -> JsonObject:
    """Return how the run ended; `pending` with the step where it waits for people."""
    if view.open_rubric is not None:
        return {
            "outcome": PENDING,
            "outcome_reason": f"{ProgrammeStatus.PENDING_HITL.value}:{view.open_rubric}",
            "error_detail": None,
        }
    resolution = view.resolution or {}
    return {name: resolution.get(name) for name in ("outcome", "outcome_reason", "error_detail")}
