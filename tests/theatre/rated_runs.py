"""Theatres that wait for people, and the people: for the tests of rubric steps."""

import asyncio
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import cast

import rfc8785

from tests.theatre.runs import COIN, Stage, call_step, pilot_stage
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.clock import Clock
from theatre.engine.replay import HumanReview, SubmittedScore
from theatre.files.theatre_store import FileTheatreStore

STEPS = "/resolution_programme"
AGGREGATE: JsonObject = {"step_id": "aggregate", "type": "aggregation"}


def rubric_step(step_id: str = "taste", **members: JsonValue) -> JsonObject:
    """Return a step of the programme at which people are asked."""
    return {"step_id": step_id, "type": "hitl_rubric", **members}


def rating(step_id: str = "taste", **members: JsonValue) -> JsonObject:
    """Return an entry of `hitl_steps`: half of the colour, from 1 to 5, by two people."""
    return {
        "step_id": step_id,
        "rubric": "How well is the colour chosen?",
        "scoring_scale": {"min": 1, "max": 5, "labels": {"1": "badly", "5": "well"}},
        "identity_separation": {"scorer_must_not_be_author": True, "minimum_scorers": 2},
        "criterion_id": "colour",
        "share": 0.5,
        "items": 3,
        **members,
    }


def rated_stage(
    folder: Path,
    records: Sequence[JsonObject],
    *,
    steps: Sequence[JsonObject] | None = None,
    ratings: Sequence[JsonObject] | None = None,
    changes: Mapping[str, JsonValue] | None = None,
) -> Stage:
    """Return a theatre that calls the construct, asks people, and sums up."""
    programme: list[JsonValue] = [call_step(), *(steps or [rubric_step(), AGGREGATE])]
    entries: list[JsonValue] = [*(ratings or [rating()])]
    own: dict[str, JsonValue] = {
        STEPS: programme,
        "/hitl_steps": entries,
        "/metadata": {"author": "Ada Author"},
    }
    return pilot_stage(folder, records, changes=own | dict(changes or {}))


def rate(
    stage: Stage,
    scorer: str,
    scores: Mapping[str, JsonValue] | Iterable[SubmittedScore],
    *,
    step_id: str | None = None,
    clock: Clock | None = None,
) -> HumanReview:
    """Let one person score, as the command line does; errors as `HumanReview`."""
    submitted = (
        [SubmittedScore(episode_id=item, score=score) for item, score in scores.items()]
        if isinstance(scores, Mapping)
        else list(scores)
    )

    async def scene() -> HumanReview:
        with store_of(stage).hold(stage.theatre_id) as held:
            desk = await HumanReview.of(held.theatre, held.journal, clock or stage.clock)
            return await desk.submit(scorer, submitted, step_id=step_id)

    return asyncio.run(scene())


def desk_of(stage: Stage) -> HumanReview:
    """Return the desk of a theatre as it is now; errors as `HumanReview.of`."""

    async def scene() -> HumanReview:
        with store_of(stage).hold(stage.theatre_id) as held:
            return await HumanReview.of(held.theatre, held.journal, stage.clock)

    return asyncio.run(scene())


def store_of(stage: Stage) -> FileTheatreStore:
    """Return the store that the theatre lies in."""
    return FileTheatreStore(stage.folder.parents[1])


def trail_of(stage: Stage) -> list[JsonObject]:
    """Return the entries of the audit chain, as a reader sees them."""

    async def scene() -> list[JsonObject]:
        with store_of(stage).hold(stage.theatre_id) as held:
            return [entry async for entry in held.journal.trail()]

    return asyncio.run(scene())


def events(trail: Iterable[JsonObject]) -> list[str]:
    """Return what happened from `settling` on."""
    kinds = [cast("str", entry["event_type"]) for entry in trail]
    return kinds[kinds.index("settling") :]


def details(trail: Iterable[JsonObject], event_type: str) -> list[JsonObject]:
    """Return the details of all entries of one kind."""
    return [cast("JsonObject", e["detail"]) for e in trail if e["event_type"] == event_type]


def drawn(stage: Stage, candidates: Iterable[str], count: int) -> list[str]:
    """Return the items by hand: the smallest hashes, in their order."""
    key = hmac.digest(COIN.secret, b"", "sha256")
    commitment = stage.receipt.commitment_hash
    hashes = {
        name: hmac.digest(key, rfc8785.dumps(["item", commitment, name]), "sha256")
        for name in candidates
    }
    return sorted(hashes, key=lambda name: hashes[name])[:count]


def later(stage: Stage, seconds: float) -> None:
    """Set the clock of a theatre forward."""
    before = stage.clock
    stage.clock = lambda: before() + timedelta(seconds=seconds)
