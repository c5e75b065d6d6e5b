"""What happened around a construct outside the run at hand: a value that the assigner reads.

Source: contract/scoring.md, "Tiers (v0)". Runs, telemetry and signals name the construct
version they are about, attestations the results they reproduced, so the assigner itself
picks what counts. Disputes do not: whoever collects the history puts in those that concern
the certificate at hand (when issuing: the construct), and every one of them counts.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import model_validator

from theatre.engine.tier_assigner.policy import VerificationTier
from theatre.engine.tier_assigner.records import Moment, Name, Record, Sha256


class RunRecord(Record):
    """A theatre that resolved with a certificate; `tier` is the issued one."""

    theatre_id: Name
    construct_id: Name
    construct_version: Name
    tier: VerificationTier
    resolved_at: Moment
    results_hash: Sha256


class TelemetryWindow(Record):
    """Production use of one construct version from `start` to `end`, confirmed afterwards."""

    construct_id: Name
    construct_version: Name
    start: Moment
    end: Moment
    confirmed_at: Moment

    @model_validator(mode="after")
    def _is_a_window_of_the_past(self) -> Self:
        # A window that ends after its confirmation would prolong a tier ahead of the evidence.
        if not self.start < self.end <= self.confirmed_at:
            raise ValueError("expected start < end ≤ confirmed_at")
        return self


class Attestation(Record):
    """Somebody ran it again; `results_hash` is what **their** run came to."""

    attester: Name
    independent: bool
    results_hash: Sha256
    at: Moment


class DisputeStatus(StrEnum):
    """Where a dispute stands. Only an admitted one lowers a tier; a filed one is shown."""

    FILED = "filed"
    ADMITTED = "admitted"
    RESOLVED = "resolved"


class Dispute(Record):
    """An objection; `at` is when it came to its present status."""

    dispute_id: Name
    status: DisputeStatus
    at: Moment


class BehaviouralSignal(Record):
    """Does the construct perform in production as it was verified? One source's word."""

    source: Name
    construct_id: Name
    construct_version: Name
    consistent: bool
    at: Moment


class TierHistory(Record):
    """All of it, in any order; empty where nothing is known."""

    runs: tuple[RunRecord, ...] = ()
    telemetry: tuple[TelemetryWindow, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    disputes: tuple[Dispute, ...] = ()
    signals: tuple[BehaviouralSignal, ...] = ()

    def known_of(
        self, construct_id: str, construct_version: str | None, *, until: datetime
    ) -> TierHistory:
        """Return what was known of one construct version at `until`, inclusive.

        Disputes stay, all of them: one that is dated by a fast clock must still count.
        """

        def is_about(record: RunRecord | TelemetryWindow | BehaviouralSignal) -> bool:
            return (record.construct_id, record.construct_version) == (
                construct_id,
                construct_version,
            )

        return TierHistory(
            runs=tuple(run for run in self.runs if is_about(run) and run.resolved_at <= until),
            telemetry=tuple(
                window
                for window in self.telemetry
                if is_about(window) and window.confirmed_at <= until
            ),
            attestations=tuple(item for item in self.attestations if item.at <= until),
            disputes=self.disputes,
            signals=tuple(item for item in self.signals if is_about(item) and item.at <= until),
        )

    def disputes_that_are(self, status: DisputeStatus) -> tuple[str, ...]:
        """Return the ids of the disputes in `status`, sorted."""
        return tuple(sorted(item.dispute_id for item in self.disputes if item.status is status))
