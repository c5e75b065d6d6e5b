"""The one certificate schema fits both execution paths, and names every field that is missing."""

import json
from typing import cast

import pytest

from tests.theatre.runs import NOT_FILLED
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.schema_registry import SchemaRegistry, resource_root

NAME = "echelon_certificate_schema.json"
REGISTRY = SchemaRegistry()

REPLAY: JsonObject = {
    "schema_version": "1.2.0",
    "certificate_id": "2f9d7b5c-6f0e-5a51-9d0e-6a4f3b2c1d0e",
    "theatre_id": "0b7f8f0a-8a6e-4a57-9f0b-1c2d3e4f5a6b",
    "template_id": "product_cartograph_v1",
    "construct_id": "cartograph",
    "criteria": {
        "criteria_ids": ["hex_grid_accuracy", "detail_density_adherence"],
        "criteria_human": "Hex grid accuracy is mathematical.",
        "weights": {"hex_grid_accuracy": 0.7, "detail_density_adherence": 0.3},
    },
    "scores": {"hex_grid_accuracy": 0.95, "detail_density_adherence": None},
    "composite_score": None,
    "score_intervals": {
        "hex_grid_accuracy": {"low": 0.9, "high": 1, "method": "wilson", "level": 0.95},
        "detail_density_adherence": {
            "low": None,
            "high": None,
            "method": "undefined",
            "level": 0.95,
        },
        "composite_score": {"low": None, "high": None, "method": "undefined", "level": 0.95},
    },
    "score_counts": {
        "hex_grid_accuracy": {
            "scored": 57,
            "missing": 3,
            "not_applicable": 0,
            "declined": 0,
            "unscored": 0,
        }
    },
    "holdout_scores": {
        "train": {"episodes": 48, "scores": {"hex_grid_accuracy": 0.9}, "composite_score": None},
        "holdout": {"episodes": 12, "scores": {"hex_grid_accuracy": 1}, "composite_score": None},
        "gap": {
            "hex_grid_accuracy": {"difference": -0.1, "beyond_sampling_error": False},
            "composite_score": {"difference": None, "beyond_sampling_error": None},
        },
    },
    "precision": None,
    "recall": None,
    "reply_accuracy": None,
    "brier_score": None,
    "ece": None,
    "replay_count": 57,
    "episode_counts": {
        "total": 60,
        "scored": 57,
        "timeout": 1,
        "error": 2,
        "refused": 0,
        "unscored": 0,
        "not_run": 0,
    },
    "coverage": 0.95,
    "refusal_rate": 0,
    "results_hash": "1a" * 32,
    "evidence_bundle_hash": "2b" * 32,
    "audit_head": "3c" * 32,
    "ground_truth_hash": "4d" * 32,
    "construct_version": "5e" * 32,
    "version_source": "computed",
    "construct_chain_versions": None,
    "environment": None,
    "scorer_version": "exact_match@1",
    "methodology_version": "1.0.0",
    "dataset_hash": "6f" * 32,
    "verification_tier": "BACKTESTED",
    "caps": ["proven-needs-telemetry"],
    "findings": [],
    "data_audit": {
        "episodes": 60,
        "distinct_inputs": 59,
        "distinct_scored_inputs": 57,
        "near_duplicates": 1,
        "answers_in_inputs": 0,
        "clusters": 0,
        "criteria": {
            "hex_grid_accuracy": {"distinct_inputs": 59, "expectations": 0, "majority_share": None}
        },
    },
    "baselines": {
        "episodes": 60,
        "criteria": {
            "hex_grid_accuracy": {
                "not_applicable": None,
                "empty": {
                    "score": 0,
                    "n": 60,
                    "interval": {"low": 0, "high": 0.06, "method": "wilson", "level": 0.95},
                },
                "copied": None,
                "most_frequent": None,
                "other_episode": None,
            }
        },
    },
    "episode_root": "92" * 32,
    **NOT_FILLED,
    "isolation": {"files": True, "processes": True, "network": False, "by": "remote"},
    "commitment_hash": "70" * 32,
    "coin_sha256": "81" * 32,
    "issuer": "local",
    "issued_at": "2026-11-21T02:07:00.000000Z",
    "expires_at": "2027-02-19T02:07:00Z",
    "theatre_committed_at": "2026-11-21T02:00:00Z",
    "theatre_resolved_at": "2026-11-21T02:06:59.5Z",
    "ground_truth_source": "DETERMINISTIC_COMPUTATION",
    "execution_path": "replay",
}

