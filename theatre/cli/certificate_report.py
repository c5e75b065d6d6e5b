"""A certificate as tables and lines for a person, and what its questions are worth as evidence.

It must not import what only POSIX systems have: `echelon inspect` works without.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from theatre.cli.computation_reports import print_computations
from theatre.cli.exits import echo
from theatre.cli.tables import (
    format_bounds,
    format_interval,
    format_number,
    format_tier,
    format_usage,
    print_table,
    score_name,
)
from theatre.engine.bundle_check.arithmetic import identity
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.models import SINGLE_CALL
from theatre.engine.rlmf_export import SealedBundle, outputs_of
from theatre.engine.scoring import COMPOSITE
from theatre.engine.scoring.provider import Absent, at_path
from theatre.pages.wording import best_baseline

FIRST = 20
"""So many answers are looked at for a member that none has, or all have as a text."""


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return how episodes ended, as "120: refused 60, scored 60"."""
    parts = ", ".join(f"{name} {n}" for name, n in counts.items() if name != "total" and n)
    return f"{counts['total']}: {parts}"


def print_certificate(bundle: Path, *, rows: Iterable[tuple[str, str]] = ()) -> None:
    """Print the certificate in `bundle`: scores with intervals, counts, tier, what is missing.

    `rows` are what its issuer's log says of it: names and texts.
    """
    certificate = _document(bundle / "certificate.json")
    tier = _document(bundle / "tier.json")
    aggregate = _document(bundle / "scores" / "aggregate.json")
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
    _print_unread(bundle, certificate["scores"])
    echo("")
    echo(f"episodes     {describe_counts(certificate['episode_counts'])}")
    if certificate.get("usage") is not None:
        echo(f"used         {format_usage(certificate['usage'])}")
    print_questions(certificate["data_audit"], certificate["findings"])
    _print_calibration(aggregate["calibration"])
    _print_human(aggregate["human_scores"], bundle)
    _print_gaps(certificate["holdout_scores"])
    _print_repeats(certificate["repeats"])
    echo(f"tier         {format_tier(certificate, datetime.now(UTC))}")
    _print_missing(tier["assessment"], certificate["caps"])
    echo(f"issued       {certificate['issued_at']} by {certificate['issuer']}")
    echo(f"expires      {certificate['expires_at'] or '- (UNVERIFIED has nothing to lose)'}")
    for name, text in rows:
        echo(f"{name:12} {text}")
    echo(f"results      {certificate['results_hash']}")
    echo(f"bundle       {shorten_path(bundle)}")
    print_computations(bundle)


def describe_isolation(isolation: Mapping[str, Any]) -> str:
    """Return what was closed to a construct, what was open, and by what."""
    described = [
        f"{name} {'closed' if isolation[name] else 'OPEN'}"
        for name in ("files", "processes", "network")
    ]
    return f"{', '.join(described)} ({isolation['by']})"


def print_comparison(bundles: Mapping[str, Path]) -> None:
    """Print the scores of several constructs by the same criteria side by side, with intervals."""
    certificates = [_document(bundle / "certificate.json") for bundle in bundles.values()]
    rows = [
        (name, *(_scored_cell(one["scores"][name], one, name) for one in certificates))
        for name in certificates[0]["criteria"]["criteria_ids"]
    ]
    rows.append(
        ("composite", *(_scored_cell(one[COMPOSITE], one, COMPOSITE) for one in certificates))
    )
    print_table(("criterion", *bundles), rows)


def _print_unread(bundle: Path, scores: Mapping[str, float | None]) -> None:
    firsts = (
        ([*outputs_of(one.record).values()], one.truth.expected_output)
        for one in islice(SealedBundle(bundle).episodes(), FIRST)
    )
    for note in unread(_document(bundle / "template.json"), scores, firsts):
        echo(f"note: {note}")


