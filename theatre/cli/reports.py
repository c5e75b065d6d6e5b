"""The report of a run: as data, and as lines for a person."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from theatre.api.issuer_log import place_rows
from theatre.api.runs import PENDING
from theatre.cli.certificate_report import print_certificate, shorten_path
from theatre.cli.exits import echo
from theatre.cli.tables import (
    format_interval,
    format_number,
    format_usage,
    print_table,
    score_name,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import SchemaViolation


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
    if report["usage"] is not None:
        echo(f"used      {format_usage(cast('dict[str, Any]', report['usage']))}")
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
    for reason in cast("list[JsonObject]", report["reasons"]):
        example = cast("dict[str, str | None] | None", reason["example"])
        echo(f"failed    {reason['count']}x {reason['code']}")
        if example is not None:
            echo(f"          as {example['episode_id']}: {example['error_detail']}")
        if example is not None and example["stderr"]:
            echo(f"          stderr: {example['stderr']}")


def print_violations(kind: str, violations: Iterable[SchemaViolation]) -> None:
    """Print errors or warnings, one a line."""
    for one in violations:
        echo(f"{kind}: {one.pointer or '/'} [{one.rule}] {one.detail}")


def print_rehearsal(report: JsonObject, notes: Iterable[str]) -> None:
    """Print what `theatre.api.rehearsal` reports; `notes` stand below the scores."""
    document: Any = report
    rows = [
        (
            score_name(name),
            format_number(value),
            format_interval(document["score_intervals"][name]),
        )
        for name, value in document["scores"].items()
    ]
    print_table(("criterion", "score", "95 % interval"), rows)
    for note in notes:
        echo(f"note: {note}")
    counts = {name: count for name, count in document["episode_counts"].items() if count}
    echo("episodes   " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for one in document["first_failures"]:
        echo(f"failed     {one['episode_id']}: {one['status']}: {one['error_detail']}")
    if document["failures"] > len(document["first_failures"]):
        echo(f"           and {document['failures'] - len(document['first_failures'])} more")
    for code in document["findings"]:
        echo(f"finding    {code}")
    is_scored = document["episode_counts"]["scored"] > 0
    tier = document["would_be_tier"] if is_scored else "no certificate: nothing was scored"
    echo(f"would be   {tier}")
    for number, cap in enumerate(document["caps"]):
        echo(f"{'' if number else 'missing':11}{cap}")
    echo("a rehearsal: nothing is certified, and nothing is kept")
