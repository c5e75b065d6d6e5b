"""The documents that the tier assigner reads: exact, strict, and back again."""

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import TierRecordError
from theatre.engine.tier_assigner import (
    AnswerCounts,
    CriterionCounts,
    IssuedCertificateFacts,
    TierFacts,
    TierHistory,
    VerificationTier,
)

HASH = "ab" * 32
EARLIER = "2026-06-01T08:00:00.000000Z"
LATER = "2026-06-30T12:00:00.000001Z"
ABOUT: JsonObject = {"construct_id": "cartograph", "construct_version": "v1"}
COUNTS: JsonObject = {"scored": 60, "missing": 1, "not_applicable": 2, "declined": 3, "unscored": 0}
FACTS: JsonObject = {
    **ABOUT,
    "adapter_pin": "local@1",
    "rehearsal": False,
    "replay_count": 60,
    "failures": 1,
    "refusals": 2,
    "run": 63,
    "total": 64,
    "max_refusal_rate": "1/2",
    "criterion_counts": {"accuracy": COUNTS, "style": COUNTS},
    "distinct_inputs": 58,
    "criterion_distinct_inputs": {"accuracy": 59, "style": 31},
    "unqualified_measures": {"accuracy": "words", "style": "salad"},
    "missing_pins": ["dataset_hash"],
    "version_mismatches": 0,
    "determinism_differences": 0,
    "scorers_committed": True,
    "bundle_complete": True,
    "commitment_verifiable": True,
    "extra_caps": ["gold-unpinned"],
}
RUN: JsonObject = {
    **ABOUT,
    "theatre_id": "11111111-1111-4111-8111-111111111111",
    "tier": "BACKTESTED",
    "resolved_at": LATER,
    "results_hash": HASH,
}
WINDOW: JsonObject = {**ABOUT, "start": EARLIER, "end": LATER, "confirmed_at": LATER}
ATTESTATION: JsonObject = {
    "attester": "a-stranger",
    "independent": True,
    "results_hash": HASH,
    "at": LATER,
}
DISPUTE: JsonObject = {"dispute_id": "d-1", "status": "admitted", "at": LATER}
SIGNAL: JsonObject = {**ABOUT, "source": "runtime", "consistent": False, "at": LATER}
HISTORY: dict[str, list[JsonObject]] = {
    "runs": [RUN, RUN | {"theatre_id": "22222222-2222-4222-8222-222222222222"}],
    "telemetry": [WINDOW],
    "attestations": [ATTESTATION],
    "disputes": [DISPUTE],
    "signals": [SIGNAL],
}
CERTIFICATE: JsonObject = {**ABOUT, "tier": "PROVEN", "issued_at": LATER, "resolved_at": EARLIER}


def history_document() -> JsonObject:
    return parse_object(canonical_bytes(HISTORY))


@pytest.mark.parametrize("document", [FACTS, FACTS | {"construct_version": None}])
def test_facts_survive_the_trip_through_canonical_json(document: JsonObject) -> None:
    facts = TierFacts.from_document(document)
    written = parse_object(canonical_bytes(facts.as_document()))
    assert written == document
    assert TierFacts.from_document(written) == facts


def test_facts_made_in_code_are_written_as_the_document_says() -> None:
    counts = CriterionCounts(scored=60, missing=1, not_applicable=2, declined=3, unscored=0)
    facts = TierFacts(
        construct_id="cartograph",
        construct_version="v1",
        adapter_pin="local@1",
        rehearsal=False,
        replay_count=60,
        failures=1,
        refusals=2,
        run=63,
        total=64,
        max_refusal_rate=Fraction(1, 2),
        criterion_counts={"style": counts, "accuracy": counts},
        distinct_inputs=58,
        criterion_distinct_inputs={"style": 31, "accuracy": 59},
        unqualified_measures={"style": "salad", "accuracy": "words"},
        missing_pins=("dataset_hash",),
        version_mismatches=0,
        determinism_differences=0,
        scorers_committed=True,
        bundle_complete=True,
        commitment_verifiable=True,
        extra_caps=("gold-unpinned",),
    )
    assert facts.as_document() == FACTS
    assert list(facts.criterion_counts) == ["accuracy", "style"]
    assert list(facts.criterion_distinct_inputs) == ["accuracy", "style"]
    assert list(facts.unqualified_measures) == ["accuracy", "style"]


