"""What the demo shows of each page without `--verbose`: a few lines that fit 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from theatre.cli.checking import format_verdict
from theatre.cli.demo.pages import WHY, print_fact
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.rating import OpenRubric
from theatre.cli.evidence_report import best_baseline
from theatre.cli.exits import echo
from theatre.cli.reports import shorten_path
from theatre.cli.tables import format_number, print_table
from theatre.engine.bundle_check import CheckReport
from theatre.engine.canonical_json import parse_object
from theatre.engine.scoring import COMPOSITE

_FACT_COLUMNS = 69
_HEADER = ("criterion", "score", "95 % interval", "scored", "failed", "trivial")


def print_scores_in_short(bundle: Path) -> None:
    """Print a certificate's scores, and next to each the best answer that needs no work."""
    certificate: Mapping[str, Any] = _certificate(bundle)
    rows = []
    for name in certificate["criteria"]["criteria_ids"]:
        counts = certificate["score_counts"][name]
        best = best_baseline(certificate["baselines"], name)
        rows.append(
            (
                name,
                format_number(certificate["scores"][name]),
                _interval(certificate, name),
                str(counts["scored"]),
                str(counts["missing"]),
                "-" if isinstance(best, str) else format_number(best[0]),
            )
        )
    composite = (format_number(certificate[COMPOSITE]), _interval(certificate, COMPOSITE))
    print_table(_HEADER, [*rows, ("composite", *composite, "", "", "")])


def print_composites(bundles: Mapping[str, Path]) -> None:
    """Print the composite scores of constructs that were measured by one template."""
    certificates = {name: _certificate(bundle) for name, bundle in bundles.items()}
    print_table(
        ("construct", "composite", "95 % interval"),
        [
            (name, format_number(one[COMPOSITE]), _interval(one, COMPOSITE))
            for name, one in certificates.items()
        ],
    )


def print_tier(bundle: Path) -> None:
    """Print the tier, and the first of what keeps a construct from the next one."""
    certificate = _certificate(bundle)
    tier: Mapping[str, Any] = parse_object((bundle / "tier.json").read_bytes())
    caps = [one for one in tier["assessment"]["unmet"] if one["code"] in certificate["caps"]]
    text = certificate["verification_tier"]
    if caps:
        text += f", not {caps[0]['tier']}: {caps[0]['code']} (seen: {caps[0]['seen']})"
    if len(caps) > 1:
        text += f" and {len(caps) - 1} more"
    print_fact("tier", text)


def print_waiting(rubric: OpenRubric) -> None:
    """Print what a run waits for, and of whom it is asked."""
    step, people = rubric.asked["step_id"], rubric.asked["minimum_scorers"]
    asked = f"{len(rubric.items)} answers, {people} or more people, none of them an author"
    print_fact("waits for", f"{step}: {asked}")


def print_ratings(bundle: Path, names: Iterable[str]) -> None:
    """Print who scored in the place of people, how far they agree, and what comes of it."""
    certificate, path = _certificate(bundle), bundle / "scores" / "aggregate.json"
    aggregate: Mapping[str, Any] = parse_object(path.read_bytes())
    print_fact("scored by", f"{', '.join(names)}: two rules in the place of people")
    for step_id, one in aggregate["human_scores"].items():
        alpha = format_number(one["agreement"]["value"])
        print_fact("gave", f"{step_id}: {format_number(one['human'])}, their agreement: {alpha}")
    composite = f"{format_number(certificate[COMPOSITE])} ({_interval(certificate, COMPOSITE)})"
    print_fact("composite", composite)


def print_forgery(honest: CheckReport, forged: CheckReport, *, changed: str) -> None:
    """Print how a bundle was checked before and after one of its bits was flipped."""
    print_fact("as it came", format_verdict(honest))
    print_fact("changed", changed)
    _print_wrapped("FAIL", ", ".join(check.id for check in forged.failed))
    print_fact("forged", format_verdict(forged))


def print_trust(
    certificates: Iterable[Mapping[str, Any]], routing: Mapping[str, Mapping[str, Any]]
) -> None:
    """Print what constructs' certificates say now, and what a router makes of them."""
    rows = []
    for one in certificates:
        routed = routing[str(one["construct_id"])]
        why = ", ".join(WHY.get(reason, reason) for reason in routed["reasons"])
        rows.append(
            (
                str(one["construct_id"]),
                str(one["verification_tier"]),
                str(routed["routing_class"]),
                why or "as certified",
            )
        )
    print_table(("construct", "tier now", "routing", "why"), rows)


def print_verdicts(checks: Mapping[str, CheckReport], place: DemoPlace) -> None:
    """Print how bundles did, and one command that checks one of them."""
    for name, report in checks.items():
        print_fact(name, format_verdict(report))
    name = next(iter(checks))
    echo(f"echelon check {shorten_path(place.bundle(name))} \\")
    echo(f"    --certificate {shorten_path(place.certificate(name))}")


def _interval(certificate: Mapping[str, Any], name: str) -> str:
    interval = certificate["score_intervals"][name]
    return "-" if interval["low"] is None else f"{interval['low']:.3f} … {interval['high']:.3f}"


def _print_wrapped(name: str, text: str) -> None:
    for number, line in enumerate(textwrap.wrap(text, _FACT_COLUMNS)):
        print_fact("" if number else name, line)


def _certificate(bundle: Path) -> dict[str, Any]:
    return parse_object((bundle / "certificate.json").read_bytes())
