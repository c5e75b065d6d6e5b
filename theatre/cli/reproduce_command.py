"""`echelon reproduce`: the run of a bundle made again with the coin that it reveals."""

import asyncio
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import click

from theatre.api.commitments import RevealedBundle, commit_reproduction
from theatre.api.runs import run_report
from theatre.api.theatre_run import RunOptions
from theatre.api.workspace import Workspace
from theatre.cli.check_report import require_consistent
from theatre.cli.exits import CommandEndedError, ExitCode, echo, json_option, print_document
from theatre.cli.options import header_option
from theatre.cli.reports import print_run
from theatre.cli.run_command import run_with_progress
from theatre.cli.tables import format_interval, format_number, print_table, score_name
from theatre.engine.canonical_json import JsonObject, parse_object, sha256_hex
from theatre.engine.coin import Coin
from theatre.engine.errors import NotFoundError
from theatre.engine.evidence_bundle import CERTIFICATE, COIN, REPRODUCTION, bundle_name
from theatre.engine.scoring import COMPOSITE

# A run and its reproduction, side by side: the results hash, else score and interval.


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


def _print_reproduction(comparison: _Document) -> None:
    rows = [
        (
            score_name(name),
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


_EXIT_BY_VERDICT = {
    Verdict.EQUAL: ExitCode.OK,
    Verdict.WITHIN: ExitCode.LESSER_VERDICT,
    Verdict.DIFFERENT: ExitCode.CHECK_FAILED,
}


@click.command()
@click.argument("target", metavar="BUNDLE|CERTIFICATE", type=click.Path(path_type=Path))
@click.option(
    "--constructs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder whose constructs.toml and programs come first (default: this one).",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@header_option
@json_option
def reproduce(
    target: Path, *, constructs: Path, quiet: bool, headers_env: dict[str, str], as_json: bool
) -> None:
    """Make the run of BUNDLE again, with its data and the coin that it reveals, and compare.

    CERTIFICATE is one in a bundle, or one whose bundle is in this store. The result is a theatre of
    its own, which is never certified: its coin was public. Ends with 0 where it is equal, with 9
    where only the scores agree, within their intervals, with 10 where it differs, or where the
    bundle does not pass its check. What people rated is refused.
    """
    workspace = Workspace.from_environment()
    bundle, kept = _bundle_of(target, workspace)
    require_consistent(bundle, as_json=as_json, is_named=True, certificate=kept)
    revealed = RevealedBundle(
        coin=Coin.from_line((bundle / COIN).read_bytes()),
        bundle=bundle,
        bundle_hash=sha256_hex((bundle / "SHA256SUMS").read_bytes()),
    )

    def made_again() -> Path:
        theatre = asyncio.run(
            commit_reproduction(revealed, template_folder=constructs, workspace=workspace)
        )
        options = RunOptions(headers_env=headers_env)
        run_with_progress(theatre.theatre_id, workspace, options, quiet=quiet)
        return _require_sealed(theatre.theatre_id, workspace, as_json=as_json)

    first = made_again()
    comparison = compare_runs(bundle, first)
    # A construct whose version is not computed from its files may have changed since.
    is_bound = _document(bundle, CERTIFICATE)["version_source"] == "computed"
    if comparison["verdict"] == Verdict.WITHIN and is_bound:
        comparison = compare_runs(bundle, first, made_again())
    if as_json:
        print_document(comparison)
    else:
        _print_reproduction(comparison)
    code = _EXIT_BY_VERDICT[Verdict(str(comparison["verdict"]))]
    if code is not ExitCode.OK:
        raise CommandEndedError(code)


def _bundle_of(target: Path, workspace: Workspace) -> tuple[Path, Path | None]:
    """Return the bundle that a user names, and the certificate that he gave from outside of it."""
    if target.is_dir():
        bundle, kept = target, None
    elif target.is_file() and (target.parent / "SHA256SUMS").is_file():
        bundle, kept = target.parent, None
    elif target.is_file():
        named: Any = parse_object(target.read_bytes()).get("theatre_id")
        bundle, kept = workspace.store.folder(str(named)) / bundle_name(str(named)), target
    else:
        raise NotFoundError(f"expected an evidence bundle or a certificate, got {target!s:.200}")
    if not (bundle / CERTIFICATE).is_file():
        raise NotFoundError(f"expected a bundle with a certificate, got {bundle!s:.200}")
    return bundle, kept


def _require_sealed(theatre_id: str, workspace: Workspace, *, as_json: bool) -> Path:
    """Return the bundle of a run that has ended; where it left none, say why and end."""
    view = workspace.store.view(theatre_id)
    bundle = view.folder / bundle_name(theatre_id)
    if bundle.is_dir():
        return bundle
    report = run_report(view)
    print_document(report) if as_json else print_run(report)
    raise CommandEndedError(ExitCode.FAILURE)
