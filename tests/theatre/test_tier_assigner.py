"""Tiers by policy v0 when a run is issued: reached, and lost one requirement at a time.

Longer than the house limit for a module because every requirement is a row of one table.
"""

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import cast
from uuid import NAMESPACE_OID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from theatre.engine.errors import ClockError
from theatre.engine.tier_assigner import (
    Attestation,
    BehaviouralSignal,
    CriterionCounts,
    Dispute,
    DisputeStatus,
    IssuedCertificateFacts,
    RunRecord,
    TelemetryWindow,
    TierAssessment,
    TierAssigner,
    TierFacts,
    TierHistory,
    Unmet,
    VerificationTier,
)

UNVERIFIED, BACKTESTED, PROVEN = VerificationTier
RESOLVED = datetime(2026, 6, 30, 12, 0, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
HASH = "ab" * 32
NO_HISTORY = TierHistory()


def days(number: float) -> timedelta:
    return timedelta(days=number)


def counts(**changed: int) -> CriterionCounts:
    plain = {"scored": 60, "missing": 0, "not_applicable": 0, "declined": 0, "unscored": 0}
    return CriterionCounts(**(plain | changed))


def facts(**changed: object) -> TierFacts:
    """Return facts that reach BACKTESTED, changed as asked."""
    plain: dict[str, object] = {
        "construct_id": "cartograph",
        "construct_version": "v1",
        "adapter_pin": "local@1",
        "rehearsal": False,
        "replay_count": 60,
        "failures": 0,
        "refusals": 0,
        "run": 100,
        "total": 100,
        "max_refusal_rate": Fraction(1, 2),
        "criterion_counts": {"accuracy": counts()},
        "unqualified_measures": {},
        "missing_pins": (),
        "version_mismatches": 0,
        "determinism_differences": 0,
        "scorers_committed": True,
        "bundle_complete": True,
        "commitment_verifiable": True,
        "extra_caps": (),
    }
    told = plain | changed
    told.setdefault("distinct_inputs", told["replay_count"])
    by_criterion = cast("dict[str, CriterionCounts]", told["criterion_counts"])
    distinct = {criterion: seen.counted for criterion, seen in by_criterion.items()}
    told.setdefault("criterion_distinct_inputs", distinct)
    return TierFacts.model_validate(told)


def theatre(name: str) -> str:
    """Return the id of another theatre for each name."""
    return str(uuid5(NAMESPACE_OID, name))


def run(days_ago: float, /, **changed: object) -> RunRecord:
    plain: dict[str, object] = {
        "theatre_id": theatre(f"{days_ago}"),
        "construct_id": "cartograph",
        "construct_version": "v1",
        "tier": BACKTESTED,
        "resolved_at": RESOLVED - days(days_ago),
        "results_hash": HASH,
    }
    return RunRecord.model_validate(plain | changed)


def telemetry(days_ago: float, /, **changed: object) -> TelemetryWindow:
    """Return a window of a week that ended, and was confirmed, so many days ago."""
    end = RESOLVED - days(days_ago)
    plain: dict[str, object] = {
        "construct_id": "cartograph",
        "construct_version": "v1",
        "start": end - days(7),
        "end": end,
        "confirmed_at": end,
    }
    return TelemetryWindow.model_validate(plain | changed)


def attestation(**changed: object) -> Attestation:
    plain: dict[str, object] = {
        "attester": "a-stranger",
        "independent": True,
        "results_hash": HASH,
        "at": RESOLVED - days(10),
    }
    return Attestation.model_validate(plain | changed)


def signal(days_ago: float = 1, /, **changed: object) -> BehaviouralSignal:
    plain: dict[str, object] = {
        "source": "runtime",
        "construct_id": "cartograph",
        "construct_version": "v1",
        "consistent": True,
        "at": RESOLVED - days(days_ago),
    }
    return BehaviouralSignal.model_validate(plain | changed)


def dispute(status: DisputeStatus, dispute_id: str = "d-1") -> Dispute:
    return Dispute(dispute_id=dispute_id, status=status, at=RESOLVED)


def history(**changed: object) -> TierHistory:
    """Return a history that lifts `facts()` to PROVEN, changed as asked."""
    plain: dict[str, object] = {
        "runs": (run(90), run(45)),
        "telemetry": (telemetry(1),),
        "attestations": (attestation(),),
        "signals": (signal(),),
    }
    return TierHistory.model_validate(plain | changed)


def assign(given_facts: TierFacts, given_history: TierHistory = NO_HISTORY) -> TierAssessment:
    return TierAssigner.assign(given_facts, given_history, resolved_at=RESOLVED)


def lacks(assessment: TierAssessment, tier: VerificationTier) -> list[str]:
    return [str(unmet) for unmet in assessment.unmet if unmet.tier is tier]


def test_evidence_without_a_history_is_backtested_and_names_what_proven_needs() -> None:
    missing = {
        "runs-below-3": "1",
        "runs-span-below-90-days": "0:00:00",
        "telemetry-missing": "0",
        "attestation-missing": "0",
        "behavioural-signal-missing": "0",
    }
    assert assign(facts()) == TierAssessment(
        tier=BACKTESTED,
        unmet=tuple(Unmet(code, seen, PROVEN) for code, seen in missing.items()),
        caps=tuple(missing),
        expires_at=RESOLVED + days(90),
    )


def test_full_evidence_with_a_full_history_is_proven_and_lacks_nothing() -> None:
    assert assign(facts(), history()) == TierAssessment(
        tier=PROVEN, unmet=(), caps=(), expires_at=RESOLVED + days(180)
    )


def one(**changed: int) -> dict[str, CriterionCounts]:
    return {"accuracy": counts(**changed)}


BACKTESTED_LOST: list[tuple[dict[str, object], list[str]]] = [
    ({"replay_count": 49}, ["replays-below-50: 49"]),
    ({"replay_count": 0}, ["nothing-scored: 0", "replays-below-50: 0"]),
    ({"failures": 21}, ["failure-rate-above-20: 21/100"]),
    ({"max_refusal_rate": "0.3", "refusals": 31}, ["refusal-rate-above-max: 31/100, allowed 3/10"]),
    ({"max_refusal_rate": "0", "refusals": 1}, ["refusal-rate-above-max: 1/100, allowed 0"]),
    ({"criterion_counts": one(declined=61)}, ["declined-above-max:accuracy: 61/121, allowed 1/2"]),
    (
        {"criterion_counts": one(declined=61, not_applicable=900)},
        ["declined-above-max:accuracy: 61/121, allowed 1/2"],
    ),
    ({"criterion_counts": one(scored=20, missing=9)}, ["criterion-n-below-30:accuracy: 29"]),
    (
        {"criterion_counts": one(scored=0, not_applicable=60)},
        ["criterion-unscored:accuracy: 0", "criterion-n-below-30:accuracy: 0"],
    ),
    ({"distinct_inputs": 49}, ["distinct-inputs-below-50: 49"]),
    (
        {"replay_count": 41, "distinct_inputs": 1},
        ["replays-below-50: 41", "distinct-inputs-below-50: 1"],
    ),
    (
        {"criterion_distinct_inputs": {"accuracy": 29}},
        ["distinct-per-criterion-below-30:accuracy: 29"],
    ),
    ({"criterion_counts": one(unscored=1)}, ["unscored-answers:accuracy: 1"]),
    ({"criterion_counts": one(declined=61, unscored=1)}, ["unscored-answers:accuracy: 1"]),
    (
        {"unqualified_measures": {"style": "s is textual", "accuracy": "a is judged"}},
        ["measure-unqualified:accuracy: a is judged", "measure-unqualified:style: s is textual"],
    ),
    ({"missing_pins": ("scorer_version",)}, ["pin-missing:scorer_version: absent"]),
    (
        {"missing_pins": ("scorer_version", "dataset_hash", "scorer_version")},
        ["pin-missing:dataset_hash: absent", "pin-missing:scorer_version: absent"],
    ),
    ({"construct_version": None}, ["pin-missing:construct_version: absent"]),
    ({"version_mismatches": 2}, ["version-mismatch: 2"]),
    ({"determinism_differences": 3}, ["answers-not-deterministic: 3"]),
    ({"rehearsal": True}, ["mock-adapter: local@1"]),
    ({"adapter_pin": "mock@1"}, ["mock-adapter: mock@1"]),
    ({"scorers_committed": False}, ["scorers-not-committed: no"]),
    ({"bundle_complete": False}, ["bundle-incomplete: no"]),
    ({"commitment_verifiable": False}, ["commitment-not-verifiable: no"]),
    (
        {"extra_caps": ("version-unreported", "gold-unpinned", "version-unreported")},
        ["gold-unpinned: found with the evidence", "version-unreported: found with the evidence"],
    ),
    ({"version_mismatches": 2, "extra_caps": ("version-mismatch",)}, ["version-mismatch: 2"]),
]


@pytest.mark.parametrize(("changed", "expected"), BACKTESTED_LOST)
def test_each_backtested_requirement_lost_alone_gives_its_code_and_unverified(
    changed: dict[str, object], expected: list[str]
) -> None:
    assessment = assign(facts(**changed), history())
    assert lacks(assessment, BACKTESTED) == expected
    assert assessment.caps == tuple(line.rpartition(": ")[0] for line in expected)
    assert (assessment.tier, assessment.expires_at) == (UNVERIFIED, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"replay_count": 50},
        {"failures": 20},
        {"failures": 2, "run": 62, "total": 1000},
        {"refusals": 50, "replay_count": 50},
        {"max_refusal_rate": "0.3", "refusals": 30},
        {"replay_count": 70, "distinct_inputs": 50},
        {"criterion_distinct_inputs": {"accuracy": 30}},
        {"criterion_counts": one(declined=60)},
        {"criterion_counts": one(scored=20, missing=10)},
        {"criterion_counts": one(not_applicable=10_000)},
    ],
)
def test_the_limit_itself_is_allowed(changed: dict[str, object]) -> None:
    assert assign(facts(**changed), history()).tier is PROVEN


