"""Oracles over a history without a run: their functions called, their answers scored."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.models import GroundTruthEpisode, InvocationStatus, Scored
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.scoring.bootstrap import Sample, resampled_interval
from theatre.engine.scoring.provider import EpisodeAnswer
from theatre.scorers import load_scorers
from theatre.verification.template import (
    CRITERIA,
    EQUAL_WEIGHTS,
    OracleUnderTest,
    Terms,
    oracle_template,
)

ORACLES = Path(__file__).parents[3] / "fixtures" / "constructs" / "oracles"
ORACLE = OracleUnderTest(
    construct_id="oracle", version="0123456", adapter_type="local", endpoint="construct:oracle"
)
TERMS = Terms(weights=EQUAL_WEIGHTS, timeout_seconds=30, ground_truth_source="CUSTOM")

Oracle = Callable[[dict[str, Any]], dict[str, Any]]


def shipped_oracle(name: str) -> Oracle:
    """Return the callable of a shipped oracle."""
    if str(ORACLES) not in sys.path:
        sys.path.append(str(ORACLES))
    summarise: Oracle = importlib.import_module(name).summarise
    return summarise


def scores_of(oracle: Oracle, episodes: Sequence[GroundTruthEpisode]) -> dict[str, list[int]]:
    """Return criterion → scores in billionths, of the episodes that have one."""
    provider = TheatreScoringProvider(
        oracle_template(ORACLE, TERMS, sha256_hex(b"")), load_scorers()
    )
    found: dict[str, list[int]] = {criterion: [] for criterion in CRITERIA}
    for episode in episodes:
        output: JsonObject = oracle(episode.input_data)
        answer = EpisodeAnswer(status=InvocationStatus.SUCCESS, hops={"oracle": output})
        for criterion, result in provider.score_episode(episode, answer).by_criterion.items():
            if isinstance(result, Scored):
                found[criterion].append(result.nano)
    return found


def interval(scores: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % interval that the engine gives a mean of scores."""
    sample = Sample(
        np.array([[score] for score in scores], dtype=np.int64),
        np.ones((len(scores), 1), dtype=np.int64),
        np.ones(1),
    )
    bounds = resampled_interval(sample, seed="0" * 64, clustered=False)
    mean = sum(scores) / len(scores) / 1e9
    low, high = bounds["low"], bounds["high"]
    # All equal: the bootstrap has no interval, and a point says enough here.
    if not isinstance(low, float) or not isinstance(high, float):
        return mean, mean
    return low, high
