"""How results look: one report as data, shown as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from theatre.cli.computation_reports import print_propagation, print_separation, print_twins
from theatre.cli.evidence_report import baseline_text, print_questions
from theatre.cli.exits import echo
from theatre.cli.tables import format_interval, format_number, print_table
from theatre.cli.verification_inspection import print_second_opinions
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.replay import reasons_with_examples
from theatre.engine.resolution import ProgrammeStatus
from theatre.engine.scoring import COMPOSITE
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
    certificate = {} if bundle is None else _document(bundle / "certificate.json")
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
        print_certificate(Path(bundle))
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


def print_certificate(bundle: Path) -> None:
    """Print the certificate in `bundle`: scores with intervals, counts, tier, what is missing."""
    certificate: dict[str, Any] = _document(bundle / "certificate.json")
    tier: dict[str, Any] = _document(bundle / "tier.json")
    aggregate: dict[str, Any] = _document(bundle / "scores" / "aggregate.json")
    echo(f"certificate  {certificate['certificate_id']}")
    echo(
        f"construct    {certificate['construct_id']} "
        f"@ {certificate['construct_version'][:12]} ({certificate['version_source']})"
    )
    _print_chain(certificate)
    echo(f"isolation    {describe_isolation(certificate['isolation'])}")
    echo(f"template     {certificate['template_id']}")
    echo(f"commitment   {certificate['commitment_hash']}")
    echo("")
    print_table(
        ("criterion", "score", "95 % interval", "scored", "failed", "best trivial answer"),
        _score_rows(certificate),
    )
    echo("")
    echo(_episode_line(certificate["episode_counts"]))
    print_questions(certificate["data_audit"], certificate["findings"])
    _print_calibration(aggregate["calibration"])
    _print_human(aggregate["human_scores"], bundle)
    _print_gaps(certificate["holdout_scores"])
    echo(f"tier         {certificate['verification_tier']}")
    _print_missing(tier["assessment"], certificate["caps"])
    echo(f"issued       {certificate['issued_at']} by {certificate['issuer']}")
    echo(f"expires      {certificate['expires_at'] or '- (UNVERIFIED has nothing to lose)'}")
    echo(f"results      {certificate['results_hash']}")
    echo(f"bundle       {shorten_path(bundle)}")
    print_propagation(bundle)
    print_twins(bundle)
    print_separation(bundle)
    print_second_opinions(bundle)


def describe_isolation(isolation: Mapping[str, Any]) -> str:
    """Return what was closed to a construct, what was open, and by what."""
    described = [
        f"{name} {'closed' if isolation[name] else 'OPEN'}"
        for name in ("files", "processes", "network")
    ]
    return f"{', '.join(described)} ({isolation['by']})"


def print_comparison(bundles: Mapping[str, Path]) -> None:
    """Print the scores of several constructs by the same criteria side by side, with intervals."""
    certificates: list[Mapping[str, Any]] = [
        _document(bundle / "certificate.json") for bundle in bundles.values()
    ]
    rows = [
        (name, *(_scored_cell(one["scores"][name], one, name) for one in certificates))
        for name in certificates[0]["criteria"]["criteria_ids"]
    ]
    rows.append(
        ("composite", *(_scored_cell(one[COMPOSITE], one, COMPOSITE) for one in certificates))
    )
    print_table(("criterion", *bundles), rows)


def print_violations(kind: str, violations: Sequence[Mapping[str, object]]) -> None:
    """Print errors or warnings, one a line."""
    for violation in violations:
        pointer = violation["pointer"] or "/"
        echo(f"{kind}: {pointer} [{violation['rule']}] {violation['detail']}")


def _score_rows(certificate: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for criterion in certificate["criteria"]["criteria_ids"]:
        counts = certificate["score_counts"][criterion]
        rows.append(
            (
                criterion,
                format_number(certificate["scores"][criterion]),
                format_interval(certificate["score_intervals"][criterion]),
                str(counts["scored"]),
                str(counts["missing"]),
                baseline_text(certificate["baselines"], criterion),
            )
        )
    composite = certificate["score_intervals"][COMPOSITE]
    rows.append(
        ("composite", format_number(certificate[COMPOSITE]), format_interval(composite), "", "", "")
    )
    return rows


def _scored_cell(score: float | None, certificate: Mapping[str, Any], name: str) -> str:
    interval = certificate["score_intervals"][name]
    if interval["low"] is None:
        return f"{format_number(score)} (no interval)"
    return f"{format_number(score)} ({interval['low']:.3f} … {interval['high']:.3f})"


def shorten_path(path: Path) -> Path:
    """Return `path` relative to the working folder where it lies inside it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _episode_line(counts: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {n}" for name, n in counts.items() if name != "total" and n)
    return f"episodes     {counts['total']}: {parts}"


def _print_calibration(calibration: Mapping[str, Any] | None) -> None:
    """Print the calibration of stated probabilities, if there are any."""
    if calibration is None or not calibration["probabilities"]:
        return
    ece = calibration["ece"]
    described = f"no ECE ({calibration['ece_reason']})"
    if ece is not None:
        null = f"{ece['expected_if_calibrated']:.3f} expected"
        limit = f"95 % below {ece['upper_95_if_calibrated']:.3f}"
        described = f"ECE {ece['value']:.3f} (if calibrated: {null}, {limit})"
    echo(f"calibration  Brier {calibration['brier_score']:.3f}, {described}")


def _print_chain(certificate: Mapping[str, Any]) -> None:
    """Print the other constructs of a chain, whose answers the scores depend on, too."""
    versions = certificate["construct_chain_versions"] or {}
    others = [
        f"{name} @ {version[:12]}"
        for name, version in versions.items()
        if name != certificate["construct_id"]
    ]
    if others:
        echo(f"with         {', '.join(others)}")


def _print_human(steps: Mapping[str, Any] | None, bundle: Path) -> None:
    """Print human scores next to machine scores, and the names of the scorers."""
    for step_id, one in (steps or {}).items():
        alpha = one["agreement"]
        agreed = alpha["reason"] if alpha["value"] is None else f"alpha {alpha['value']:.3f}"
        described = (
            f"{format_number(one['human'])} by {one['scorers']} on {one['items']} answers, {agreed}"
        )
        if one["share"] is not None:
            described += f"; share {one['share']:g} of {one['criterion_id']}"
            described += f", machine {format_number(one['machine'])}"
        echo(f"people       {step_id}: {described}")
        names = _names(bundle / "hitl" / f"{step_id}.jsonl")
        if names:
            echo(f"             they are {', '.join(names)}")


def _names(scores: Path) -> list[str]:
    """Return the names in a file of human scores, each once, as they were first written."""
    lines = scores.read_bytes().splitlines() if scores.is_file() else []
    names: dict[str, str] = {}
    for name in (str(parse_object(line)["scorer"]) for line in lines):
        names.setdefault(name.casefold(), name)
    return [*names.values()]


def _print_gaps(parts: Mapping[str, Any] | None) -> None:
    """Print a note for each score whose holdout gap is beyond sampling error."""
    for name, gap in (parts or {}).get("gap", {}).items():
        if gap["beyond_sampling_error"]:
            side = "above" if gap["difference"] > 0 else "below"
            echo(
                f"note         {name}: train part {abs(gap['difference']):.3f} {side} the holdout, "
                "beyond sampling error"
            )


def _print_missing(assessment: Mapping[str, Any], caps: Sequence[str]) -> None:
    """Print the requirements of the next tier that are missing, with the values seen."""
    for requirement in assessment["unmet"]:
        if requirement["code"] in caps:
            echo(
                f"  missing for {requirement['tier']}: {requirement['code']} "
                f"(seen: {requirement['seen']})"
            )


def _document(path: Path) -> JsonObject:
    return parse_object(path.read_bytes())