def test_rates_are_taken_over_the_episodes_that_were_run() -> None:
    stopped = facts(failures=16, run=76, total=1000)
    assert lacks(assign(stopped), BACKTESTED) == ["failure-rate-above-20: 16/76"]
    refusing = facts(refusals=61, run=121, total=1000)
    assert lacks(assign(refusing), BACKTESTED) == ["refusal-rate-above-max: 61/121, allowed 1/2"]


def test_a_rate_a_hair_above_the_limit_is_seen_where_a_double_would_not_see_it() -> None:
    five = 5 * 10**14
    huge = {"replay_count": 10**14, "run": five, "total": five}
    assert assign(facts(failures=10**14, **huge)).tier is BACKTESTED
    assert lacks(assign(facts(failures=10**14 + 1, **huge)), BACKTESTED) == [
        f"failure-rate-above-20: {10**14 + 1}/{five}"
    ]


def test_criteria_are_judged_one_by_one_in_the_order_of_their_ids() -> None:
    mixed = facts(criterion_counts={"b": counts(scored=29), "c": counts(), "a": counts(unscored=1)})
    assert assign(mixed).caps == ("unscored-answers:a", "criterion-n-below-30:b")


def test_an_assessment_is_written_for_the_evidence() -> None:
    assert assign(facts(replay_count=41, bundle_complete=False)).as_document() == {
        "tier": "UNVERIFIED",
        "unmet": [
            {"code": "replays-below-50", "seen": "41", "tier": "BACKTESTED"},
            {"code": "bundle-incomplete", "seen": "no", "tier": "BACKTESTED"},
            {"code": "runs-below-3", "seen": "0", "tier": "PROVEN"},
            {"code": "runs-span-below-90-days", "seen": "0:00:00", "tier": "PROVEN"},
            {"code": "telemetry-missing", "seen": "0", "tier": "PROVEN"},
            {"code": "attestation-missing", "seen": "0", "tier": "PROVEN"},
            {"code": "behavioural-signal-missing", "seen": "0", "tier": "PROVEN"},
        ],
        "caps": ["replays-below-50", "bundle-incomplete"],
        "expires_at": None,
    }
    assert assign(facts()).as_document()["expires_at"] == "2026-09-28T12:00:00.000000Z"