MARKET: JsonObject = REPLAY | {
    "template_id": "strait_transit_v1",
    "construct_id": "strait_forecaster",
    "criteria": {"criteria_ids": ["calibration"], "criteria_human": "", "weights": {}},
    "scores": {"calibration": 0.81},
    "composite_score": 0.81,
    "score_intervals": {},
    "score_counts": {},
    "holdout_scores": None,
    "brier_score": 0.19,
    "ece": 0.04,
    "replay_count": 0,
    "episode_counts": dict.fromkeys(cast("JsonObject", REPLAY["episode_counts"]), 0),
    "coverage": None,
    "refusal_rate": None,
    "results_hash": None,
    "construct_version": "forecaster-2026.11",
    "version_source": "claimed",
    "construct_chain_versions": {"strait_forecaster": "forecaster-2026.11"},
    "dataset_hash": None,
    "verification_tier": "UNVERIFIED",
    "caps": ["replays-below-50: 0"],
    "findings": ["version-claimed"],
    "data_audit": None,
    "baselines": None,
    "expires_at": None,
    "ground_truth_source": "OSINT_FEED",
    "execution_path": "market",
}


def broken(document: JsonObject) -> list[tuple[str, str]]:
    return [(found.pointer, found.rule) for found in REGISTRY.validate(NAME, document)]


@pytest.mark.parametrize("certificate", [REPLAY, MARKET], ids=["replay", "market"])
def test_a_hand_made_certificate_fits_and_round_trips(certificate: JsonObject) -> None:
    assert broken(certificate) == []
    stored = parse_object(canonical_bytes(certificate))
    assert stored == certificate
    assert broken(stored) == []


def test_every_field_is_required_and_no_other_is_allowed() -> None:
    schema = json.loads((resource_root() / "docs" / "schemas" / NAME).read_text("utf-8"))
    assert set(schema["required"]) == set(schema["properties"]) == set(REPLAY) == set(MARKET)
    assert broken(REPLAY | {"endorsed_by": "me"}) == [
        ("/endorsed_by", "schema:additionalProperties")
    ]


@pytest.mark.parametrize("field", sorted(REPLAY))
@pytest.mark.parametrize("certificate", [REPLAY, MARKET], ids=["replay", "market"])
def test_a_missing_field_is_named(certificate: JsonObject, field: str) -> None:
    lacking = {key: value for key, value in certificate.items() if key != field}
    found = [
        (violation.pointer, violation.rule, violation.detail)
        for violation in REGISTRY.validate(NAME, lacking)
    ]
    detail = f"expected member {field}, got an object without it"
    assert found == [("", "schema:required", detail)]


def with_gap(gap: JsonObject) -> JsonObject:
    return cast("JsonObject", REPLAY["holdout_scores"]) | {"gap": {"a": gap}}


