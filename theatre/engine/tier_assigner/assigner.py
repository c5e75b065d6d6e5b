"""The tier of a run when it is issued, and of its certificate whenever it is read.

Source: docs/contract/scoring.md §7; docs/requirements.md R38. Pure: the
time comes from the caller, the certificate is never changed, and no rule looks at a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.tier_assigner.facts import (
    BACKTESTED_LIFETIME,
    PROVEN_LIFETIME,
    IssuedCertificateFacts,
    TierFacts,
    VerificationTier,
    utc_moment,
)
from theatre.engine.tier_assigner.history import DisputeStatus, TierHistory
from theatre.engine.tier_assigner.requirements import (
    Unmet,
    unmet_of_backtested,
    unmet_of_proven,
)

_TELEMETRY_TOO_OLD = "telemetry-older-than-180-days"
_RUN_TOO_OLD = "run-older-than-90-days"
_LIFETIMES: dict[VerificationTier, timedelta | None] = {
    VerificationTier.UNVERIFIED: None,
    VerificationTier.BACKTESTED: BACKTESTED_LIFETIME,
    VerificationTier.PROVEN: PROVEN_LIFETIME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAssessment:
    """A tier and everything that is missing for the ones above it.

    `caps` are the codes that stand between this tier and the next: for UNVERIFIED those of
    BACKTESTED, for BACKTESTED those of PROVEN. `expires_at` is None for UNVERIFIED.
    """

    tier: VerificationTier
    unmet: tuple[Unmet, ...]
    caps: tuple[str, ...]
    expires_at: datetime | None

    def as_document(self) -> JsonObject:
        """Return the assessment's part of `tier.json`. It is recomputed, never read back."""
        return {
            "tier": self.tier.value,
            "unmet": [requirement.as_document() for requirement in self.unmet],
            "caps": list(self.caps),
            "expires_at": None if self.expires_at is None else format_rfc3339(self.expires_at),
        }


class CertificateStatus(StrEnum):
    """Whether a certificate still counts. How much it counts for, tier and reasons say."""

    CURRENT = "current"
    EXPIRED = "expired"
    """Fell to UNVERIFIED by time."""
    REVOKED = "revoked"
    """Taken back; nothing in this release does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveTier:
    """What an issued certificate is worth at `as_of`; `reasons` are stable codes."""

    tier: VerificationTier
    issued_tier: VerificationTier
    status: CertificateStatus
    reasons: tuple[str, ...]
    as_of: datetime


class TierAssigner:
    """Deterministic tier assignment by policy v0."""

    @staticmethod
    def assign(facts: TierFacts, history: TierHistory, *, resolved_at: datetime) -> TierAssessment:
        """Return the tier of a run that resolved at `resolved_at`, and what it lacks.

        What the history dates after `resolved_at` does not count. Raises ClockError for a time
        that is naive or out of range.
        """
        moment = utc_moment(resolved_at)
        known = history.as_of(moment).about(facts.construct_id, facts.construct_version)
        backtested = unmet_of_backtested(facts, known)
        proven = unmet_of_proven(known, resolved_at=moment, backtested=not backtested)
        tier = _highest(backtested, proven)
        return TierAssessment(
            tier=tier,
            unmet=backtested + proven,
            caps=tuple(requirement.code for requirement in backtested or proven),
            expires_at=TierAssigner.compute_expiry(tier, resolved_at=moment),
        )

    @staticmethod
    def compute_expiry(tier: VerificationTier, *, resolved_at: datetime) -> datetime | None:
        """Return a certificate's `expires_at`: the first instant at which it is expired."""
        moment = utc_moment(resolved_at)
        lifetime = _LIFETIMES[tier]
        return None if lifetime is None else moment + lifetime

    @staticmethod
    def effective(
        issued: IssuedCertificateFacts, history: TierHistory, *, now: datetime
    ) -> EffectiveTier:
        """Return what `issued` is worth at `now`; runs and telemetry after `now` do not count.

        An admitted dispute leaves UNVERIFIED, however it is dated; one that is only filed is named
        among the reasons. Raises ClockError for a time that is naive or out of range.
        """
        moment = utc_moment(now)
        known = history.as_of(moment).about(issued.construct_id, issued.construct_version)
        tier, status, reasons = _decay(issued, known, moment)
        if history.disputes_with_status(DisputeStatus.ADMITTED):
            tier = VerificationTier.UNVERIFIED
            reasons = ("dispute-open", *reasons)
        if history.disputes_with_status(DisputeStatus.FILED):
            reasons = (*reasons, "dispute-filed")
        return EffectiveTier(
            tier=tier,
            issued_tier=issued.tier,
            status=status,
            reasons=reasons,
            as_of=moment,
        )


_Reading = tuple[VerificationTier, CertificateStatus, tuple[str, ...]]


def _highest(backtested: tuple[Unmet, ...], proven: tuple[Unmet, ...]) -> VerificationTier:
    if backtested:
        return VerificationTier.UNVERIFIED
    return VerificationTier.BACKTESTED if proven else VerificationTier.PROVEN


def _decay(issued: IssuedCertificateFacts, known: TierHistory, now: datetime) -> _Reading:
    """Return what time alone has left of the issued tier."""
    limit = TierAssigner.compute_expiry(issued.tier, resolved_at=issued.resolved_at)
    if limit is None:
        return issued.tier, CertificateStatus.CURRENT, ()
    if issued.tier is VerificationTier.PROVEN:
        confirmed = [
            window.end + PROVEN_LIFETIME
            for window in known.telemetry
            if window.confirmed_at > issued.issued_at
        ]
        limit = max([limit, *confirmed])
    if now < limit:
        return issued.tier, CertificateStatus.CURRENT, ()
    if issued.tier is VerificationTier.PROVEN:
        return _lapse(issued, known, now)
    return VerificationTier.UNVERIFIED, CertificateStatus.EXPIRED, (_RUN_TOO_OLD,)


def _lapse(issued: IssuedCertificateFacts, known: TierHistory, now: datetime) -> _Reading:
    """Judge a lapsed PROVEN by the BACKTESTED rule: the newest run of that version decides.

    The newest, not the best: a run that is UNVERIFIED itself keeps nothing alive.
    """
    runs = [(run.resolved_at, run.tier) for run in known.runs]
    newest = max([issued.resolved_at, *(resolved_at for resolved_at, _ in runs)])
    if now >= newest + BACKTESTED_LIFETIME:
        reason = _RUN_TOO_OLD
    elif (newest, VerificationTier.UNVERIFIED) in runs:
        reason = "newest-run-unverified"
    else:
        return VerificationTier.BACKTESTED, CertificateStatus.CURRENT, (_TELEMETRY_TOO_OLD,)
    return (
        VerificationTier.UNVERIFIED,
        CertificateStatus.EXPIRED,
        (_TELEMETRY_TOO_OLD, reason),
    )
