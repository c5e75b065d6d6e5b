"""The lines that a computation over `episodes` is given, read for debates; never raises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.models import MAX_EPISODE_BYTES

_ROOM = 4 * MAX_EPISODE_BYTES
"""A line repeats the input, and holds the result that the runner made of it."""

NO_PARAMS: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
}


class Line(NamedTuple):
    """One episode: what was asked and expected, and the runner's result, None without one."""

    episode_id: str
    asked: JsonObject
    expected: JsonObject
    result: JsonValue


def lines_of(lines: Iterable[bytes]) -> Iterator[Line]:
    """Yield each line that can be read; the engine writes no others."""
    for raw in lines:
        try:
            line = parse_object(raw, max_bytes=_ROOM)
        except ParseError:
            continue
        hops = line.get("hops")
        results = list(hops.values()) if isinstance(hops, dict) else []
        yield Line(
            episode_id=str(line.get("episode_id")),
            asked=_object(line.get("input_data")),
            expected=_object(line.get("expected_output")),
            result=results[-1] if results else None,
        )


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
