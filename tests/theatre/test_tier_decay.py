"""Tiers by policy v0 when a certificate is read: current or expired, and for how much."""

from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_OID, uuid5

import pytest

from theatre.engine.tier_assigner import (
    CertificateStatus,
    Dispute,
    DisputeStatus,
    EffectiveTier,
    IssuedCertificateFacts,
    RunRecord,
    TelemetryWindow,
    TierAssigner,
    TierHistory,
    VerificationTier,
)

UNVERIFIED, BACKTESTED, PROVEN = VerificationTier
RESOLVED = datetime(2026, 6, 30, 12, 0, tzinfo=UTC)
ISSUED = timedelta(minutes=5)
INSTANT = timedelta(microseconds=1)
OTHER = {"construct_version": "v2"}
FOREIGN = {"construct_id": "somebody-else"}

Reading = tuple[VerificationTier, str, tuple[str, ...]]


def days(number: float) -> timedelta:
    return timedelta(days=number)


def run(day: float, /, **changed: object) -> RunRecord:
    """Return a run that resolved so many days after the certificate's own."""
    plain: dict[str, object] = {
        "theatre_id": str(uuid5(NAMESPACE_OID, f"theatre-{day}")),
        "construct_id": "cartograph",
        "construct_version": "v1",
        "tier": BACKTESTED,
        "resolved_at": RESOLVED + days(day),
        "results_hash": "ab" * 32,
    }
    return RunRecord.model_validate(plain | changed)


def telemetry(
    end: timedelta, confirmed: timedelta | None = None, /, **changed: object
) -> TelemetryWindow:
    """Return a window of a week that ends at RESOLVED + `end`."""
    plain: dict[str, object] = {
        "construct_id": "cartograph",
        "construct_version": "v1",
        "start": RESOLVED + end - days(7),
        "end": RESOLVED + end,
        "confirmed_at": RESOLVED + (end if confirmed is None else confirmed),
    }
    return TelemetryWindow.model_validate(plain | changed)


def effective(
    tier: VerificationTier, after: timedelta, history: TierHistory | None = None
) -> EffectiveTier:
    """Return what a certificate of `tier` is worth so long after its run resolved."""
    certificate = IssuedCertificateFacts(
        construct_id="cartograph",
        construct_version="v1",
        tier=tier,
        issued_at=RESOLVED + ISSUED,
        resolved_at=RESOLVED,
    )
    return TierAssigner.effective(certificate, history or TierHistory(), now=RESOLVED + after)


def read_at(
    tier: VerificationTier, after: timedelta, history: TierHistory | None = None
) -> Reading:
    reading = effective(tier, after, history)
    return reading.tier, reading.status.value, reading.reasons


OLD_RUN = "run-older-than-90-days"
OLD_TELEMETRY = "telemetry-older-than-180-days"
DATED_AHEAD = (UNVERIFIED, "current", ("issued-in-the-future",))
VALID_PROVEN = (PROVEN, "current", ())
VALID_BACKTESTED = (BACKTESTED, "current", ())
EXPIRED_BACKTESTED = (UNVERIFIED, "expired", (OLD_RUN,))
LAPSED = (BACKTESTED, "current", (OLD_TELEMETRY,))
EXPIRED_PROVEN = (UNVERIFIED, "expired", (OLD_TELEMETRY, OLD_RUN))


@pytest.mark.parametrize(
    ("after", "backtested", "proven"),
    [
        (-INSTANT, DATED_AHEAD, DATED_AHEAD),
        (days(0), VALID_BACKTESTED, VALID_PROVEN),
        (days(89), VALID_BACKTESTED, VALID_PROVEN),
        (days(90) - INSTANT, VALID_BACKTESTED, VALID_PROVEN),
        (days(90), EXPIRED_BACKTESTED, VALID_PROVEN),
        (days(91), EXPIRED_BACKTESTED, VALID_PROVEN),
        (days(179), EXPIRED_BACKTESTED, VALID_PROVEN),
        (days(180) - INSTANT, EXPIRED_BACKTESTED, VALID_PROVEN),
        (days(180), EXPIRED_BACKTESTED, EXPIRED_PROVEN),
        (days(181), EXPIRED_BACKTESTED, EXPIRED_PROVEN),
    ],
)
def test_a_tier_decays_at_the_instant_its_certificate_expires(
    after: timedelta, backtested: Reading, proven: Reading
) -> None:
    assert read_at(BACKTESTED, after) == backtested
    assert read_at(PROVEN, after) == proven
    assert read_at(UNVERIFIED, after) == (UNVERIFIED, "current", ())


def test_a_later_run_does_not_prolong_a_backtested_certificate() -> None:
    assert read_at(BACKTESTED, days(90), TierHistory(runs=(run(0), run(80)))) == EXPIRED_BACKTESTED