@pytest.mark.parametrize("document", [history_document(), TierHistory().as_document()])
def test_a_history_survives_the_trip_through_canonical_json(document: JsonObject) -> None:
    history = TierHistory.from_document(document)
    written = parse_object(canonical_bytes(history.as_document()))
    assert written == document
    assert TierHistory.from_document(written) == history


def test_what_is_known_of_a_certificate_survives_the_trip_too() -> None:
    certificate = IssuedCertificateFacts.from_document(CERTIFICATE)
    assert certificate.as_document() == CERTIFICATE
    assert certificate.tier is VerificationTier.PROVEN


def test_a_time_without_a_fraction_is_the_same_moment() -> None:
    short = CERTIFICATE | {"resolved_at": "2026-06-01T08:00:00Z"}
    assert IssuedCertificateFacts.from_document(short).as_document() == CERTIFICATE


@given(
    numerator=st.integers(min_value=0, max_value=10**20),
    denominator=st.integers(min_value=1, max_value=10**20),
)
def test_a_refusal_limit_survives_as_an_exact_rate(numerator: int, denominator: int) -> None:
    rate = Fraction(numerator, numerator * 2 + denominator)
    facts = TierFacts.from_document(FACTS | {"max_refusal_rate": str(rate)})
    assert facts.max_refusal_rate == rate
    assert TierFacts.from_document(facts.as_document()).max_refusal_rate == rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("0", Fraction(0)),
        ("0.3", Fraction(3, 10)),
        ("0.50", Fraction(1, 2)),
        ("1/2", Fraction(1, 2)),
        (f"1/{10**300}", Fraction(1, 10**300)),
    ],
)
def test_a_decimal_and_a_ratio_are_read_exactly(text: str, rate: Fraction) -> None:
    assert TierFacts.from_document(FACTS | {"max_refusal_rate": text}).max_refusal_rate == rate


def test_no_score_is_an_input() -> None:
    def leaves(value: JsonValue) -> list[JsonValue]:
        if isinstance(value, dict):
            return [leaf for item in value.values() for leaf in leaves(item)]
        if isinstance(value, list):
            return [leaf for item in value for leaf in leaves(item)]
        return [value]

    assert set(TierFacts.model_fields) == set(FACTS) | {"answers"}
    assert {field.annotation for field in AnswerCounts.model_fields.values()} == {int}
    assert set(CriterionCounts.model_fields) == set(COUNTS)
    assert set(TierHistory.model_fields) == set(HISTORY)
    read = [*leaves(FACTS), *leaves(history_document())]
    assert {type(leaf) for leaf in read} == {str, int, bool}


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"score": 1}, "/score: "),
        ({"replay_count": True}, "/replay_count: "),
        ({"replay_count": "60"}, "/replay_count: "),
        ({"replay_count": -1}, "/replay_count: "),
        ({"rehearsal": 0}, "/rehearsal: "),
        ({"construct_id": ""}, "/construct_id: "),
        ({"max_refusal_rate": 0}, "/max_refusal_rate: "),
        ({"max_refusal_rate": 0.5}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "0.51"}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "-1/2"}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "1/0"}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "0/00"}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "0\n"}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "1e-999999999"}, "/max_refusal_rate: "),
        ({"max_refusal_rate": "\u0660"}, "/max_refusal_rate: "),
        ({"criterion_counts": {}}, "/criterion_counts: "),
        ({"criterion_counts": {"": COUNTS}}, "/criterion_counts/"),
        ({"criterion_counts": {"accuracy": {}}}, "/criterion_counts/accuracy/scored: "),
        ({"missing_pins": [3]}, "/missing_pins/0: "),
        ({"extra_caps": [""]}, "/extra_caps/0: "),
        ({"run": 62}, "/: expected replay_count"),
        ({"total": 62}, "/: expected replay_count"),
    ],
)
def test_a_document_that_is_no_facts_document_is_refused_with_the_place(
    changed: JsonObject, place: str
) -> None:
    with pytest.raises(TierRecordError) as refused:
        TierFacts.from_document(FACTS | changed)
    assert str(refused.value).startswith("expected a TierFacts document, got: ")
    assert place in str(refused.value)


