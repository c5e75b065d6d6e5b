"""What settling a run brought."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.tier_assigner import TierAssessment


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The result of a run that was never to be certified: its scores, and what they would be worth.

    No step of the programme was carried out but the calls: caps of steps are not in `assessment`,
    and parts that people score are missing.
    """

    aggregate: JsonObject
    assessment: TierAssessment


REPRODUCED = "reproduction"
"""The reason of a run that may have no certificate: its coin was public before its first call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRun:
    """What settling brought: a certificate in its bundle, or the reason why there is none.

    A reproduction has a bundle, too.

    `already_noted` is true where the store's chain holds the sealing entry from before a crash.
    """

    aggregate: JsonObject
    certificate: JsonObject | None = None
    sealed_event: AuditEvent | None = None
    bundle_path: Path | None = None
    reason: str | None = None
    already_noted: bool = False

    def outcome(self) -> JsonObject:
        """Return the detail of the `resolved` event."""
        if self.certificate is None:
            return {
                "outcome": "no_certificate",
                "outcome_reason": self.reason,
                "results_hash": self.aggregate["results_hash"],
            }
        return {
            "outcome": "certified",
            "certificate_id": self.certificate["certificate_id"],
            "verification_tier": self.certificate["verification_tier"],
            "results_hash": self.certificate["results_hash"],
        }
