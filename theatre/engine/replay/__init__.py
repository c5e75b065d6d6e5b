"""Replay: call the real construct for every episode, record, settle, seal, resolve."""

from theatre.engine.replay.context import (
    DatasetSource,
    Progress,
    RecordedSequences,
    Rehearsal,
    RunContext,
    RunJournal,
    RunSettings,
)
from theatre.engine.replay.engine import ReplayEngine
from theatre.engine.replay.human_review import HumanReview, RatingItem, SubmittedScore, rating_items
from theatre.engine.replay.scoring_pass import DistinctEvidence
from theatre.engine.replay.tier_evidence import unqualified_measures
from theatre.engine.replay.trail import FailureReasons, reasons_with_examples, with_reasons

__all__ = [
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
