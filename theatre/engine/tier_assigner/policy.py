"""Tier policy v0: the tiers and every number that decides between them.

Source: docs/contract/scoring.md §7. These are policy, versioned in code, not settings:
two readers of the same evidence must come to the same tier.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from fractions import Fraction

TIER_POLICY_VERSION = "v0"

MIN_REPLAYS = 50
"""Scored episodes that BACKTESTED needs."""

MAX_FAILURE_RATE = Fraction(1, 5)
"""Share of the episodes run that may fail; exactly this much is allowed."""

MIN_CRITERION_N = 30
"""Counted episodes (scored and missing) that BACKTESTED needs on every criterion."""

MIN_RUNS = 3
"""Runs of one construct version that PROVEN needs, the one being issued included."""

MIN_RUNS_SPAN = timedelta(days=90)
"""Time from the first to the newest of those runs."""

MAX_RUN_GAP = timedelta(days=45)
"""Time between neighbouring runs; exactly this much is allowed."""

BACKTESTED_LIFETIME = timedelta(days=90)
PROVEN_LIFETIME = timedelta(days=180)
"""Also how long a telemetry window stands for production use, from its end."""


class VerificationTier(StrEnum):
    """How well a claim is evidenced, lowest first. It says nothing about how good it is.

    Compare by identity: as text, BACKTESTED sorts before UNVERIFIED.
    """

    UNVERIFIED = "UNVERIFIED"
    BACKTESTED = "BACKTESTED"
    PROVEN = "PROVEN"
