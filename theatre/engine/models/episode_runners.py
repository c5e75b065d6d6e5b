"""What turns one episode into several calls: a pure, versioned plug-in."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

from theatre.engine.canonical_json import JsonObject

SINGLE_CALL = "single_call"
"""The `episode_runner` of a template that asks for none."""

EpisodePlay: TypeAlias = Generator[JsonObject, JsonObject, JsonObject]
"""Yields what the construct is sent, is sent what it answered, returns what scorers see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRunner:
    """A pure, versioned runner of interactive episodes (group `echelon.episode_runners`).

    `play` is given the episode's input and a seed, and makes one call at least and `max_calls`
    at most. The same answers give the same requests and the same result: the check plays every
    episode again. It never raises on an answer, whatever that holds.
    """

    name: str
    version: str
    max_calls: int
    play: Callable[[JsonObject, str], EpisodePlay]

    @property
    def pin(self) -> str:
        """Return `name@version`, as it stands in the evidence."""
        return f"{self.name}@{self.version}"


def play_seed(commitment_hash: str, episode_id: str) -> str:
    """Return the seed of an episode: it is fixed at commit, and no request holds it."""
    return f"{commitment_hash}:play:{episode_id}"
