"""Replay: call the real construct for every episode, record, settle, seal, resolve."""

from theatre.engine.replay.engine import Progress, ReplayEngine, RunSettings, Surroundings
from theatre.engine.replay.journal import (
    DatasetReader,
    DatasetSource,
    RecordedSequences,
    RunJournal,
)
from theatre.engine.replay.preflight import refuse_unsupported

__all__ = [
    "DatasetReader",
    "DatasetSource",
    "Progress",
    "RecordedSequences",
    "ReplayEngine",
    "RunJournal",
    "RunSettings",
    "Surroundings",
    "refuse_unsupported",
]