def test_an_unverified_run_also_shows_what_proven_lacks_and_counts_in_no_sequence() -> None:
    assessment = assign(facts(bundle_complete=False), history())
    assert assessment.caps == ("bundle-incomplete",)
    assert lacks(assessment, PROVEN) == ["runs-below-3: 0", "runs-span-below-90-days: 0:00:00"]


OTHER = {"construct_version": "v2"}
FOREIGN = {"construct_id": "somebody-else"}
LATER = {"at": RESOLVED + INSTANT}

PROVEN_LOST: list[tuple[dict[str, object], list[str]]] = [
    ({"runs": (run(90),)}, ["runs-below-3: 2", "run-gap-above-45-days: 90 days, 0:00:00"]),
    ({"runs": (run(44), run(22))}, ["runs-span-below-90-days: 44 days, 0:00:00"]),
    ({"runs": (run(45),)}, ["runs-below-3: 2", "runs-span-below-90-days: 45 days, 0:00:00"]),
    ({"runs": (run(89.75), run(45))}, ["runs-span-below-90-days: 89 days, 18:00:00"]),
    ({"runs": (run(90), run(45.25))}, ["run-gap-above-45-days: 45 days, 6:00:00"]),
    (
        {"runs": (run(90), run(45, tier=UNVERIFIED), run(30))},
        ["runs-below-3: 2", "runs-span-below-90-days: 30 days, 0:00:00"],
    ),
    (
        {"runs": (run(300, tier=UNVERIFIED), run(90), run(45), run(40, tier=UNVERIFIED), run(30))},
        ["runs-below-3: 2", "runs-span-below-90-days: 30 days, 0:00:00"],
    ),
    ({"runs": (run(91), run(45))}, ["run-gap-above-45-days: 46 days, 0:00:00"]),
    ({"runs": (run(90, **OTHER), run(45), run(44))}, ["runs-span-below-90-days: 45 days, 0:00:00"]),
    (
        {"runs": (run(90, **FOREIGN), run(45), run(44))},
        ["runs-span-below-90-days: 45 days, 0:00:00"],
    ),
    ({"runs": (run(45), run(44), run(-46))}, ["runs-span-below-90-days: 45 days, 0:00:00"]),
    (
        {"runs": (run(0), run(0, theatre_id=theatre("twin")), run(90))},
        ["runs-below-3: 2", "run-gap-above-45-days: 90 days, 0:00:00"],
    ),
    ({"telemetry": ()}, ["telemetry-missing: 0"]),
    ({"telemetry": (telemetry(1, **OTHER),)}, ["telemetry-missing: 0"]),
    ({"telemetry": (telemetry(1, **FOREIGN),)}, ["telemetry-missing: 0"]),
    ({"telemetry": (telemetry(1, confirmed_at=RESOLVED + INSTANT),)}, ["telemetry-missing: 0"]),
    (
        {"telemetry": (telemetry(180), telemetry(200))},
        ["telemetry-older-than-180-days: 180 days, 0:00:00"],
    ),
    ({"attestations": ()}, ["attestation-missing: 0"]),
    ({"attestations": (attestation(independent=False),)}, ["attestation-missing: 0"]),
    ({"attestations": (attestation(results_hash="cd" * 32),)}, ["attestation-missing: 0"]),
    ({"attestations": (attestation(**LATER),)}, ["attestation-missing: 0"]),
    (
        {
            "runs": (run(90), run(45), run(30, results_hash="cd" * 32, **OTHER)),
            "attestations": (attestation(results_hash="cd" * 32),),
        },
        ["attestation-missing: 0"],
    ),
    (
        {
            "runs": (run(90), run(45), run(30, results_hash="cd" * 32, **FOREIGN)),
            "attestations": (attestation(results_hash="cd" * 32),),
        },
        ["attestation-missing: 0"],
    ),
    ({"signals": ()}, ["behavioural-signal-missing: 0"]),
    ({"signals": (signal(**OTHER),)}, ["behavioural-signal-missing: 0"]),
    ({"signals": (signal(**FOREIGN),)}, ["behavioural-signal-missing: 0"]),
    ({"signals": (signal(**LATER),)}, ["behavioural-signal-missing: 0"]),
    (
        {"signals": (signal(2), signal(1, consistent=False))},
        ["behavioural-signal-adverse: runtime"],
    ),
    (
        {"signals": (signal(1, consistent=False), signal(1))},
        ["behavioural-signal-adverse: runtime"],
    ),
    (
        {
            "signals": (
                signal(1),
                signal(2, consistent=False, source="canary"),
                signal(3, consistent=False, source="support"),
            )
        },
        ["behavioural-signal-adverse: canary, support"],
    ),
]


