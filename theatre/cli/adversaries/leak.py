"""The leak that adversaries get: a tenth of the questions, each with a well-formed answer.

A well-formed answer is that of the construct, with the expected values put where the criteria look
for them. Interactive episodes have no such places: their answers are the construct's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.models import EpisodeResult, GroundTruthEpisode, read_episodes, read_gold_labels
from theatre.engine.scoring.provider import Absent, criteria_scorers, expected_at
from theatre.engine.templates import ProductTheatreTemplate
from theatre.files.datasets import DatasetRoots

SHARE = 10
"""One in so many episodes is leaked: those with the smallest digests of their ids."""

Leak = Mapping[str, Sequence[JsonObject]]
"""Construct id → questions with an answer each: `asked` and `answer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The path at which a criterion looks for an answer, and the path of its expectation."""

    construct_id: str
    field: tuple[str, ...]
    expected: str


def make_leak(
    template: JsonObject,
    view: ProductTheatreTemplate,
    roots: DatasetRoots,
    recorded: Iterable[EpisodeResult],
) -> Leak:
    """Return the leaked part of a template's ground truth, given its construct's answers.

    Without an answer of the construct it holds the expected values alone. Raises DatasetError.
    """
    episodes, labels = _ground_truth(view, roots)
    chosen = _select_leaked(episodes)
    answers = {
        result.episode_id: _calls(result) for result in recorded if result.episode_id in chosen
    }
    places = (
        []
        if view.product_theatre_config.episode_runner != "single_call"
        else _places(template, view)
    )
    found: dict[str, list[JsonObject]] = {}
    for episode_id, episode in chosen.items():
        calls = answers.get(episode_id) or [(view.hops[-1].construct_id, episode.input_data, {})]
        for construct_id, asked, said in calls:
            answer: Any = parse_object(canonical_bytes(said))
            for place in places:
                if place.construct_id == construct_id:
                    value = expected_at(
                        place.expected, episode.expected_output, labels.get(episode_id)
                    )
                    _put_value(answer, place.field, value)
            found.setdefault(construct_id, []).append({"asked": asked, "answer": answer})
    return found


def _ground_truth(
    view: ProductTheatreTemplate, roots: DatasetRoots
) -> tuple[list[GroundTruthEpisode], Mapping[str, JsonObject]]:
    config = view.product_theatre_config
    hashes, paths = view.dataset_hashes, config.data_paths()
    committed = hashes[config.replay_dataset_id]
    with closing(roots.open(config.replay_data_path, sha256=committed)) as replay:
        episodes = list(read_episodes(replay.lines()))
    name = config.gold_label_dataset_id
    if name not in paths or name not in hashes:
        return episodes, {}
    with closing(roots.open(paths[name], sha256=hashes[name])) as gold:
        return episodes, read_gold_labels(gold.lines())


def _select_leaked(episodes: Sequence[GroundTruthEpisode]) -> Mapping[str, GroundTruthEpisode]:
    drawn = sorted(episodes, key=lambda one: hashlib.sha256(one.episode_id.encode()).digest())
    return {one.episode_id: one for one in drawn[: -(-len(drawn) // SHARE)]}


def _calls(result: EpisodeResult) -> list[tuple[str, JsonObject, JsonObject]]:
    """Return construct, question and answer of each call that was answered."""
    calls = cast("list[dict[str, Any]]", result.record.document["calls"])
    answered = ((one, one["attempts"][-1]["response"]["output_data"]) for one in calls)
    return [
        (one["construct_id"], one["request"]["input_data"], output)
        for one, output in answered
        if output is not None
    ]


def _places(template: JsonObject, view: ProductTheatreTemplate) -> list[Place]:
    return list(_written_places(template, last=view.hops[-1].construct_id))


def _written_places(template: JsonObject, *, last: str) -> Iterator[Place]:
    for choice in criteria_scorers(template).values():
        params = cast("dict[str, JsonValue]", choice.get("params", {}))
        field, expected = params.get("field"), params.get("expected")
        if isinstance(expected, str):
            named, separator, inner = str(field or "").partition(":")
            construct_id, path = (named, inner) if separator else (last, named)
            parts = tuple(path.split(".")) if path else ()
            yield Place(construct_id=construct_id, field=parts, expected=expected)


def _put_value(answer: dict[str, Any], path: tuple[str, ...], value: JsonValue | Absent) -> None:
    """Put a value at a path of an answer, if there is one; it replaces what is in the way."""
    if isinstance(value, Absent):
        return
    if not path:
        answer.update(value if isinstance(value, dict) else {})
        return
    for name in path[:-1]:
        if not isinstance(answer.get(name), dict):
            answer[name] = {}
        answer = answer[name]
    answer[path[-1]] = value
