"""A run and its reproduction, side by side: the results hash, else score and interval."""

from __future__ import annotations

from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from theatre.cli.output import echo
from theatre.cli.tables import format_interval, format_number, print_table
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.evidence_bundle import CERTIFICATE, REPRODUCTION
from theatre.engine.scoring import COMPOSITE

_Document: TypeAlias = dict[str, Any]


class Verdict(StrEnum):
    """What a reproduction says of a run."""

    EQUAL = "equal"
    WITHIN = "within intervals"
    DIFFERENT = "different"


def compare_runs(original: Path, again: Path, once_more: Path | None = None) -> JsonObject:
    """Return what a bundle and its reproduction have in common, and the verdict.

    `equal` where the results hash is the same. A construct that was shown to answer the same input
    in the same way, by repeats in the original or by `once_more`, a second reproduction that is
    equal to the first, can be nothing less; any other is `within intervals` where each score lies
    in the other's interval. Else `different`.
    """
    one, other = (_document(bundle, "scores/aggregate.json") for bundle in (original, again))
    hashes = [one["results_hash"], other["results_hash"]]
    if once_more is not None:
        hashes.append(_document(once_more, "scores/aggregate.json")["results_hash"])
    scores = {
        name: _pair(one, other, name)
        for name in (*_document(original, "template.json")["criteria"]["criteria_ids"], COMPOSITE)
    }
    is_deterministic = _was_repeatable(original) or hashes[1] in hashes[2:]
    if hashes[0] == hashes[1]:
        verdict = Verdict.EQUAL
    elif all(pair["within"] for pair in scores.values()) and not is_deterministic:
        verdict = Verdict.WITHIN
    else:
        verdict = Verdict.DIFFERENT
    receipts = [_document(bundle, "commitment_receipt.json") for bundle in (original, again)]
    return {
        "verdict": verdict.value,
        "theatre_id": receipts[1]["theatre_id"],
        "bundle_path": str(again.resolve()),
        "reproduction": _document(again, REPRODUCTION),
        "results_hash": [*hashes],
        "environment_hash": [
            (receipt["environment"] or {}).get("environment_hash") for receipt in receipts
        ],
        "episodes": one["episode_counts"]["total"],
        "episodes_that_differ": _episodes_that_differ(original, again),
        "scores": scores,
    }


def print_reproduction(comparison: _Document) -> None:
    """Print a comparison for a person."""
    rows = [
        (
            name,
            format_number(pair["scores"][0]),
            format_interval(pair["intervals"][0]),
            format_number(pair["scores"][1]),
            format_interval(pair["intervals"][1]),
            "yes" if pair["within"] else "no",
        )
        for name, pair in comparison["scores"].items()
    ]
    header = ("criterion", "run", "95 % interval", "reproduced", "95 % interval", "within")
    print_table(header, rows)
    echo("")
    for name, label in (("results_hash", "results"), ("environment_hash", "environment")):
        one, *others = comparison[name]
        echo(f"{label:11}  {one}")
        for other in others:
            echo(f"{'again':11}  {'the same' if one == other else other}")
    echo(f"bundle       {comparison['bundle_path']}")
    differ, total = comparison["episodes_that_differ"], comparison["episodes"]
    echo(
        f"{comparison['verdict']} ({differ} of {total} episodes with another line): "
        "a reproduction certifies nothing, its coin was public"
    )


def may_vary(original: Path) -> bool:
    """Tell whether the construct may have changed: its version is not computed from its files."""
    return bool(_document(original, CERTIFICATE)["version_source"] != "computed")


def _pair(one: _Document, other: _Document, name: str) -> JsonObject:
    scores = [
        aggregate["composite_score"] if name == COMPOSITE else aggregate["scores"][name]
        for aggregate in (one, other)
    ]
    intervals = [aggregate["score_intervals"][name] for aggregate in (one, other)]
    within = all(
        _is_within(score, interval, theirs)
        for score, interval, theirs in zip(scores, intervals[::-1], scores[::-1], strict=True)
    )
    return {"scores": [*scores], "intervals": [*intervals], "within": within}


def _is_within(score: float | None, interval: _Document, middle: float | None) -> bool:
    """Tell whether a score lies in an interval; without bounds it must equal `middle`."""
    if score is None or interval["low"] is None:
        return score == middle
    return bool(interval["low"] <= score <= interval["high"])


def _was_repeatable(bundle: Path) -> bool:
    """Tell whether a run repeated episodes, and was answered in the same way each time."""
    policy = _document(bundle, "template.json").get("execution_policy", {})
    differences = _document(bundle, "tier.json")["facts"]["determinism_differences"]
    return bool(policy.get("deterministic_sample", 0) > 0 and differences == 0)


def _episodes_that_differ(original: Path, again: Path) -> int:
    lines = [
        (bundle / "scores" / "per_episode.jsonl").read_bytes().splitlines()
        for bundle in (original, again)
    ]
    return sum(one != other for one, other in zip_longest(*lines))


def _document(bundle: Path, path: str) -> _Document:
    return parse_object((bundle / path).read_bytes())