def unread(
    template: Mapping[str, Any],
    scores: Mapping[str, float | None],
    firsts: Iterable[tuple[Sequence[JsonObject], JsonObject | None]],
) -> Iterator[str]:
    """Yield why a criterion has 0 where the first answers lack the member that it reads.

    Or where all that they have is a text that holds it, or a text where a number is expected.
    `firsts` are outputs and expectation of the first episodes.
    """
    choices = template["scoring"].get("criteria_scorers") or {}
    zeros = [name for name, score in scores.items() if score == 0 and name in choices]
    runner = template["product_theatre_config"].get("episode_runner", SINGLE_CALL)
    if not zeros or runner != SINGLE_CALL:
        return
    answers = [(output, expected or {}) for outputs, expected in firsts for output in outputs[-1:]]
    texts = [value for output, _ in answers for value in output.values()]
    is_text = all(isinstance(value, str) and value.startswith("{") for value in texts)
    hint = """; they are JSON as text, which "answer": {"from": "json"} reads""" if is_text else ""
    for name in zeros if answers else ():
        # With a colon it names another construct of a chain.
        params = choices[name].get("params") or {}
        field = params.get("field", ":")
        if ":" in field:
            continue
        said = [at_path(output, field) for output, _ in answers]
        right = [at_path(expected, params.get("expected", field)) for _, expected in answers]
        is_absent = all(isinstance(one, Absent) for one in said)
        if is_absent or hint:
            but = f"{'but ' if is_absent else ''}answers have: {', '.join(answers[0][0])}"
            yield f"{name} reads {field}, {but}{hint}"
        elif all(map(_is_text_for_number, said, right)):
            yield (
                f"{name} reads {said[0]!r:.40} where {right[0]!r:.40} is expected: a text never "
                "equals a number"
            )


def _is_text_for_number(said: object, right: object) -> bool:
    """Tell whether one is a text and the other a number or a truth value."""
    plain = (int, float)
    return (isinstance(said, str) and isinstance(right, plain)) or (
        isinstance(said, plain) and isinstance(right, str)
    )


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
    return f"{format_number(score)} ({format_bounds(interval)})"


def shorten_path(path: Path) -> Path:
    """Return `path` relative to the working folder where it lies inside it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _print_calibration(calibration: Mapping[str, Any] | None) -> None:
    if calibration is None or not (stated := calibration["probabilities"]):
        return
    ece = calibration["ece"]
    described = f"no ECE ({calibration['ece_reason']})"
    if ece is not None:
        null = f"{ece['expected_if_calibrated']:.3f} expected"
        limit = f"95 % below {ece['upper_95_if_calibrated']:.3f}"
        described = f"ECE {ece['value']:.3f} (if calibrated: {null}, {limit})"
    # Who states none where it is unsure looks calibrated.
    silent = calibration["without_probability"]
    described += f"; {silent} answers stated none" if silent else ""
    echo(f"calibration  Brier {calibration['brier_score']:.3f} (n = {stated}), {described}")


def _print_chain(certificate: Mapping[str, Any]) -> None:
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
        rated = _rated_by(bundle / "hitl" / f"{step_id}.jsonl")
        for words, counts in (("they are", True), ("not all answers, so not counted:", False)):
            if names := [name for name, n in rated.items() if counts == (n == one["items"])]:
                echo(f"             {words} {', '.join(names)}")


def _rated_by(scores: Path) -> Counter[str]:
    """Return name, as it was first written → number of items, of a file of human scores."""
    lines = scores.read_bytes().splitlines() if scores.is_file() else []
    names: dict[str, str] = {}
    given = [str(parse_object(line)["scorer"]) for line in lines]
    return Counter(names.setdefault(identity(name), name) for name in given)


def _print_gaps(parts: Mapping[str, Any] | None) -> None:
    for name, gap in (parts or {}).get("gap", {}).items():
        if gap["beyond_sampling_error"]:
            side = "above" if gap["difference"] > 0 else "below"
            echo(
                f"note         {score_name(name)}: train part {abs(gap['difference']):.3f} {side} "
                "the holdout, beyond sampling error"
            )


def _print_repeats(repeats: Mapping[str, Any] | None) -> None:
    """Print how much answers to one question vary, where each was asked more than once."""
    if repeats is None:
        return
    ended = ", ".join(f"{name} {n}" for name, n in repeats["statuses"].items() if n)
    echo(f"repeats      {repeats['k']} of each episode, {repeats['asked']} answers: {ended}")
    for name, one in repeats["criteria"].items():
        echo(f"  {name}: {one['items_that_vary']} of {one['items']} episodes vary in their answers")
        these, like = (format_bounds(one[of]) for of in ("these_items", "items_like_these"))
        echo(f"    these items {these}; items like these {like}")
        if one["pass"] is not None:
            once, each = (one["pass"][of][-1] for of in ("any", "all"))
            echo(f"    right at least once {format_number(once)}, each time {format_number(each)}")


def _print_missing(assessment: Mapping[str, Any], caps: Sequence[str]) -> None:
    for requirement in assessment["unmet"]:
        if requirement["code"] in caps:
            echo(
                f"  missing for {requirement['tier']}: {requirement['code']} "
                f"(seen: {requirement['seen']})"
            )


def _document(path: Path) -> dict[str, Any]:
    return parse_object(path.read_bytes())


# What the questions are worth as evidence, of a template or of a certificate.


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
