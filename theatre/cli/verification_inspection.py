"""A verification certificate, or a theatre certificate, as a table for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theatre.cli.exits import echo
from theatre.cli.tables import format_interval, format_number, print_table
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.certificate import CERTIFICATE_SCHEMA
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import COMPOSITE
from theatre.verification.certificate import SCHEMA, SCHEMA_VERSION
from theatre.verification.errors import NoVerificationError
from theatre.verification.judge.second_opinion import COMPUTATION
from theatre.verification.scoring_providers import JUDGED_MEASURES, LEXICAL
from theatre.verification.template import CRITERIA

# Prints a judge's scores next to those of its second opinion, by a step `second_opinion`.


_HEADER = ("judged", "changes", "judge", "second", "difference", "95 % interval", "passes apart")


def print_second_opinions(bundle: Path) -> None:
    """Print, for each such step that was completed, both scores and what is flagged."""
    resolution: Mapping[str, Any] = parse_object((bundle / "resolution.json").read_bytes())
    for step in resolution["steps"]:
        if step["result"].get("computation") != COMPUTATION.pin:
            continue
        echo("")
        _print_opinion(step["step_id"], step["result"]["output"])


def print_certified_judge(judge: Mapping[str, Any]) -> None:
    """Print the member `judge` of a verification certificate."""
    temperature = judge["temperature"]
    taken = "no temperature" if temperature is None else f"temperature {temperature}"
    echo(f"judge        {judge['model']}, {taken}, passes of each answer: {judge['repeats']}")
    asked = ", ".join(f"{origin} {count}" for origin, count in judge["origins"].items())
    echo(f"asked at     {asked or 'none'}")
    if judge["second_opinion"] is None:
        echo("             no second opinion was completed")
        return
    _print_opinion("second opinion", judge["second_opinion"])


def _print_opinion(name: str, opinion: Mapping[str, Any]) -> None:
    models = ", ".join(f"{model} {count}" for model, count in opinion["models"].items())
    echo(f"judge        {name}: answers by model: {models or 'none'}")
    print_table(_HEADER, list(_opinion_rows(opinion["criteria"])))
    for criterion in opinion["flagged"]:
        echo(f"note         {criterion}: judge and second opinion disagree; read the answers")


def _opinion_rows(criteria: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for name, one in criteria.items():
        difference = one["difference"]
        bounds = "no interval"
        if difference["low"] is not None:
            bounds = f"{difference['low']:.3f} … {difference['high']:.3f}"
        yield (
            name,
            str(one["episodes"]),
            _number(one["judge"]),
            _number(one["second"]),
            _number(difference["value"]),
            bounds,
            _number(one["spread"]["mean"]),
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


Counts = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is shown of a certificate; `counts` are scored and failed replays by criterion."""

    certificate: Mapping[str, Any]
    is_verification: bool
    counts: Mapping[str, Counts]


def read_inspection(document: JsonObject) -> Inspection:
    """Return a certificate as it is shown.

    Raises NoVerificationError, with every violation, for a document that fits neither form.
    """
    is_verification = document.get("schema_version") == SCHEMA_VERSION
    name = SCHEMA if is_verification else CERTIFICATE_SCHEMA
    violations = SchemaRegistry().validate(name, document)
    if violations:
        listed = "; ".join(f"{v.pointer}: {v.detail}" for v in violations)
        raise NoVerificationError(f"expected a certificate that fits {name}, got: {listed[:1500]}")
    counts = _of_replays(document) if is_verification else _of_theatre(document)
    return Inspection(certificate=document, is_verification=is_verification, counts=counts)


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
    print_table(("criterion", "score", "95 % interval", "scored", "failed"), _rows(inspection))
    if inspection.is_verification:
        print_measures(is_judged=certificate["judge"] is not None)
    echo("")
    if inspection.is_verification:
        _print_replays(certificate)
    else:
        echo(f"episodes     {certificate['replay_count']} scored")
    echo(f"tier         {certificate['verification_tier']}")
    for cap in certificate["caps"]:
        echo(f"  missing    {cap}")
    echo(f"expires      {certificate['expires_at'] or '-'}")
    if inspection.is_verification:
        named = certificate["theatre_certificate"]
        echo(f"in short of  certificate {named['certificate_id']}, SHA-256 {named['sha256']}")
    else:
        echo(f"results      {certificate['results_hash']}")


def print_measures(*, is_judged: bool) -> None:
    """Print what the numbers are: their names say more than words alone can show."""
    measures = JUDGED_MEASURES if is_judged else LEXICAL.measures
    for criterion, measured in measures.items():
        echo(f"  {criterion}: {measured}")


def _rows(inspection: Inspection) -> list[Sequence[str]]:
    certificate = inspection.certificate
    intervals, scores = certificate["score_intervals"], certificate.get("scores", certificate)
    rows: list[Sequence[str]] = [
        (name, format_number(scores[name]), format_interval(intervals[name]), *map(str, counts))
        for name, counts in inspection.counts.items()
    ]
    composite = (format_number(certificate[COMPOSITE]), format_interval(intervals[COMPOSITE]))
    return [*rows, ("composite", *composite, "", "")]


def _print_replays(certificate: Mapping[str, Any]) -> None:
    outcomes = Counter(one["outcome"] for one in certificate["individual_scores"])
    shown = ", ".join(f"{name} {n}" for name, n in sorted(outcomes.items()))
    echo(f"replays      {shown}; {certificate['minimum_replays']} were asked for")
    brier, calibration = certificate["brier"], certificate["claim_calibration"]
    stated = "" if calibration is None else f", {calibration['stated']} claims with a confidence"
    described = certificate["brier_reason"] if brier is None else f"Brier {brier:.3f}"
    echo(f"confidence   {described}{stated}")
    if certificate["judge"] is not None:
        print_certified_judge(certificate["judge"])


def _of_replays(document: Mapping[str, Any]) -> dict[str, Counts]:
    """Count by criterion; a failed replay has a number, 0, where the criterion applied."""
    found = {}
    for criterion in CRITERIA:
        counted = [x for x in document["individual_scores"] if x[criterion] is not None]
        failed = sum(one["outcome"] == "missing" for one in counted)
        found[criterion] = (len(counted) - failed, failed)
    return found


def _of_theatre(document: Mapping[str, Any]) -> dict[str, Counts]:
    return {
        name: (counts["scored"], counts["missing"])
        for name, counts in document["score_counts"].items()
    }
