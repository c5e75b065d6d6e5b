"""Replay: call the real construct for every episode, record, settle, seal, resolve."""

from theatre.engine.replay.distinct_evidence import DistinctEvidence
from theatre.engine.replay.engine import ReplayEngine
from theatre.engine.replay.failure_reasons import (
    FailureReasons,
    reasons_with_examples,
    with_reasons,
)
from theatre.engine.replay.human_scores import SubmittedScore
from theatre.engine.replay.journal import (
    DatasetReader,
    DatasetSource,
    RecordedSequences,
    RunJournal,
)
from theatre.engine.replay.progress import Progress
from theatre.engine.replay.rating_desk import HumanReview, RatingItem, rating_items
from theatre.engine.replay.sealed_run import Rehearsal
from theatre.engine.replay.surroundings import RunContext, RunSettings
from theatre.engine.replay.tier_evidence import unqualified_measures

__all__ = [
    "DatasetReader",
    "DatasetSource",
    "DistinctEvidence",
    "FailureReasons",
    "HumanReview",
    "Progress",
    "RatingItem",
    "RecordedSequences",
    "Rehearsal",
    "ReplayEngine",
    "RunContext",
    "RunJournal",
    "RunSettings",
    "SubmittedScore",
    "rating_items",
    "reasons_with_examples",
    "unqualified_measures",
    "with_reasons",
]
