"""Replay: call the real construct for every episode, record, settle, seal, resolve."""

from theatre.engine.replay.engine import ReplayEngine
from theatre.engine.replay.journal import (
    DatasetReader,
    DatasetSource,
    RecordedSequences,
    RunJournal,
)
from theatre.engine.replay.progress import Progress
from theatre.engine.replay.surroundings import RunSettings, Surroundings

__all__ = [
    "DatasetReader",
    "DatasetSource",
    "Progress",
    "RecordedSequences",
    "ReplayEngine",
    "RunJournal",
    "RunSettings",
    "Surroundings",
]
