"""The certificate: every field from the commitment or the evidence, and none made up."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast
from uuid import UUID, uuid5

import pytest
import rfc8785
from pydantic import ValidationError

from tests.theatre.runs import COIN, ISOLATED, NOT_FILLED, PILOT, TEMPLATE, VERSION, with_changes
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.certificate import (
    CertifiedEvidence,
    TheatreCalibrationCertificate,
    VersionSource,
    certificate_id,
    ground_truth_hash,
    issue_certificate,
    validate_certificate,
)
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import CertificateError
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import product_template

THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
REGISTRY = SchemaRegistry()
HASHES: JsonObject = {"truth": "ab" * 32, "labels": "cd" * 32}
DOCUMENT = with_changes(TEMPLATE, {"/dataset_hashes": HASHES})

INTERVAL: JsonObject = {"low": 0.5, "high": 0.9, "method": "wilson", "level": 0.95}
COUNTS: JsonObject = {"scored": 54, "missing": 3, "not_applicable": 0, "declined": 0, "unscored": 0}
AGGREGATE: JsonObject = {
    "scores": {"colour": 0.75, "recall": 0.25},
    "composite_score": 0.625,
    "score_counts": {"colour": COUNTS, "recall": COUNTS},
    "episode_counts": {
        "total": 60,
        "scored": 54,
        "timeout": 1,
        "error": 2,
        "refused": 3,
        "unscored": 0,
        "not_run": 0,
    },
    "coverage": 0.947368421,
    "refusal_rate": 0.05,
    "score_intervals": {"colour": INTERVAL, "recall": INTERVAL, "composite_score": INTERVAL},
    "holdout_scores": None,
    "answered_only": {"colour": 0.8, "recall": 0.3},
    "refusals_as_zero": {"colour": 0.7, "recall": 0.2},
    "worst_case_bounds": {"colour": {"low": 0.7, "high": 0.8}, "recall": None},
    "calibration": None,
    "results_hash": "12" * 32,
}
AUDIT: JsonObject = {
    "episodes": 60,
    "distinct_inputs": 60,
    "distinct_scored_inputs": 54,
    "near_duplicates": 2,
    "answers_in_inputs": 0,
    "clusters": 0,
    "criteria": {
        name: {"distinct_inputs": 57, "expectations": 3, "majority_share": 0.4}
        for name in ("colour", "recall")
    },
}
TRIVIAL: JsonObject = {"score": 0.5, "n": 60, "interval": INTERVAL}
BASELINES: JsonObject = {
    "episodes": 60,
    "criteria": {
        "colour": {
            "not_applicable": None,
            **dict.fromkeys(("empty", "copied", "most_frequent", "other_episode"), TRIVIAL),
        },
        "recall": {
            "not_applicable": "judged",
            **dict.fromkeys(("empty", "copied", "most_frequent", "other_episode")),
        },
    },
}
EVIDENCE = CertifiedEvidence(
    aggregate=AGGREGATE,
    tier="BACKTESTED",
    caps=("runs-below-3", "telemetry-missing"),
    expires_at="2027-02-19T12:00:00.000000Z",
    bundle_hash="34" * 32,
    audit_head="56" * 32,
    version_source="computed",
    usage=None,
    isolation=ISOLATED,
    data_audit=AUDIT,
    baselines=BASELINES,
    episode_root="78" * 32,
    issuer="a test",
    moment="2026-11-21T12:00:00.000000Z",
)


def receipt_of(document: JsonObject) -> CommitmentReceipt:
    return CommitmentProtocol.commit(
        THEATRE_ID,
        document,
        coin=COIN,
        scorer_pins={"exact_match": "1", "numeric_tolerance": "1"},
        scorer_kinds={"exact_match": "exact", "numeric_tolerance": "exact"},
        committed_at=datetime(2026, 11, 21, 11, tzinfo=UTC),
    )


def issued(
    changes: dict[str, JsonValue] | None = None, evidence: CertifiedEvidence = EVIDENCE
) -> JsonObject:
    document = with_changes(DOCUMENT, changes or {})
    return issue_certificate(product_template(document), receipt_of(document), evidence)


def test_every_field_comes_from_the_commitment_or_from_the_evidence() -> None:
    commitment_hash = CommitmentProtocol.hash_template(DOCUMENT)
    assert issued() == {
        "schema_version": "1.2.0",
        "certificate_id": str(uuid5(UUID(THEATRE_ID), f"certificate:{commitment_hash}")),
        "theatre_id": THEATRE_ID,
        "template_id": "product_pilot_v1",
        "construct_id": PILOT,
        "criteria": {
            "criteria_ids": ["colour", "recall"],
            "criteria_human": "Names the colour, and says how much it remembers.",
            "weights": {"colour": 0.75, "recall": 0.25},
        },
        "scores": {"colour": 0.75, "recall": 0.25},
        "composite_score": 0.625,
        "score_intervals": AGGREGATE["score_intervals"],
        "score_counts": {"colour": COUNTS, "recall": COUNTS},
        "holdout_scores": None,
        "precision": None,
        "recall": 0.25,
        "reply_accuracy": None,
        "brier_score": None,
        "ece": None,
        "replay_count": 54,
        "episode_counts": AGGREGATE["episode_counts"],
        "coverage": 0.947368421,
        "refusal_rate": 0.05,
        "results_hash": "12" * 32,
        "evidence_bundle_hash": "34" * 32,
        "audit_head": "56" * 32,
        "ground_truth_hash": hashlib.sha256(
            f'{{"labels":"{"cd" * 32}","truth":"{"ab" * 32}"}}'.encode()
        ).hexdigest(),
        "construct_version": VERSION,
        "version_source": "computed",
        "construct_chain_versions": None,
        "environment": None,
        "scorer_version": "exact_match@1",
        "methodology_version": "1.2.0",
        "dataset_hash": "ab" * 32,
        "verification_tier": "BACKTESTED",
        "caps": ["runs-below-3", "telemetry-missing"],
        "findings": [],
        "data_audit": AUDIT,
        "baselines": BASELINES,
        "episode_root": "78" * 32,
        **NOT_FILLED,
        "isolation": ISOLATED.as_document(),
        "commitment_hash": commitment_hash,
        "coin_sha256": COIN.sha256,
        "issuer": "a test",
        "issued_at": "2026-11-21T12:00:00.000000Z",
        "expires_at": "2027-02-19T12:00:00.000000Z",
        "theatre_committed_at": "2026-11-21T11:00:00.000000Z",
        "theatre_resolved_at": "2026-11-21T12:00:00.000000Z",
        "ground_truth_source": "CUSTOM",
        "execution_path": "replay",
    }


def test_an_issued_certificate_fits_the_schema() -> None:
    validate_certificate(issued(), REGISTRY)
    unverified = replace(EVIDENCE, tier="UNVERIFIED", expires_at=None, caps=("dispute-open",))
    validate_certificate(issued(evidence=unverified), REGISTRY)


@pytest.mark.parametrize("metric", ["precision", "recall", "reply_accuracy"])
@pytest.mark.parametrize("score", [0.5, None])
def test_a_metric_is_the_score_of_the_criterion_of_its_name(
    metric: str, score: float | None
) -> None:
    aggregate = AGGREGATE | {"scores": {"colour": 0.75, metric: score}}
    certificate = issued(
        {"/criteria": {"criteria_ids": ["colour", metric], "criteria_human": ""}},
        replace(EVIDENCE, aggregate=aggregate),
    )
    metrics = ("precision", "recall", "reply_accuracy")
    expected = {name: score if name == metric else None for name in metrics}
    assert {name: certificate[name] for name in metrics} == expected
    assert certificate["criteria"] == {
        "criteria_ids": ["colour", metric],
        "criteria_human": "",
        "weights": {},
    }


@pytest.mark.parametrize(
    ("ece", "certified"),
    [
        (None, None),
        ({"value": 0.031, "bins": 10, "scheme": "equal-width"}, 0.031),
        ({"value": 0, "bins": 10, "scheme": "equal-width"}, 0),
    ],
)
def test_what_stated_probabilities_came_to_stands_on_the_certificate(
    ece: JsonObject | None, certified: float | None
) -> None:
    calibration: JsonObject = {"criterion": "colour", "brier_score": 0.125, "ece": ece}
    certificate = issued(
        evidence=replace(EVIDENCE, aggregate=AGGREGATE | {"calibration": calibration})
    )
    assert (certificate["brier_score"], certificate["ece"]) == (0.125, certified)
    validate_certificate(certificate, REGISTRY)


def test_the_versions_of_a_chain_stand_on_the_certificate() -> None:
    certificate = issued(
        {
            "/version_pins/constructs": {"easel": "ea5e1ea", PILOT: VERSION, "unused": "0ddba11"},
            "/product_theatre_config/construct_chain": ["easel", PILOT],
        }
    )
    assert certificate["construct_chain_versions"] == {"easel": "ea5e1ea", PILOT: VERSION}
    assert certificate["construct_version"] == VERSION


@pytest.mark.parametrize(
    ("source", "findings", "certified"),
    [
        ("computed", (), []),
        ("claimed", (), ["version-claimed"]),
        ("declared", (), ["version-declared"]),
        ("computed", ("step-failed:b", "step-failed:a"), ["step-failed:a", "step-failed:b"]),
        ("claimed", ("version-claimed", "environment-changed"),
         ["environment-changed", "version-claimed"]),
    ],
)  # fmt: skip
def test_what_a_reader_has_to_know_stands_on_the_certificate_sorted(
    source: VersionSource, findings: tuple[str, ...], certified: list[str]
) -> None:
    certificate = issued(evidence=replace(EVIDENCE, version_source=source, findings=findings))
    assert (certificate["version_source"], certificate["findings"]) == (source, certified)
    validate_certificate(certificate, REGISTRY)


def test_without_a_methodology_version_the_documented_default_stands() -> None:
    pins: JsonObject = {"constructs": {PILOT: VERSION}, "scorer_version": "label"}
    certificate = issued({"/version_pins": pins})
    assert (certificate["methodology_version"], certificate["scorer_version"]) == ("1.0.0", "label")


def test_one_theatre_and_commitment_have_one_certificate_id() -> None:
    expected = str(uuid5(UUID(THEATRE_ID), "certificate:" + "ef" * 32))
    assert certificate_id(THEATRE_ID, "ef" * 32) == expected
    assert certificate_id(THEATRE_ID, "ee" * 32) != expected
    assert certificate_id(THEATRE_ID.replace("11", "12"), "ef" * 32) != expected


def test_all_ground_truth_is_one_hash_over_the_canonical_hashes() -> None:
    assert ground_truth_hash(HASHES) == hashlib.sha256(rfc8785.dumps(HASHES)).hexdigest()
    assert ground_truth_hash({}) == hashlib.sha256(b"{}").hexdigest()


@pytest.mark.parametrize("field", issued())
def test_a_certificate_without_one_of_its_fields_is_refused_by_name(field: str) -> None:
    certificate = {name: value for name, value in issued().items() if name != field}
    with pytest.raises(CertificateError, match=field):
        validate_certificate(certificate, REGISTRY)


@pytest.mark.parametrize("field", issued())
def test_a_certificate_with_a_field_of_another_type_is_refused_by_name(field: str) -> None:
    certificate = issued() | {field: [{"not": "this"}]}
    with pytest.raises(CertificateError, match=f"/{field}"):
        validate_certificate(certificate, REGISTRY)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"signature": "none"}, "signature"),
        ({"schema_version": "1.0.0"}, "/schema_version"),
        ({"replay_count": 0}, "/replay_count"),
        ({"replay_count": 5.5}, "/replay_count"),
        ({"composite_score": 1.000000001}, "/composite_score"),
        ({"verification_tier": "backtested"}, "/verification_tier"),
        ({"verification_tier": "UNVERIFIED"}, "/expires_at"),
        ({"expires_at": None}, "/expires_at"),
        ({"issued_at": "2026-11-21T12:00:00+00:00"}, "/issued_at"),
        ({"theatre_resolved_at": "2026-02-30T12:00:00Z"}, "/theatre_resolved_at"),
        ({"results_hash": "AB" * 32}, "/results_hash"),
        ({"audit_head": "ab" * 31}, "/audit_head"),
        ({"certificate_id": "one"}, "/certificate_id"),
        ({"caps": ["twice", "twice"]}, "/caps"),
        ({"findings": ["twice", "twice"]}, "/findings"),
        ({"environment": {"environment_hash": "12" * 32}}, "/environment"),
        ({"isolation": {"files": True}}, "/isolation"),
    ],
)
def test_a_certificate_with_a_wrong_value_is_refused_with_its_pointer(
    changes: JsonObject, pointer: str
) -> None:
    with pytest.raises(CertificateError) as caught:
        validate_certificate(issued() | changes, REGISTRY)
    assert str(caught.value).startswith("expected a certificate that fits its schema, got: ")
    assert pointer in str(caught.value)


def test_a_certificate_survives_the_way_through_its_file() -> None:
    certificate = issued()
    stored = canonical_bytes(certificate)
    value = TheatreCalibrationCertificate.model_validate(parse_object(stored))
    assert canonical_bytes(value.as_document()) == stored
    with pytest.raises(ValidationError, match="frozen"):
        value.verification_tier = "PROVEN"  # type: ignore[misc]  # the refusal under test


def test_what_is_not_in_the_evidence_cannot_be_put_on_a_certificate() -> None:
    with pytest.raises(ValidationError, match="signature"):
        TheatreCalibrationCertificate.model_validate(issued() | {"signature": "none"})


MARKET: JsonObject = {
    "schema_version": "1.2.0",
    "certificate_id": "2f9d7b5c-6f0e-5a51-9d0e-6a4f3b2c1d0e",
    "theatre_id": THEATRE_ID,
    "template_id": "geopolitical_strait_v1",
    "construct_id": "strait_forecaster",
    "criteria": {"criteria_ids": ["calibration"], "criteria_human": "Brier.", "weights": {}},
    "scores": {"calibration": 0.81},
    "composite_score": 0.81,
    "score_intervals": {},
    "score_counts": {},
    "holdout_scores": None,
    "precision": None,
    "recall": None,
    "reply_accuracy": None,
    "brier_score": 0.19,
    "ece": 0.04,
    "replay_count": 0,
    "episode_counts": {
        "total": 0,
        "scored": 0,
        "timeout": 0,
        "error": 0,
        "refused": 0,
        "unscored": 0,
        "not_run": 0,
    },
    "coverage": None,
    "refusal_rate": None,
    "results_hash": None,
    "evidence_bundle_hash": "34" * 32,
    "audit_head": "56" * 32,
    "ground_truth_hash": ground_truth_hash({}),
    "construct_version": "forecaster-2026.11",
    "version_source": "claimed",
    "construct_chain_versions": None,
    "environment": None,
    "scorer_version": "brier@1",
    "methodology_version": "1.0.0",
    "dataset_hash": None,
    "verification_tier": "UNVERIFIED",
    "caps": ["replays-below-50"],
    "findings": ["version-claimed"],
    "data_audit": None,
    "baselines": None,
    "episode_root": None,
    **NOT_FILLED,
    "isolation": None,
    "commitment_hash": "78" * 32,
    "coin_sha256": "89" * 32,
    "issuer": "local",
    "issued_at": "2026-11-21T12:00:00Z",
    "expires_at": None,
    "theatre_committed_at": "2026-11-01T12:00:00Z",
    "theatre_resolved_at": "2026-11-21T12:00:00Z",
    "ground_truth_source": "OSINT_FEED",
    "execution_path": "market",
}


def test_a_market_certificate_made_by_hand_fits_and_survives_the_way_through_its_file() -> None:
    validate_certificate(MARKET, REGISTRY)
    value = TheatreCalibrationCertificate.model_validate(MARKET)
    assert canonical_bytes(value.as_document()) == canonical_bytes(MARKET)
    again = TheatreCalibrationCertificate.model_validate_json(canonical_bytes(MARKET))
    assert again == value


def test_the_two_paths_share_one_set_of_fields() -> None:
    assert set(MARKET) == set(issued())
    with pytest.raises(CertificateError, match="/replay_count"):
        validate_certificate(MARKET | {"execution_path": "replay"}, REGISTRY)
    assert (
        cast("JsonObject", MARKET["criteria"]).keys()
        == cast("JsonObject", issued()["criteria"]).keys()
    )
