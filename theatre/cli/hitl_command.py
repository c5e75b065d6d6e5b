"""`echelon theatre hitl`: the rubric that a theatre waits at, and the scores that people give.

A scorer sees the episodes and the answers, and nothing that could influence them: no expectation,
no score of a machine or of another person.
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from theatre.api.named_files import read_file
from theatre.api.workspace import Workspace, utc_now
from theatre.cli.exits import echo, json_option, print_document
from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.clock import format_rfc3339
from theatre.engine.errors import ParseError
from theatre.engine.replay import HumanReview, SubmittedScore, rating_items
from theatre.files.theatre_store import TheatreLease

# A file of human scores: `{"episode_id": …, "score": …, "comment": …}` a line.


_MEMBERS = frozenset({"episode_id", "score", "comment"})


def read_scores(path: Path) -> list[SubmittedScore]:
    """Return the scores of a file; blank lines are passed over.

    Raises NotFoundError where there is none, and ParseError with the number of the line for what
    is no score. Whether a score is eligible is for the theatre to say.
    """
    lines = read_file(path, what="a file of scores").splitlines()
    found = [_score(n, line) for n, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise ParseError(f"expected scores in {path}, a JSON object a line, got none")
    return found


def _score(number: int, line: bytes) -> SubmittedScore:
    try:
        document = parse_object(line)
    except ParseError as error:
        raise ParseError(f"line {number}: {error}", reason=error.reason) from error
    unknown = sorted(document.keys() - _MEMBERS)
    missing = sorted({"episode_id", "score"} - document.keys())
    if unknown or missing:
        seen = f"unknown {', '.join(unknown)[:100]}" if unknown else f"no {missing[0]}"
        raise ParseError(f"line {number}: expected episode_id, score and maybe comment, got {seen}")
    episode_id, comment = document["episode_id"], document.get("comment")
    if not isinstance(episode_id, str) or not isinstance(comment, str | None):
        raise ParseError(f"line {number}: expected episode_id and comment as text")
    return SubmittedScore(episode_id=episode_id, score=document["score"], comment=comment)


@click.command()
@click.argument("theatre_id")
@click.option("--scorer", metavar="NAME", help="Who scores: a person, the same name every time.")
@click.option("--item", metavar="EPISODE", help="The episode that is scored.")
@click.option("--score", type=float, help="The score, a number on the scale.")
@click.option("--comment", help="A remark to keep with the score.")
@click.option(
    "--scores",
    "score_file",
    metavar="FILE.jsonl",
    type=click.Path(path_type=Path),
    help='Several scores, all or none: {"episode_id": …, "score": …, "comment": …} a line.',
)
@json_option
def hitl(
    theatre_id: str,
    *,
    scorer: str | None,
    item: str | None,
    score: float | None,
    comment: str | None,
    score_file: Path | None,
    as_json: bool,
) -> None:
    """Show what a theatre asks people to score; with --scorer, record scores.

    Everybody scores every item, once. When enough people have, `echelon theatre run` goes on.
    """
    given = any(one is not None for one in (item, score, comment, score_file))
    if (scorer is not None) != given:
        raise click.UsageError(
            "expected --scorer with --item and --score or with --scores, or none of them"
        )
    submitted = _read_submitted(item, score, comment, score_file)
    with Workspace.from_environment().store.hold(theatre_id) as held:
        if scorer is None or submitted is None:
            report = asyncio.run(_read_rubric(held))
        else:
            report = asyncio.run(_record_scores(held, scorer, submitted))
    if as_json:
        print_document(report)
    elif "recorded" in report:
        _print_recorded(report)
    else:
        _print_asked(report)


def _read_submitted(
    item: str | None, score: float | None, comment: str | None, score_file: Path | None
) -> list[SubmittedScore] | None:
    """Return what the options give; None without any, UsageError for half of it."""
    single = (item, score, comment)
    if score_file is not None:
        if any(one is not None for one in single):
            raise click.UsageError("expected --scores, or --item and --score, got both")
        return read_scores(score_file)
    if item is None or score is None:
        if any(one is not None for one in single):
            raise click.UsageError("expected --item and --score together")
        return None
    return [SubmittedScore(episode_id=item, score=score, comment=comment)]


async def _read_rubric(held: TheatreLease) -> JsonObject:
    desk = await HumanReview.of(held.theatre, held.journal, utc_now)
    items = await rating_items(held.journal, desk.rubric)
    return {
        "theatre_id": held.theatre.theatre_id,
        **_state(desk),
        "rubric": desk.rating.rubric,
        "scoring_scale": {
            "min": float(desk.rating.low),
            "max": float(desk.rating.high),
            "labels": dict(desk.rating.labels),
        },
        "scorer_must_not_be_author": desk.rating.scorer_must_not_be_author,
        "opened_at": format_rfc3339(desk.rubric.opened_at),
        "timeout_seconds": desk.rubric.timeout_seconds,
        "items": [
            {
                "episode_id": item.episode_id,
                "input_data": item.input_data,
                "answers": dict(item.answers),
            }
            for item in items
        ],
    }


async def _record_scores(
    held: TheatreLease, scorer: str, submitted: list[SubmittedScore]
) -> JsonObject:
    desk = await HumanReview.of(held.theatre, held.journal, utc_now)
    desk = await desk.submit(scorer, submitted)
    return {"theatre_id": held.theatre.theatre_id, "recorded": len(submitted), **_state(desk)}


def _state(desk: HumanReview) -> JsonObject:
    total = len(desk.rubric.items)
    answered: list[Any] = [
        {"scorer": name, "items": count, "of": total} for name, count in desk.answered.items()
    ]
    return {
        "step_id": desk.rating.step_id,
        "answered": answered,
        "complete_scorers": desk.complete_scorers,
        "minimum_scorers": desk.rating.minimum_scorers,
        "enough": desk.enough,
    }


def _print_asked(report: Mapping[str, Any]) -> None:
    scale = report["scoring_scale"]
    echo(f"theatre   {report['theatre_id']}, step {report['step_id']}")
    for number, line in enumerate(report["rubric"].splitlines()):
        echo(f"{'' if number else 'rubric':9} {line}")
    echo(f"scale     {scale['min']:g} to {scale['max']:g}")
    for point, label in sorted(scale["labels"].items(), key=lambda pair: float(pair[0])):
        echo(f"          {point}  {label}")
    authors = "; no author of the template or of a construct"
    echo(
        f"who       at least {report['minimum_scorers']}, each scores every item once"
        + (authors if report["scorer_must_not_be_author"] else "")
    )
    if report["timeout_seconds"] is not None:
        echo(f"until     {report['timeout_seconds']:g} s after {report['opened_at']}")
    _print_state(report)
    for item in report["items"]:
        echo("")
        echo(f"item      {item['episode_id']}")
        _print_value("input", item["input_data"])
        for construct, answer in item["answers"].items():
            _print_value(construct, answer)


def _print_recorded(report: Mapping[str, Any]) -> None:
    echo(f"recorded  {report['recorded']}")
    _print_state(report)
    if report["enough"]:
        echo(f"next      echelon theatre run {report['theatre_id']}")


def _print_state(report: Mapping[str, Any]) -> None:
    echo(
        f"answered  {report['complete_scorers']} of {report['minimum_scorers']} people, every item"
    )
    for one in report["answered"]:
        echo(f"          {one['scorer']}: {one['items']} of {one['of']}")


def _print_value(name: str, value: object) -> None:
    echo(f"  {name}:")
    for line in json.dumps(value, ensure_ascii=False, indent=2).splitlines():
        echo(f"    {line}")
