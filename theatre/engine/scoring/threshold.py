"""When too many failures end a run, decided in dataset order whatever the order of arrival."""

from __future__ import annotations

from fractions import Fraction
from math import floor

from theatre.engine.models import EpisodeOutcome


class FailureStop:
    """Counts failures episode by episode; says after which one the run ends.

    Source: docs/contract/scoring.md: the run ends at the smallest k at which the failures among
    episodes 1…k exceed threshold * total. `threshold` None means it never stops.
    """

    def __init__(self, *, total: int, threshold: Fraction | None) -> None:
        self._limit = None if threshold is None else threshold * total
        self.fatal = None if self._limit is None else floor(self._limit) + 1
        """With how many failures the run ends; None where it never does."""
        self._failures = 0
        self.stopped = False

    def count(self, outcome: EpisodeOutcome) -> None:
        """Take the outcome of the next episode in dataset order."""
        self._failures += outcome is EpisodeOutcome.MISSING
        self.stopped = self._limit is not None and self._failures > self._limit
