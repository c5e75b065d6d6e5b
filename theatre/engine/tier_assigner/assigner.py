"""The tier of a run when it is issued, and of its certificate whenever it is read.

Source: docs/contract/scoring.md §7; docs/requirements.md R38. Pure: the
time comes from the caller, the certificate is never changed, and no rule looks at a score.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import format_rfc3339
from theatre.engine.tier_assigner.facts import (
    BACKTESTED_LIFETIME,
    CLOCKS_APART,
    MAX_FAILURE_RATE,
    MAX_RUN_GAP,
    MIN_CRITERION_N,
    MIN_REPLAYS,
    MIN_RUNS,
    MIN_RUNS_SPAN,
    PROVEN_LIFETIME,
    DisputeStatus,
    IssuedCertificateFacts,
    TierFacts,
    TierHistory,
    VerificationTier,
    utc_moment,
)

_MOCK_ADAPTER = "mock"
_TELEMETRY_TOO_OLD = "telemetry-older-than-180-days"
_RUN_TOO_OLD = "run-older-than-90-days"
_LIFETIMES: dict[VerificationTier, timedelta | None] = {
    VerificationTier.UNVERIFIED: None,
    VerificationTier.BACKTESTED: BACKTESTED_LIFETIME,
    VerificationTier.PROVEN: PROVEN_LIFETIME,
}


class Unmet(NamedTuple):
    """A requirement of `tier` that is not met: a stable code, and what was seen instead."""

    code: str
    seen: str
    tier: VerificationTier

    def __str__(self) -> str:
        """Return ``replays-below-50: 41``."""
        return f"{self.code}: {self.seen}"

    def as_document(self) -> JsonObject:
        """Return the entry of `tier.json`."""
        return {"code": self.code, "seen": self.seen, "tier": self.tier.value}


class TierAssessment(NamedTuple):
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


class EffectiveTier(NamedTuple):
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
        backtested = _unmet_of_backtested(facts, known)
        proven = _unmet_of_proven(known, resolved_at=moment, backtested=not backtested)
        tier = VerificationTier.UNVERIFIED
        if not backtested:
            tier = VerificationTier.BACKTESTED if proven else VerificationTier.PROVEN
        return TierAssessment(
            tier=tier,
            unmet=backtested + proven,
            caps=tuple(requirement.code for requirement in backtested or proven),
            expires_at=TierAssigner.compute_expiry(tier, resolved_at=moment),
        )

    @staticmethod
    def compute_expiry(tier: VerificationTier, *, resolved_at: datetime) -> datetime | None:
        """Return a certificate's `expires_at`: the first instant at which it is expired."""
        # From the resolution: the issue is a moment that a second issue could move.
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
            tier=tier, issued_tier=issued.tier, status=status, reasons=reasons, as_of=moment
        )


_Reading = tuple[VerificationTier, CertificateStatus, tuple[str, ...]]


def _decay(issued: IssuedCertificateFacts, known: TierHistory, now: datetime) -> _Reading:
    """Return what time alone has left of the issued tier."""
    limit = TierAssigner.compute_expiry(issued.tier, resolved_at=issued.resolved_at)
    if limit is None:
        return issued.tier, CertificateStatus.CURRENT, ()
    if issued.issued_at > now + CLOCKS_APART:
        # By a clock that ran ahead: its lifetime would last that much longer.
        return VerificationTier.UNVERIFIED, CertificateStatus.CURRENT, ("issued-in-the-future",)
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
    return (VerificationTier.UNVERIFIED, CertificateStatus.EXPIRED, (_TELEMETRY_TOO_OLD, reason))


# The requirements of BACKTESTED and PROVEN, each one with its own code. Each is judged by itself,
# so one cause may show under two codes: no scored episode is `nothing-scored` and fewer than 50.
# Source: docs/requirements.md R36.


def _unmet_of_backtested(facts: TierFacts, history: TierHistory) -> tuple[Unmet, ...]:
    """Return what BACKTESTED lacks, in a fixed order, each code once."""
    found = dict(_of_backtested(facts, history))
    # A code that was found here says more than the same code brought from elsewhere.
    for code in sorted(facts.extra_caps):
        found.setdefault(code, "found with the evidence")
    return tuple(Unmet(code, seen, VerificationTier.BACKTESTED) for code, seen in found.items())


def _unmet_of_proven(
    known: TierHistory, *, resolved_at: datetime, backtested: bool
) -> tuple[Unmet, ...]:
    """Return what PROVEN lacks beyond BACKTESTED.

    `known` is what was known of this construct version at `resolved_at`. `backtested` says
    whether the run at hand is BACKTESTED: only then it counts among the consecutive runs.
    """
    moments = _consecutive_runs(known, resolved_at) if backtested else ()
    found = [
        *_of_runs(moments),
        *_of_telemetry(known, resolved_at),
        *_of_attestations(known),
        *_of_signals(known),
    ]
    return tuple(Unmet(code, seen, VerificationTier.PROVEN) for code, seen in found)


_Found = Iterator[tuple[str, str]]


def _of_backtested(facts: TierFacts, history: TierHistory) -> _Found:
    yield from _of_episodes(facts)
    yield from _of_criteria(facts)
    yield from _of_reproducibility(facts)
    if disputed := history.disputes_with_status(DisputeStatus.ADMITTED):
        yield "dispute-open", ", ".join(disputed)


