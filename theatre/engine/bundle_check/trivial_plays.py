"""What comes of an interactive episode that is answered without any work.

Source: docs/contract/earned.md §5.2.

The installed runner plays it from the seed that the revealed coin gives; no construct is asked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from theatre.engine.bundle_check.calls import OutputShape
from theatre.engine.bundle_check.scorers import EpisodeAnswer
from theatre.engine.bundle_check.steps import CommittedHop
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.coin import Draws
from theatre.engine.errors import TheatreError, UnplayableError
from theatre.engine.models import EpisodeRunner, GroundTruthEpisode, InvocationStatus, turn_of
from theatre.engine.schema_registry import SchemaRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrivialPlays:
    """Plays episodes of one bundle with `{}` for an answer, or with a copy of each question."""

    runner: EpisodeRunner
    hops: Sequence[CommittedHop]
    draws: Draws
    registry: SchemaRegistry
    progress: Callable[[int], None]
    """Is called before each episode with the number of those before it; may raise."""

    def play(self, baseline: str, episode: GroundTruthEpisode) -> EpisodeAnswer:
        """Return the answer that scorers see, without any output where no shape fits.

        UnplayableError where the runner does not bring the episode to an end. What it raises on
        purpose is passed on.
        """
        try:
            result = self._result(baseline, episode)
        except TheatreError:
            raise
        except Exception as error:  # a plug-in may raise anything
            raise UnplayableError(f"{self.runner.pin} raised {type(error).__name__}") from error
        hops = {} if result is None else {self.hops[0].construct_id: result}
        return EpisodeAnswer(status=InvocationStatus.SUCCESS, hops=hops)

    def _result(self, baseline: str, episode: GroundTruthEpisode) -> JsonObject | None:
        seed, answer = self.draws.play_seed(episode.episode_id), None
        with closing(self.runner.play(copy.deepcopy(episode.input_data), seed)) as play:
            for answered in range(self.runner.max_calls + 1):
                try:
                    turn = turn_of(next(play) if answer is None else play.send(answer))
                except StopIteration as ended:
                    return ended.value  # type: ignore[no-any-return]
                if answered == self.runner.max_calls:
                    break
                asked = parse_object(canonical_bytes(turn.input_data))
                answer = asked if baseline == "copied" else {}
                if not OutputShape(self.hops[turn.hop].output_spec, self.registry).fits(answer):
                    return None
        raise UnplayableError(f"{self.runner.pin} asks more than {self.runner.max_calls} times")
