"""What turns one episode into several calls: a pure, versioned plug-in."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

from theatre.engine.canonical_json import JsonObject

SINGLE_CALL = "single_call"
"""The `episode_runner` of a template that asks for none."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of an episode: the construct at place `hop` of the chain, and what it is sent."""

    hop: int
    input_data: JsonObject


EpisodePlay: TypeAlias = Generator[JsonObject | Turn, JsonObject, JsonObject]
"""Yields what a construct is sent, is sent what it answered, returns what scorers see.

What is yielded without a `Turn` round it goes to the first construct.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRunner:
    """A pure, versioned runner of interactive episodes (group `echelon.episode_runners`).

    `play` is given the episode's input and a seed, and makes one call at least and `max_calls`
    at most, the first of them to the first of its `constructs`, which are as many as the chain
    has. The same answers give the same requests and the same result: the check plays every
    episode again. It never raises on an answer, whatever that holds.
    """

    name: str
    version: str
    max_calls: int
    play: Callable[[JsonObject, str], EpisodePlay]
    constructs: int = 1

    @property
    def pin(self) -> str:
        """Return `name@version`, as written in the evidence."""
        return f"{self.name}@{self.version}"


def turn_of(asked: JsonObject | Turn) -> Turn:
    """Return the call that a play asks for."""
    return asked if isinstance(asked, Turn) else Turn(0, asked)