def _of_episodes(facts: TierFacts) -> _Found:
    if facts.replay_count == 0:
        yield "nothing-scored", "0"
    if facts.replay_count < MIN_REPLAYS:
        yield "replays-below-50", str(facts.replay_count)
    # Copies of a question are one question; where there are none, the count says it all.
    if facts.distinct_inputs < min(MIN_REPLAYS, facts.replay_count):
        yield "distinct-inputs-below-50", str(facts.distinct_inputs)
    # Of those that were run: with the whole dataset below the line, a run that stopped at once
    # would have next to no failures.
    rated = facts.rated
    if rated.failed > MAX_FAILURE_RATE * rated.asked:
        yield "failure-rate-above-20", f"{rated.failed}/{rated.asked}"
    # Refused episodes are in no mean: without a bound a construct could refuse all that is hard.
    if rated.refused > facts.max_refusal_rate * rated.asked:
        seen = f"{rated.refused}/{rated.asked}, allowed {facts.max_refusal_rate}"
        yield "refusal-rate-above-max", seen


def _of_criteria(facts: TierFacts) -> _Found:
    for criterion, counts in facts.criterion_counts.items():
        if counts.counted == 0:
            yield f"criterion-unscored:{criterion}", "0"
        if counts.counted < MIN_CRITERION_N:
            yield f"criterion-n-below-30:{criterion}", str(counts.counted)
        distinct = facts.criterion_distinct_inputs[criterion]
        if distinct < min(MIN_CRITERION_N, counts.counted):
            yield f"distinct-per-criterion-below-30:{criterion}", str(distinct)
        # A scorer or its data is at fault: what such answers are worth is not known.
        if counts.unscored > 0:
            yield f"unscored-answers:{criterion}", str(counts.unscored)
        # Out of the episodes that asked for it: else a rare criterion could be declined whole.
        if counts.declined > facts.max_refusal_rate * counts.applicable:
            seen = f"{counts.declined}/{counts.applicable}, allowed {facts.max_refusal_rate}"
            yield f"declined-above-max:{criterion}", seen
    for criterion, reason in facts.unqualified_measures.items():
        yield f"measure-unqualified:{criterion}", reason


def _of_reproducibility(facts: TierFacts) -> _Found:
    absent = set(facts.missing_pins)
    if facts.construct_version is None:
        absent.add("construct_version")
    for pin in sorted(absent):
        yield f"pin-missing:{pin}", "absent"
    if facts.version_mismatches > 0:
        yield "version-mismatch", str(facts.version_mismatches)
    if facts.determinism_differences > 0:
        yield "answers-not-deterministic", str(facts.determinism_differences)
    # The pin counts too: a flag that was not set must not certify canned answers.
    if facts.rehearsal or facts.adapter_pin.partition("@")[0] == _MOCK_ADAPTER:
        yield "mock-adapter", facts.adapter_pin
    if not facts.scorers_committed:
        yield "scorers-not-committed", "no"
    if not facts.bundle_complete:
        yield "bundle-incomplete", "no"
    if not facts.commitment_verifiable:
        yield "commitment-not-verifiable", "no"


def _consecutive_runs(known: TierHistory, resolved_at: datetime) -> Sequence[datetime]:
    """Return when the runs of this version resolved, up to this one, in order.

    An UNVERIFIED run ends what came before it: the runs that count are consecutive, not
    picked. A history has each theatre once, and runs at the same instant count once.
    """
    weak = [run.resolved_at for run in known.runs if run.tier is VerificationTier.UNVERIFIED]
    since = max(weak, default=None)
    counted = {run.resolved_at for run in known.runs if since is None or run.resolved_at > since}
    return sorted(counted | {resolved_at})


def _of_runs(moments: Sequence[datetime]) -> _Found:
    """Judge the gapless tail first: an interruption long ago does not count for ever."""
    tail = _gapless_tail(moments)
    if len(tail) >= MIN_RUNS and _span(tail) >= MIN_RUNS_SPAN:
        return
    if len(moments) < MIN_RUNS:
        yield "runs-below-3", str(len(moments))
    if _span(moments) < MIN_RUNS_SPAN:
        yield "runs-span-below-90-days", str(_span(moments))
    gap = max((later - earlier for earlier, later in pairwise(moments)), default=timedelta(0))
    if gap > MAX_RUN_GAP:
        yield "run-gap-above-45-days", str(gap)


def _gapless_tail(moments: Sequence[datetime]) -> Sequence[datetime]:
    start = 0
    for index, (earlier, later) in enumerate(pairwise(moments), start=1):
        if later - earlier > MAX_RUN_GAP:
            start = index
    return moments[start:]


def _span(moments: Sequence[datetime]) -> timedelta:
    return moments[-1] - moments[0] if moments else timedelta(0)


def _of_telemetry(known: TierHistory, resolved_at: datetime) -> _Found:
    if not known.telemetry:
        yield "telemetry-missing", "0"
        return
    age = resolved_at - max(window.end for window in known.telemetry)
    if age >= PROVEN_LIFETIME:
        yield "telemetry-older-than-180-days", str(age)


def _of_attestations(known: TierHistory) -> _Found:
    """Require an independent party that came to the results of a run of this version."""
    published = {run.results_hash for run in known.runs}
    if not any(item.independent and item.results_hash in published for item in known.attestations):
        yield "attestation-missing", "0"


def _of_signals(known: TierHistory) -> _Found:
    """Let the newest word of each source decide; at the same instant the adverse one."""
    if not known.signals:
        yield "behavioural-signal-missing", "0"
        return
    newest = {
        signal.source: signal.consistent
        for signal in sorted(known.signals, key=lambda signal: (signal.at, not signal.consistent))
    }
    adverse = sorted(source for source, consistent in newest.items() if not consistent)
    if adverse:
        yield "behavioural-signal-adverse", ", ".join(adverse)
