"""The loader of every installed runner of interactive episodes."""

from __future__ import annotations

from importlib.metadata import entry_points

from theatre.engine.errors import TheatreError
from theatre.engine.models import EpisodeRunner
from theatre.scorers.registration import load_plugins

ENTRY_POINT_GROUP = "echelon.episode_runners"


class RunnerRegistrationError(TheatreError):
    """An installed distribution registers a runner that cannot be used."""

    code = "runner-registration"


def load_episode_runners() -> dict[str, EpisodeRunner]:
    """Return every runner installed in this environment by name, sorted by name.

    Raises RunnerRegistrationError as `load_scorers` does for scorers.
    """
    entries = entry_points(group=ENTRY_POINT_GROUP)
    return load_plugins(entries, EpisodeRunner, RunnerRegistrationError)