# fmt: off
UNFIT: list[tuple[str, JsonValue, list[tuple[str, str]]]] = [
    ("schema_version", "1.0.0", [("", "const")]),
    ("certificate_id", "42", [("", "format")]),
    ("theatre_id", "product_cartograph_v1", [("", "format")]),
    ("template_id", "Cartograph", [("", "pattern")]),
    ("construct_id", None, [("", "type")]),
    ("criteria", {"criteria_ids": ["a"], "criteria_human": ""}, [("", "required")]),
    ("scores", {"hex_grid_accuracy": 1.01}, [("/hex_grid_accuracy", "maximum")]),
    ("scores", {"hex_grid_accuracy": True}, [("/hex_grid_accuracy", "type")]),
    ("composite_score", -0.1, [("", "minimum")]),
    ("score_intervals", {"composite_score": None}, [("/composite_score", "type")]),
    ("score_counts", {"a": {"scored": 1}}, [("/a", "required")] * 4),
    ("holdout_scores", {"train": {}, "holdout": {}},
     [("", "required"), *[("/holdout", "required")] * 3, *[("/train", "required")] * 3]),
    ("holdout_scores", with_gap({"difference": 0.1}), [("/gap/a", "required")]),
    ("holdout_scores", with_gap({"difference": -1.1, "beyond_sampling_error": "no"}),
     [("/gap/a/beyond_sampling_error", "type"), ("/gap/a/difference", "minimum")]),
    ("brier_score", 1.5, [("", "maximum")]),
    ("ece", {"value": 0.03}, [("", "type")]),
    ("replay_count", 0, [("", "minimum")]),
    ("replay_count", 57.5, [("", "type")]),
    ("episode_counts", {"total": 1}, [("", "required")] * 6),
    ("results_hash", None, [("", "type")]),
    ("results_hash", "1A" * 32, [("", "pattern")]),
    ("audit_head", "1a" * 32 + "\n", [("", "pattern")]),
    ("construct_version", "latest", [("", "pattern")]),
    ("version_source", "guessed", [("", "enum")]),
    ("dataset_hash", None, [("", "type")]),
    ("verification_tier", "unverified", [("", "enum")]),
    ("verification_tier", "GOLD", [("", "enum")]),
    ("caps", ["a", "a"], [("", "uniqueItems")]),
    ("findings", None, [("", "type")]),
    ("findings", ["a", "a"], [("", "uniqueItems")]),
    ("data_audit", None, [("", "type")]),
    ("data_audit", {"episodes": -1}, [("", "required")] * 6 + [("/episodes", "minimum")]),
    ("baselines", None, [("", "type")]),
    ("baselines", {"episodes": 60, "criteria": {"a": {"not_applicable": "dull"}}},
     [*[("/criteria/a", "required")] * 4, ("/criteria/a/not_applicable", "enum")]),
    ("environment", {}, [("", "required")] * 3),
    ("environment", {"environment_hash": "1A" * 32, "interpreter": "", "platform": "x"},
     [("/environment_hash", "pattern"), ("/interpreter", "minLength")]),
    ("isolation", {"files": 1, "processes": True, "network": False, "by": "trust"},
     [("/by", "enum"), ("/files", "type")]),
    ("coin_sha256", "12", [("", "pattern")]),
    ("coin_sha256", None, [("", "type")]),
    ("episode_root", "12", [("", "pattern")]),
    ("episode_root", None, [("", "type")]),
    ("owner", "me", [("", "type")]),
    ("usage", [], [("", "anyOf")]),
    ("issued_at", "2026-11-21T02:07:00+00:00", [("", "format"), ("", "pattern")]),
    ("issued_at", "2026-02-30T02:07:00Z", [("", "format")]),
    ("expires_at", None, [("", "type")]),
    ("ground_truth_source", "HEARSAY", [("", "enum")]),
    ("execution_path", "both", [("", "enum")]),
]
# fmt: on


@pytest.mark.parametrize(("field", "value", "expected"), UNFIT)
def test_a_field_that_does_not_fit_is_named(
    field: str, value: JsonValue, expected: list[tuple[str, str]]
) -> None:
    found = REGISTRY.validate(NAME, REPLAY | {field: value})
    assert [(violation.pointer, violation.rule) for violation in found] == [
        (f"/{field}{below}", f"schema:{rule}") for below, rule in expected
    ]


def test_an_unverified_certificate_does_not_expire() -> None:
    assert broken(MARKET | {"expires_at": "2027-02-19T02:07:00Z"}) == [
        ("/expires_at", "schema:type")
    ]
