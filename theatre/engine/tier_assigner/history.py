"""What happened around a construct outside the run at hand: a value that the assigner reads.

Source: docs/contract/scoring.md §7. Runs, telemetry and signals name the construct
version they are about, attestations the results they reproduced, so the assigner itself
picks what counts. Disputes do not: the caller that collects the history includes those that concern
the certificate at hand (when issuing: the construct), and every one of them counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import model_validator

from theatre.engine.tier_assigner.facts import Moment, Name, Record, Sha256, Uuid, VerificationTier


class RunRecord(Record):
    """A theatre that resolved with a certificate; `tier` is the issued one."""

    theatre_id: Uuid
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
    """A second party ran it again; `results_hash` is what **their** run came to."""

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
    """All of it, in any order; empty where nothing is known. No fact is in it twice."""

    runs: tuple[RunRecord, ...] = ()
    telemetry: tuple[TelemetryWindow, ...] = ()
    attestations: tuple[Attestation, ...] = ()
    disputes: tuple[Dispute, ...] = ()
    signals: tuple[BehaviouralSignal, ...] = ()

    @model_validator(mode="after")
    def _require_unique(self) -> Self:
        # One run that is listed three times would count as three runs to PROVEN.
        listed: dict[str, Sequence[Hashable]] = {
            "runs with a theatre_id each": [run.theatre_id for run in self.runs],
            "disputes with a dispute_id each": [item.dispute_id for item in self.disputes],
            "telemetry without copies": self.telemetry,
            "attestations without copies": self.attestations,
            "signals without copies": self.signals,
        }
        for expected, items in listed.items():
            if len(set(items)) < len(items):
                raise ValueError(f"expected {expected}")
        return self

    def excluding(self, theatre_id: str) -> TierHistory:
        """Return the history without the run of that theatre: it is not its own past."""
        return self.model_copy(
            update={"runs": tuple(run for run in self.runs if run.theatre_id != theatre_id)}
        )

    def as_of(self, moment: datetime) -> TierHistory:
        """Return what was known at `moment`, inclusive.

        A dispute that comes later counts when the certificate is read.
        """
        return TierHistory(
            runs=tuple(run for run in self.runs if run.resolved_at <= moment),
            telemetry=tuple(item for item in self.telemetry if item.confirmed_at <= moment),
            attestations=tuple(item for item in self.attestations if item.at <= moment),
            disputes=tuple(item for item in self.disputes if item.at <= moment),
            signals=tuple(item for item in self.signals if item.at <= moment),
        )

    def about(self, construct_id: str, construct_version: str | None) -> TierHistory:
        """Return what is about one construct version; disputes and attestations stay, all."""
        subject = (construct_id, construct_version)

        def is_about(record: RunRecord | TelemetryWindow | BehaviouralSignal) -> bool:
            return (record.construct_id, record.construct_version) == subject

        return self.model_copy(
            update={
                "runs": tuple(filter(is_about, self.runs)),
                "telemetry": tuple(filter(is_about, self.telemetry)),
                "signals": tuple(filter(is_about, self.signals)),
            }
        )

    def disputes_with_status(self, status: DisputeStatus) -> tuple[str, ...]:
        """Return the ids of the disputes in `status`, sorted."""
        return tuple(sorted(item.dispute_id for item in self.disputes if item.status is status))
