"""How the demo shows a rubric and one item, and lets its two stand-ins score."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from theatre.cli.committing import utc_now
from theatre.cli.demo_reviewers import REVIEWERS, demo_scores
from theatre.cli.output import echo
from theatre.cli.workspace import Workspace
from theatre.engine.canonical_json import JsonObject
from theatre.engine.replay import RatingDesk, RatingItem, SubmittedScore, rating_items

_WIDTH = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRubric:
    """What a theatre asks people, and about which answers."""

    desk: RatingDesk
    items: tuple[RatingItem, ...]


def open_rubric(theatre_id: str, workspace: Workspace) -> OpenRubric:
    """Return the rubric that a theatre waits at; InvalidTransitionError where it does not."""

    async def scene() -> OpenRubric:
        with workspace.store.hold(theatre_id) as held:
            desk = await RatingDesk.of(held.theatre, held.journal, utc_now)
            return OpenRubric(desk=desk, items=await rating_items(held.journal, desk.rubric))

    return asyncio.run(scene())


def let_stand_ins_score(theatre_id: str, workspace: Workspace) -> dict[str, list[SubmittedScore]]:
    """Record what both stand-ins give every item, as `echelon theatre hitl` does; return it."""

    async def scene() -> dict[str, list[SubmittedScore]]:
        with workspace.store.hold(theatre_id) as held:
            desk = await RatingDesk.of(held.theatre, held.journal, utc_now)
            items = await rating_items(held.journal, desk.rubric)
            given = {name: demo_scores(name, items) for name in REVIEWERS}
            for name, scores in given.items():
                desk = await desk.submit(name, scores)
            return given

    return asyncio.run(scene())


def print_rubric(rubric: OpenRubric) -> None:
    """Print what is asked, of whom, and on which scale."""
    rating = rubric.desk.rating
    for paragraph in rating.rubric.splitlines():
        _print_wrapped("", paragraph)
    echo("")
    for point, label in sorted(rating.labels.items(), key=lambda pair: float(pair[0])):
        echo(f"{point:>5}  {label}")
    echo(
        f"asked of at least {rating.minimum_scorers} people, of whom none is an author, about each "
        f"of {len(rubric.items)} answers"
    )


def print_item(item: RatingItem) -> None:
    """Print what matters of an item: the brief, the direction, and the specification."""
    brief, direction = _part(item.input_data, "brief"), _answer(item, "artisan", "direction")
    echo("")
    _print_wrapped("item", item.episode_id)
    _print_wrapped("brief", f"{brief.get('title')}: {brief.get('medium')}, {brief.get('audience')}")
    _print_wrapped("", str(brief.get("text")))
    _print_wrapped("wants", ", ".join(map(str, direction.get("we_want", []))) or "nothing")
    _print_wrapped("avoids", ", ".join(map(str, direction.get("we_avoid", []))) or "nothing")
    sheet = _answer(item, "mint", "sheet")
    _print_wrapped("sheet", "; ".join(f"{name} {fact}" for name, fact in sorted(sheet.items())))


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
