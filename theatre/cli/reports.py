"""The report of a run: as data, and as lines for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from theatre.cli.certificate_report import print_certificate, shorten_path
from theatre.cli.exits import echo
from theatre.cli.issuer_log import place_in_log, place_rows
from theatre.cli.workspace import utc_now
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import TheatreError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.replay import reasons_with_examples
from theatre.engine.resolution import ProgrammeStatus
from theatre.files.run_journal import recorded_results
from theatre.files.theatre_store import TheatreView

PENDING = "pending"
"""The outcome of a run that waits for people."""

_FROM_CERTIFICATE = (
    "certificate_id",
    "verification_tier",
    "scores",
    "composite_score",
    "results_hash",
    "episode_counts",
    "caps",
    "findings",
    "data_audit",
    "baselines",
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

    Null where the log does not have it, or cannot be read, which is a warning.
    """
    try:
        place = place_in_log(view.theatre_id, utc_now())
    except (TheatreError, OSError) as error:
        echo(f"warning: the log cannot be read: {error}", err=True)
        place = None
    return {**run_report(view), "log": place}


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


def print_run(report: JsonObject) -> None:
    """Print the report of a run for a person."""
    bundle = report["bundle_path"]
    if isinstance(bundle, str):
        print_certificate(Path(bundle), rows=place_rows(report.get("log")))
        _print_reasons(report)
        return
    echo(f"theatre   {report['theatre_id']}")
    echo(f"state     {report['state']}")
    echo(f"recorded  {report['episodes_recorded']} episodes")
    if report["outcome"] is not None:
        echo(f"outcome   {report['outcome']} ({report['outcome_reason']})")
        if report["error_detail"] is not None:
            echo(f"because   {report['error_detail']}")
        if report["draft_path"] is not None:
            echo(f"draft     echelon check {shorten_path(Path(str(report['draft_path'])))}")
        counts = cast("dict[str, int]", report["statuses"])
        echo(f"answers   {', '.join(f'{count} {status}' for status, count in counts.items())}")
        _print_reasons(report)
        echo(f"evidence  {shorten_path(Path(cast('str', report['evidence_path'])))}")
    for name, text in place_rows(report.get("log")):
        echo(f"{name:9} {text}")
    if report["outcome"] == PENDING:
        echo(f"next      echelon theatre hitl {report['theatre_id']}: people score, by its rubric")
        echo(f"then      echelon theatre run {report['theatre_id']}")


def _print_reasons(report: JsonObject) -> None:
    """Print what went wrong most often, with an example of each."""
    for reason in cast("list[JsonObject]", report["reasons"]):
        example = cast("dict[str, str | None] | None", reason["example"])
        echo(f"failed    {reason['count']}x {reason['code']}")
        if example is not None:
            echo(f"          as {example['episode_id']}: {example['error_detail']}")
        if example is not None and example["stderr"]:
            echo(f"          stderr: {example['stderr']}")


def print_violations(kind: str, violations: Sequence[Mapping[str, object]]) -> None:
    """Print errors or warnings, one a line."""
    for violation in violations:
        pointer = violation["pointer"] or "/"
        echo(f"{kind}: {pointer} [{violation['rule']}] {violation['detail']}")