@pytest.mark.parametrize("member", [name for name in FACTS if name != "extra_caps"])
def test_every_measured_fact_must_be_stated(member: str) -> None:
    without = {name: value for name, value in FACTS.items() if name != member}
    with pytest.raises(TierRecordError, match=f"/{member}: Field required"):
        TierFacts.from_document(without)


@pytest.mark.parametrize(
    ("member", "changed", "place"),
    [
        ("runs", {"tier": "proven"}, "/runs/0/tier: "),
        ("runs", {"theatre_id": "theatre-1"}, "/runs/0/theatre_id: "),
        ("runs", {"theatre_id": f"{RUN['theatre_id']}x"}, "/runs/0/theatre_id: "),
        ("runs", {"theatre_id": "AAAAAAAA-1111-4111-8111-111111111111"}, "/runs/0/theatre_id: "),
        ("runs", {"results_hash": HASH + "\n"}, "/runs/0/results_hash: "),
        ("runs", {"results_hash": HASH.upper()}, "/runs/0/results_hash: "),
        ("runs", {"resolved_at": "2026-06-30T12:00:00+00:00"}, "/runs/0/resolved_at: "),
        ("runs", {"resolved_at": "9999-12-31T00:00:00Z"}, "/runs/0/resolved_at: "),
        ("runs", {"resolved_at": 1782820800}, "/runs/0/resolved_at: "),
        ("telemetry", {"confirmed_at": EARLIER}, "/telemetry/0: expected start"),
        ("telemetry", {"start": LATER}, "/telemetry/0: expected start"),
        ("attestations", {"independent": "yes"}, "/attestations/0/independent: "),
        ("disputes", {"status": "upheld"}, "/disputes/0/status: "),
        ("signals", {"weight": 1}, "/signals/0/weight: "),
    ],
)
def test_a_document_that_is_no_history_is_refused_with_the_place(
    member: str, changed: JsonObject, place: str
) -> None:
    with pytest.raises(TierRecordError) as refused:
        TierHistory.from_document({member: [HISTORY[member][0] | changed]})
    assert place in str(refused.value)


@pytest.mark.parametrize(
    ("member", "changed", "expected"),
    [
        ("runs", {"resolved_at": EARLIER}, "runs with a theatre_id each"),
        ("disputes", {"status": "filed"}, "disputes with a dispute_id each"),
        ("telemetry", {}, "telemetry without copies"),
        ("attestations", {}, "attestations without copies"),
        ("signals", {}, "signals without copies"),
    ],
)
def test_a_history_that_tells_one_fact_twice_is_refused(
    member: str, changed: JsonObject, expected: str
) -> None:
    told = HISTORY[member][0]
    with pytest.raises(TierRecordError, match=f"/: expected {expected} "):
        TierHistory.from_document({member: [told, told | changed]})


@pytest.mark.parametrize(
    ("member", "changed"),
    [
        ("telemetry", {"end": "2026-06-30T12:00:00.000000Z"}),
        ("attestations", {"attester": "another"}),
        ("signals", {"at": EARLIER}),
    ],
)
def test_two_facts_that_differ_in_anything_are_two(member: str, changed: JsonObject) -> None:
    told = HISTORY[member][0]
    history = TierHistory.from_document({member: [told, told | changed]})
    assert history.as_document()[member] == [told, told | changed]


def test_what_was_known_at_a_moment_leaves_out_what_came_later_and_the_run_itself() -> None:
    history = TierHistory.from_document(history_document())
    moment = parse_rfc3339(LATER)
    assert history.as_of(moment) == history
    assert history.as_of(moment - timedelta(microseconds=1)) == TierHistory()
    assert history.excluding(str(RUN["theatre_id"])).runs == history.runs[1:]
    assert history.excluding("33333333-3333-4333-8333-333333333333") == history


def test_a_refusal_names_types_and_never_repeats_what_was_sent() -> None:
    with pytest.raises(TierRecordError) as refused:
        TierHistory.from_document({"runs": "planted-secret"})
    assert str(refused.value) == (
        "expected a TierHistory document, got: /runs: Input should be a valid array (got string)"
    )
