"""Reports on the questions of a template or a certificate, for a person to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from theatre.cli.exits import echo
from theatre.cli.tables import format_number, print_table
from theatre.engine.scoring import Baseline

NOT_APPLICABLE = {
    "judged": "a judge scores it",
    "human": "people have a share",
    "no-field": "no field committed",
    "unplayable": "not played to an end",
}
"""Why a criterion has no baselines → the words of a table."""


def best_baseline(
    baselines: Mapping[str, Any] | None, criterion: str
) -> tuple[float, Baseline] | str:
    """Return the highest score of an answer without any work and its way, or why there is none."""
    if baselines is None:
        return ""
    one = baselines["criteria"][criterion]
    if one["not_applicable"] is not None:
        return NOT_APPLICABLE[one["not_applicable"]]
    scored = [(one[name.value]["score"], name) for name in Baseline if one[name.value] is not None]
    return max(scored, key=lambda pair: pair[0]) if scored else "never scored"


def baseline_text(baselines: Mapping[str, Any] | None, criterion: str) -> str:
    """Return the same for a table."""
    best = best_baseline(baselines, criterion)
    if isinstance(best, str):
        return f"- ({best})" if best else "-"
    score, name = best
    return f"{format_number(score)} ({name.value})"


def print_questions(audit: Mapping[str, Any] | None, findings: Iterable[str]) -> None:
    """Print how many of the questions differ, and every finding."""
    if audit is not None:
        parts = [f"{audit['distinct_inputs']} distinct"]
        parts += [f"{audit['near_duplicates']} nearly alike"] if audit["near_duplicates"] else []
        given_away = audit["answers_in_inputs"]
        parts += [f"{given_away} give an answer away"] if given_away else []
        parts += [f"in {audit['clusters']} clusters"] if audit["clusters"] else []
        echo(f"questions    {audit['episodes']}: {', '.join(parts)}")
    for code in findings:
        echo(f"finding      {code}")


def print_preview(evidence: Mapping[str, Any]) -> None:
    """Print what `echelon theatre validate` counts in the data, and what would cap a run."""
    audit, baselines = evidence["data_audit"], evidence["baselines"]
    print_questions(audit, evidence["findings"])
    print_table(
        ("criterion", "distinct", "expectations", "majority", "best trivial answer"),
        [
            (
                criterion,
                str(one["distinct_inputs"]),
                str(one["expectations"]),
                format_number(one["majority_share"]),
                baseline_text(baselines, criterion),
            )
            for criterion, one in audit["criteria"].items()
        ],
    )
    for cap in evidence["caps"]:
        echo(f"would cap    {cap}")