@pytest.mark.parametrize(("changed", "expected"), PROVEN_LOST)
def test_each_proven_requirement_lost_alone_gives_its_code_and_backtested(
    changed: dict[str, object], expected: list[str]
) -> None:
    assessment = assign(facts(), history(**changed))
    assert [str(unmet) for unmet in assessment.unmet] == expected
    assert assessment.caps == tuple(line.partition(": ")[0] for line in expected)
    assert (assessment.tier, assessment.expires_at) == (BACKTESTED, RESOLVED + days(90))


@pytest.mark.parametrize(
    "changed",
    [
        {"runs": (run(300), run(90), run(45))},
        {"runs": (run(120, tier=UNVERIFIED), run(90), run(45))},
        {"runs": (run(90), run(45), run(30, tier=UNVERIFIED, **OTHER))},
        {"runs": (run(90), run(45), run(30, tier=UNVERIFIED, **FOREIGN))},
        {"runs": (run(90), run(45), run(-1, tier=UNVERIFIED))},
        {"runs": (run(45, tier=PROVEN), run(0), run(90, tier=PROVEN))},
        {
            "telemetry": (
                telemetry(180, end=RESOLVED - days(180) + INSTANT, confirmed_at=RESOLVED),
                telemetry(400),
            )
        },
        {"telemetry": (telemetry(1, confirmed_at=RESOLVED),)},
        {"attestations": (attestation(independent=False), attestation(at=RESOLVED))},
        {"signals": (signal(1), signal(2, consistent=False))},
        {"signals": (signal(1), signal(-1, consistent=False))},
        {"signals": (signal(1, consistent=False), signal(0))},
        {"disputes": (dispute(DisputeStatus.FILED), dispute(DisputeStatus.RESOLVED, "d-2"))},
        {"disputes": (Dispute(dispute_id="d-1", status=DisputeStatus.ADMITTED, **LATER),)},
    ],
)
def test_what_does_not_matter_to_proven_does_not_cost_it(changed: dict[str, object]) -> None:
    assert assign(facts(), history(**changed)) == assign(facts(), history())


