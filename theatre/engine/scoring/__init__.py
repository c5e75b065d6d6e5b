"""Scoring: outcomes, exact arithmetic, intervals, aggregate. Pure; no clock, no order, no I/O."""

from theatre.engine.scoring.aggregate import Aggregator, ScoredEpisode, left_out_findings
from theatre.engine.scoring.arithmetic import (
    FailureStop,
    exact,
    nano_to_number,
    ratio,
    to_nano,
    wilson_interval,
)
from theatre.engine.scoring.baselines import (
    Baseline,
    BaselineScores,
    DrawnEpisodes,
    TrivialPlayers,
    baseline_findings,
)
from theatre.engine.scoring.calibration import Probability, stated_probability
from theatre.engine.scoring.data_audit import AuditedEpisode, DataAudit, data_findings
from theatre.engine.scoring.holdout import is_held_out
from theatre.engine.scoring.provider import CriterionPlan, EpisodeAnswer, TheatreScoringProvider
from theatre.engine.scoring.ratings import CommittedRating, PanelScores, committed_ratings
from theatre.engine.scoring.repeats import RepeatScores, certified_repeats, deciding_repeat
from theatre.engine.scoring.tallies import COMPOSITE

__all__ = [
    "COMPOSITE",
    "Aggregator",
    "AuditedEpisode",
    "Baseline",
    "BaselineScores",
    "CommittedRating",
    "CriterionPlan",
    "DataAudit",
    "DrawnEpisodes",
    "EpisodeAnswer",
    "FailureStop",
    "PanelScores",
    "Probability",
    "RepeatScores",
    "ScoredEpisode",
    "TheatreScoringProvider",
    "TrivialPlayers",
    "baseline_findings",
    "certified_repeats",
    "committed_ratings",
    "data_findings",
    "deciding_repeat",
    "exact",
    "is_held_out",
    "left_out_findings",
    "nano_to_number",
    "ratio",
    "stated_probability",
    "to_nano",
    "wilson_interval",
]
