"""`echelon inspect`: a certificate as a table, and its reliability as a picture.

A verification certificate or that of a theatre; it is read, not checked.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from theatre.api.named_files import read_file
from theatre.cli.certificate_report import describe_counts
from theatre.cli.computation_reports import print_controls, print_opinion
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.pictures import claim_reliability, write_pictures
from theatre.cli.tables import (
    format_interval,
    format_number,
    format_tier,
    format_usage,
    print_table,
    tier_at,
)
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.certificate import CERTIFICATE_SCHEMA
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import COMPOSITE
from theatre.verification.certificate import SCHEMA, SCHEMA_VERSION
from theatre.verification.errors import NoVerificationError
from theatre.verification.scoring_providers import JUDGED_MEASURES, LEXICAL
from theatre.verification.template import CRITERIA

_SHOWN = 5


@click.command()
@click.argument("certificate", type=click.Path(path_type=Path))
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Draw how far stated confidence goes, as SVG into this folder.",
)
@json_option
def inspect(certificate: Path, *, plot: Path | None, as_json: bool) -> None:
    """Show CERTIFICATE, a verification certificate or that of a theatre.

    It is read, not checked: `echelon check` holds it against its evidence bundle.
    """
    document = parse_object(read_file(certificate, what="a certificate"))
    inspection = read_inspection(document)
    picture = None if plot is None else _draw_reliability(document, plot)
    if as_json:
        plot_at: JsonObject = {} if picture is None else {"plot": str(picture)}
        now = {"effective_tier": tier_at(document, datetime.now(UTC))}
        print_document(document | now | plot_at)
        return
    print_inspection(inspection)
    if picture is not None:
        echo(f"plot         {picture}")


def _draw_reliability(certificate: Mapping[str, Any], folder: Path) -> Path:
    calibration = certificate.get("claim_calibration")
    if not calibration or not calibration["stated"]:
        raise click.UsageError(
            "expected a verification certificate with claims whose confidence is stated to --plot, "
            "got one without"
        )
    (path,) = write_pictures({"reliability.svg": claim_reliability(certificate)}, folder)
    return path


class Inspection(NamedTuple):
    """What is shown of a certificate; `counts` are scored and failed replays by criterion."""

    certificate: Mapping[str, Any]
    is_verification: bool
    counts: Mapping[str, tuple[int, int]]


def read_inspection(document: JsonObject) -> Inspection:
    """Return a certificate as it is shown.

    Raises NoVerificationError, with the first violations, for a document that fits neither form.
    """
    is_verification = document.get("schema_version") == SCHEMA_VERSION
    name = SCHEMA if is_verification else CERTIFICATE_SCHEMA
    violations = SchemaRegistry().validate(name, document)
    if violations:
        listed = "; ".join(f"{v.pointer or '/'}: {v.detail}" for v in violations[:_SHOWN])
        more = len(violations) - _SHOWN
        raise NoVerificationError(
            f"expected a certificate that fits {name}, got: {listed[:1500]}"
            + (f"; and {more} more" if more > 0 else "")
        )
    counts = _count_replays(document) if is_verification else _count_episodes(document)
    return Inspection(certificate=document, is_verification=is_verification, counts=counts)


def _count_replays(document: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    found = {}
    for criterion in CRITERIA:
        # A failed replay has a number, 0, where the criterion applied.
        counted = [x for x in document["individual_scores"] if x[criterion] is not None]
        failed = sum(one["outcome"] == "missing" for one in counted)
        found[criterion] = (len(counted) - failed, failed)
    return found


def _count_episodes(document: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {
        name: (counts["scored"], counts["missing"])
        for name, counts in document["score_counts"].items()
    }


def print_inspection(inspection: Inspection) -> None:
    """Print who was measured, scores with intervals, calibration, and the tier with its caps."""
    certificate = inspection.certificate
    echo(f"certificate  {certificate['certificate_id']} ({certificate['schema_version']})")
    echo(
        f"construct    {certificate['construct_id']} @ {certificate['construct_version'][:12]} "
        f"({certificate['version_source']})"
    )
    if inspection.is_verification:
        echo(f"source       {certificate['ground_truth_source']}, {certificate['commit_range']}")
        echo(f"scored by    {certificate['scoring_model']}, {certificate['methodology_version']}")
    echo("")
    _print_scores(inspection)
    if inspection.is_verification:
        print_measures(is_judged=certificate["judge"] is not None)
    echo("")
    if inspection.is_verification:
        _print_replays(certificate)
    else:
        echo(f"episodes     {describe_counts(certificate['episode_counts'])}")
        if certificate.get("usage") is not None:
            echo(f"used         {format_usage(certificate['usage'])}")
    echo(f"tier         {format_tier(certificate, datetime.now(UTC))}")
    for cap in certificate["caps"]:
        echo(f"  missing    {cap}")
    # Of a verification of 0.2.0 and before there are none: its theatre certificate has them.
    for code in certificate.get("findings", ()):
        echo(f"finding      {code}")
    echo(f"expires      {certificate['expires_at'] or '-'}")
    if inspection.is_verification:
        named = certificate["theatre_certificate"]
        echo(f"in short of  certificate {named['certificate_id']}, SHA-256 {named['sha256']}")
    else:
        echo(f"results      {certificate['results_hash']}")


def _print_scores(inspection: Inspection) -> None:
    certificate = inspection.certificate
    intervals, scores = certificate["score_intervals"], certificate.get("scores", certificate)
    rows = [
        (name, format_number(scores[name]), format_interval(intervals[name]), *map(str, counts))
        for name, counts in inspection.counts.items()
    ]
    composite = (format_number(certificate[COMPOSITE]), format_interval(intervals[COMPOSITE]))
    rows.append(("composite", *composite, "", ""))
    print_table(("criterion", "score", "95 % interval", "scored", "failed"), rows)


def print_measures(*, is_judged: bool) -> None:
    """Print what the numbers are: their names say more than words alone can show."""
    measures = JUDGED_MEASURES if is_judged else LEXICAL.measures
    for criterion, measured in measures.items():
        echo(f"  {criterion}: {measured}")


def _print_replays(certificate: Mapping[str, Any]) -> None:
    outcomes = Counter(one["outcome"] for one in certificate["individual_scores"])
    shown = ", ".join(f"{name} {n}" for name, n in sorted(outcomes.items()))
    echo(f"replays      {shown}; {certificate['minimum_replays']} were asked for")
    brier, calibration = certificate["brier"], certificate["claim_calibration"]
    stated = "" if calibration is None else f", {calibration['stated']} claims with a confidence"
    described = certificate["brier_reason"] if brier is None else f"Brier {brier:.3f}"
    echo(f"confidence   {described}{stated}")
    if certificate["judge"] is not None:
        _print_judge(certificate["judge"])


def _print_panel(panel: Mapping[str, Any]) -> None:
    for criterion, found in (panel["agreement"] or {}).items():
        alpha = found["agreement"]
        value = alpha["reason"] if alpha["value"] is None else f"alpha {alpha['value']:.3f}"
        echo(
            f"agreement    {criterion}: {value}; of {found['items']} items judges differ about "
            f"{found['split_items']} ({panel['split']})"
        )


def _print_judge(judge: Mapping[str, Any]) -> None:
    temperature = judge["temperature"]
    taken = "no temperature" if temperature is None else f"temperature {temperature}"
    echo(f"judge        {judge['model']}, {taken}, passes of each answer: {judge['repeats']}")
    if "panel" in judge:
        _print_panel(judge["panel"])
    asked = ", ".join(f"{origin} {count}" for origin, count in judge["origins"].items())
    echo(f"asked at     {asked or 'none'}")
    if judge["second_opinion"] is None:
        echo("             no second opinion was completed")
    else:
        print_opinion("second opinion", judge["second_opinion"])
    if judge["controls"] is not None:
        print_controls("judge", judge["controls"])