def test_a_run_without_a_version_pin_shares_no_history() -> None:
    lost = lacks(assign(facts(construct_version=None), history()), PROVEN)
    assert [line.partition(":")[0] for line in lost] == [
        "runs-below-3",
        "runs-span-below-90-days",
        "telemetry-missing",
        "attestation-missing",
        "behavioural-signal-missing",
    ]


def test_only_an_admitted_dispute_keeps_a_run_unverified() -> None:
    disputes = (
        dispute(DisputeStatus.ADMITTED, "d-9"),
        dispute(DisputeStatus.FILED, "d-2"),
        dispute(DisputeStatus.ADMITTED, "d-1"),
    )
    assessment = assign(facts(), history(disputes=disputes))
    assert lacks(assessment, BACKTESTED) == ["dispute-open: d-1, d-9"]
    assert assessment.tier is UNVERIFIED


episodes = st.integers(min_value=0, max_value=200)


@given(scored=episodes, failures=episodes, refusals=episodes, more=episodes, data=st.data())
def test_failing_or_refusing_what_was_scored_never_raises_a_tier(
    scored: int, failures: int, refusals: int, more: int, data: st.DataObject
) -> None:
    order = list(VerificationTier)
    total = scored + failures + refusals
    more = min(more, scored)
    refused = data.draw(st.integers(min_value=0, max_value=more))
    failed = more - refused

    def tier(scored: int, failures: int, refusals: int) -> int:
        changed = facts(
            replay_count=scored,
            failures=failures,
            refusals=refusals,
            run=total,
            total=total,
            criterion_counts=one(scored=scored, missing=failures),
        )
        return order.index(assign(changed, history()).tier)

    assert tier(scored - more, failures + failed, refusals + refused) <= tier(
        scored, failures, refusals
    )


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    abroad = RESOLVED.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert TierAssigner.assign(facts(), history(), resolved_at=abroad) == assign(facts(), history())
    limit = TierAssigner.compute_expiry(BACKTESTED, resolved_at=abroad)
    assert limit is not None
    assert (limit, limit.tzinfo) == (RESOLVED + days(90), UTC)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 6, 30, 12),  # noqa: DTZ001 - a naive time is what is refused
        datetime(9999, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
)
def test_a_time_that_names_no_usable_moment_is_refused(moment: datetime) -> None:
    with pytest.raises(ClockError):
        TierAssigner.assign(facts(), NO_HISTORY, resolved_at=moment)
    with pytest.raises(ClockError):
        TierAssigner.compute_expiry(UNVERIFIED, resolved_at=moment)
    certificate = IssuedCertificateFacts(
        construct_id="cartograph",
        construct_version="v1",
        tier=UNVERIFIED,
        issued_at=RESOLVED,
        resolved_at=RESOLVED,
    )
    with pytest.raises(ClockError):
        TierAssigner.effective(certificate, NO_HISTORY, now=moment)
    with pytest.raises(ValidationError, match="expected a time"):
        attestation(at=moment)


def test_nothing_changes_facts_once_they_are_made() -> None:
    given_counts = {"accuracy": counts()}
    made = facts(criterion_counts=given_counts)
    before = made.as_document()
    given_counts["accuracy"] = counts(unscored=1)
    with pytest.raises(TypeError):
        made.criterion_counts["accuracy"] = counts(unscored=1)  # type: ignore[index]  # the point
    with pytest.raises(ValidationError):
        made.replay_count = 1_000  # type: ignore[misc]  # the point
    with pytest.raises(AttributeError):
        assign(made).tier = PROVEN  # type: ignore[misc]  # the point
    assert made.as_document() == before
