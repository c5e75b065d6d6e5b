"""How near the confidence that an oracle states for its claims is to the verdicts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring.arithmetic import NANO, ratio, rounded_number
from theatre.engine.scoring.calibration import BINS, Bin, brier_score, stated_probability
from theatre.verification.verdicts import JudgedClaim

MIN_CLAIMS = 100
"""Below so many claims with a stated confidence there is no Brier score."""

TOO_FEW = "fewer-than-100-stated-claims"
NOT_JUDGED = "claims-not-judged-singly"


@dataclass(slots=True)
class ClaimCalibration:
    """Exact sums over the claims whose confidence is stated, in ten bins of equal width.

    Each claim has a verdict in each of `passes`. The Brier score is the mean of theirs, and a
    claim counts once, however often it was judged.
    """

    passes: int = 1
    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])
    _silent: int = 0

    def add(
        self, judged: Sequence[Sequence[JudgedClaim]], confidences: Sequence[JsonValue]
    ) -> None:
        """Add the claims of one answer, with the values at their places in `confidences`.

        `judged` has them pass by pass. A claim whose confidence is no number in [0, 1] has stated
        none.
        """
        for claim in (claim for verdicts in judged for claim in verdicts):
            stated = stated_probability(
                confidences[claim.place] if claim.place < len(confidences) else None
            )
            if stated is None:
                self._silent += 1
                continue
            place = min(stated.nano * BINS // NANO, BINS - 1)
            self.bins[place].add(stated.nano, right=claim.supported)

    @property
    def stated(self) -> int:
        """Return how many claims came with a confidence."""
        return sum(one.count for one in self.bins) // self.passes

    @property
    def brier(self) -> float | None:
        """Return the Brier score to nine places; None below MIN_CLAIMS."""
        return rounded_number(brier_score(self.bins)) if self.stated >= MIN_CLAIMS else None

    def as_document(self) -> JsonObject:
        """Return the counts and the reliability curve; what held is a mean over passes."""
        return {
            "stated": self.stated,
            "without_confidence": self._silent // self.passes,
            "supported": ratio(sum(one.right for one in self.bins), self.passes),
            "bins": [
                {
                    "low": place / BINS,
                    "high": (place + 1) / BINS,
                    "count": one.count // self.passes,
                    "mean_confidence": ratio(one.total, one.count * NANO),
                    "share_supported": ratio(one.right, one.count),
                }
                for place, one in enumerate(self.bins)
            ],
        }


def read_confidences(output: JsonObject, claims: int) -> Sequence[JsonValue]:
    """Return `metadata.claim_confidence`; none of it where it is not parallel to `key_claims`."""
    metadata = output.get("metadata")
    stated = metadata.get("claim_confidence") if isinstance(metadata, dict) else None
    return stated if isinstance(stated, list) and len(stated) == claims else ()