def test_no_telemetry_prolongs_a_backtested_certificate() -> None:
    assert (
        read_at(BACKTESTED, days(90), TierHistory(telemetry=(telemetry(days(80)),)))
        == EXPIRED_BACKTESTED
    )


@pytest.mark.parametrize(
    ("after", "windows", "expected"),
    [
        (days(249), (telemetry(days(70)),), VALID_PROVEN),
        (days(250) - INSTANT, (telemetry(days(70)),), VALID_PROVEN),
        (days(250), (telemetry(days(70)),), EXPIRED_PROVEN),
        (days(179), (telemetry(-days(100), days(1)),), VALID_PROVEN),
        (days(240), (telemetry(days(70)), telemetry(days(20))), VALID_PROVEN),
        (days(200), (telemetry(days(70), **OTHER),), EXPIRED_PROVEN),
        (days(200), (telemetry(days(70), **FOREIGN),), EXPIRED_PROVEN),
        (days(200), (telemetry(days(70), days(200)),), VALID_PROVEN),
        (days(200), (telemetry(days(70), days(200) + INSTANT),), EXPIRED_PROVEN),
        (days(180), (telemetry(ISSUED),), EXPIRED_PROVEN),
        (days(180), (telemetry(ISSUED + INSTANT),), VALID_PROVEN),
    ],
)
def test_telemetry_confirmed_after_issue_moves_the_limit_of_proven(
    after: timedelta, windows: tuple[TelemetryWindow, ...], expected: Reading
) -> None:
    assert read_at(PROVEN, after, TierHistory(telemetry=windows)) == expected


@pytest.mark.parametrize(
    ("after", "runs", "expected"),
    [
        (days(180), (run(91),), LAPSED),
        (days(180), (run(91, tier=PROVEN), run(100)), LAPSED),
        (days(181) - INSTANT, (run(91),), LAPSED),
        (days(181), (run(91),), EXPIRED_PROVEN),
        (days(180), (run(91, **OTHER),), EXPIRED_PROVEN),
        (days(180), (run(91, **FOREIGN),), EXPIRED_PROVEN),
        (days(180), (run(180),), LAPSED),
        (days(180), (run(181),), EXPIRED_PROVEN),
        (
            days(180),
            (run(100), run(120, tier=UNVERIFIED)),
            (UNVERIFIED, "expired", (OLD_TELEMETRY, "newest-run-unverified")),
        ),
        (days(180), (run(100, tier=UNVERIFIED), run(120)), LAPSED),
        (days(180), (run(120), run(130, tier=UNVERIFIED, **OTHER)), LAPSED),
    ],
)
def test_a_lapsed_proven_is_judged_by_the_newest_run_of_its_version(
    after: timedelta, runs: tuple[RunRecord, ...], expected: Reading
) -> None:
    assert read_at(PROVEN, after, TierHistory(runs=runs)) == expected


def test_the_reading_names_both_tiers_and_its_moment() -> None:
    assert effective(PROVEN, days(180), TierHistory(runs=(run(120),))) == EffectiveTier(
        tier=BACKTESTED,
        issued_tier=PROVEN,
        status=CertificateStatus.CURRENT,
        reasons=(OLD_TELEMETRY,),
        as_of=RESOLVED + days(180),
    )


def disputed(*statuses: DisputeStatus) -> TierHistory:
    return TierHistory(
        disputes=tuple(
            Dispute(dispute_id=f"d-{number}", status=status, at=RESOLVED)
            for number, status in enumerate(statuses)
        )
    )


def test_a_dispute_that_is_only_filed_is_shown_and_lowers_nothing() -> None:
    history = disputed(DisputeStatus.FILED)
    assert read_at(PROVEN, days(1), history) == (PROVEN, "current", ("dispute-filed",))
    assert read_at(BACKTESTED, days(90), history) == (
        UNVERIFIED,
        "expired",
        (OLD_RUN, "dispute-filed"),
    )


@pytest.mark.parametrize("tier", VerificationTier)
def test_an_admitted_dispute_leaves_unverified_until_it_is_resolved(tier: VerificationTier) -> None:
    open_dispute = (UNVERIFIED, "current", ("dispute-open",))
    assert read_at(tier, days(1), disputed(DisputeStatus.ADMITTED)) == open_dispute
    assert read_at(tier, days(1), disputed(DisputeStatus.RESOLVED)) == (tier, "current", ())


def test_an_admitted_dispute_counts_even_where_a_fast_clock_dated_it() -> None:
    before = read_at(PROVEN, -days(1), disputed(DisputeStatus.ADMITTED))
    assert before == (UNVERIFIED, "current", ("dispute-open", "issued-in-the-future"))


def test_a_disputed_and_expired_certificate_shows_all_reasons_the_gravest_first() -> None:
    history = disputed(DisputeStatus.FILED, DisputeStatus.ADMITTED)
    assert read_at(BACKTESTED, days(90), history) == (
        UNVERIFIED,
        "expired",
        ("dispute-open", OLD_RUN, "dispute-filed"),
    )
