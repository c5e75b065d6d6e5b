"""Plays interactive episodes with answers that no work went into.

Source: docs/contract/earned.md §5.2. The episode is the one that the
construct was put to, with the same seed; every construct of it is answered for in the same way.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping, Sequence

from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.coin import Draws
from theatre.engine.errors import TheatreError, UnplayableError
from theatre.engine.models import (
    EpisodePlay,
    EpisodeRunner,
    GroundTruthEpisode,
    InvocationStatus,
    Turn,
    turn_of,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring.provider import EpisodeAnswer
from theatre.engine.templates import Hop


class TrivialPlayers:
    """Answers turn after turn with `{}`, or with what the turn itself was sent."""

    def __init__(
        self,
        runner: EpisodeRunner,
        hops: Sequence[Hop],
        *,
        draws: Draws,
        registry: SchemaRegistry,
    ) -> None:
        """Take the runner and the constructs of an episode in the order of the chain."""
        self._runner = runner
        self._hops = hops
        self._draws = draws
        self._registry = registry

    def answer(self, episode: GroundTruthEpisode, *, copies: bool) -> EpisodeAnswer:
        """Return what comes of `episode`; no output where an answer fits no committed shape.

        UnplayableError where the runner raises at such an answer, or asks for more calls than it
        says it may. What the runner raises on purpose is passed on: its surroundings are at fault.
        """
        seed = self._draws.play_seed(episode.episode_id)
        play = self._runner.play(copy.deepcopy(episode.input_data), seed)
        try:
            with contextlib.closing(play):
                result = self._result(play, copies=copies)
        except TheatreError:
            raise
        except Exception as error:  # a plug-in may raise anything
            raise UnplayableError(
                f"expected runner {self._runner.pin} to play on, got a {type(error).__name__}"
            ) from error
        outputs: Mapping[str, JsonObject] = (
            {} if result is None else {self._hops[0].construct_id: result}
        )
        return EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=outputs)

    def _result(self, play: EpisodePlay, *, copies: bool) -> JsonObject | None:
        """Return what the runner makes of the answers; None where one is not accepted."""
        try:
            turn = turn_of(next(play))
            for _ in range(self._runner.max_calls):
                # As over a wire: what is answered shares nothing with what was asked.
                answer = parse_object(canonical_bytes(turn.input_data)) if copies else {}
                if not self._fits(turn, answer):
                    return None
                turn = turn_of(play.send(answer))
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        raise UnplayableError(
            f"expected at most {self._runner.max_calls} calls of runner {self._runner.pin}, "
            "got one more"
        )

    def _fits(self, turn: Turn, answer: JsonObject) -> bool:
        spec = self._hops[turn.hop].output_spec
        return not spec or not self._registry.validate_inline(spec, answer)
