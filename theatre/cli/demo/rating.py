"""How the demo shows a rubric and one item, and lets its two stand-ins score over HTTP."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theatre.cli.demo.client import ServiceClient
from theatre.cli.demo.reviewers import REVIEWERS, demo_scores
from theatre.cli.demo.theatres import DemoTheatre
from theatre.cli.exits import echo
from theatre.engine.canonical_json import JsonObject
from theatre.engine.replay import RatingItem, SubmittedScore

_WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRubric:
    """What a theatre asks people, and about which answers, as the service tells them."""

    asked: Mapping[str, Any]
    items: Sequence[RatingItem]


def open_rubric(scorer: ServiceClient, theatre: DemoTheatre) -> OpenRubric:
    """Return the rubric that a theatre waits at."""
    asked = scorer.get(f"{theatre.path}/hitl").document
    return OpenRubric(asked=asked, items=[RatingItem(**item) for item in asked["items"]])


def let_stand_ins_score(
    people: Mapping[str, ServiceClient], theatre: DemoTheatre, rubric: OpenRubric
) -> dict[str, list[SubmittedScore]]:
    """Send what each stand-in gives every item, as itself; return it."""
    given = {name: demo_scores(name, rubric.items) for name in REVIEWERS}
    path = f"{theatre.path}/hitl/{rubric.asked['step_id']}/scores"
    for name, scores in given.items():
        answer = people[name].post(
            path,
            {
                "scores": [
                    {"episode_id": one.episode_id, "value": one.score, "rationale": one.comment}
                    for one in scores
                ],
                "rubric_sha256": rubric.asked["rubric_sha256"],
            },
        )
        taken = answer.document
        told = f"{taken['complete_scorers']} of {taken['minimum_scorers']} people"
        theatre.note(f"POST {path}", answer.status, told)
    return given


def print_rubric(rubric: OpenRubric) -> None:
    """Print how the rubric begins, of whom it is asked, and on which scale."""
    asked = rubric.asked
    first = next(iter(asked["rubric"].split("\n\n")))
    _print_wrapped("rubric", f"{' '.join(first.split())} …")
    labels = asked["scoring_scale"]["labels"].items()
    for point, label in sorted(labels, key=lambda pair: float(pair[0])):
        _print_wrapped(f"{point:>8}", label)
    _print_wrapped(
        "asked of",
        f"at least {asked['minimum_scorers']} people, of whom none is an author, about each of "
        f"{len(rubric.items)} answers",
    )


def print_item(item: RatingItem) -> None:
    """Print what an item is about: the brief, and the direction that was made of it."""
    brief, direction = _part(item.input_data, "brief"), _answer(item, "artisan", "direction")
    _print_wrapped("item", item.episode_id)
    _print_wrapped("brief", f"{brief.get('title')}: {brief.get('medium')}, {brief.get('audience')}")
    _print_wrapped("", str(brief.get("text")))
    _print_wrapped("wants", ", ".join(map(str, direction.get("we_want", []))) or "nothing")
    _print_wrapped("avoids", ", ".join(map(str, direction.get("we_avoid", []))) or "nothing")


def print_scores(given: Mapping[str, Iterable[SubmittedScore]]) -> None:
    """Print what each stand-in gave, and why it gave the first item that."""
    for name, scores in given.items():
        listed = [*scores]
        _print_wrapped(name, " ".join(f"{one.score:g}" for one in listed), column=17)
        _print_wrapped("", f"the first because: {listed[0].comment}", column=17)


def as_document(given: Mapping[str, Iterable[SubmittedScore]]) -> JsonObject:
    """Return reviewer → episode → score."""
    return {name: {one.episode_id: one.score for one in scores} for name, scores in given.items()}


def _print_wrapped(name: str, text: str, *, column: int = 10) -> None:
    lines = textwrap.wrap(text, _WIDTH - column) or [""]
    for number, line in enumerate(lines):
        echo(f"{'' if number else name:{column}}{line}".rstrip())


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _answer(item: RatingItem, construct: str, member: str) -> Mapping[str, Any]:
    return _part(_part(item.answers, construct), member)
