"""Typed views of a template: the documented defaults, and nothing that was not committed."""

from __future__ import annotations

import pytest

from tests.theatre.runs import PILOT, TEMPLATE, VERSION, with_changes
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import InvalidTemplateError
from theatre.engine.models import freeze_object
from theatre.engine.oracle_contract import RetryPolicy
from theatre.engine.templates import (
    ExecutionPolicy,
    MarketTheatreTemplate,
    ProductTheatreTemplate,
    ResolutionStep,
    product_template,
    view_template,
)

MARKET: JsonObject = {
    "schema_version": "2.1.0",
    "theatre_id": "geopolitical_strait_v1",
    "template_family": "GEOPOLITICAL",
    "execution_path": "market",
    "display_name": "Strait",
    "criteria": {"criteria_ids": ["calibration"], "criteria_human": "Brier."},
    "version_pins": {"scorer_version": "brier@1"},
}


def view(changes: dict[str, JsonValue] | None = None) -> ProductTheatreTemplate:
    return product_template(with_changes(TEMPLATE, changes or {}))


def test_a_template_that_says_nothing_gets_the_documented_policy() -> None:
    assert view({"/execution_policy": {}}).execution_policy == ExecutionPolicy(
        max_concurrency=1,
        failure_threshold=0.2,
        on_threshold="settle",
        max_refusal_rate=0.5,
        timeout_seconds=30,
        retry_policy=RetryPolicy(max_retries=2, backoff_seconds=5),
        deterministic_sample=0,
        sanitise_input=True,
    )


def test_what_the_template_says_wins_member_by_member() -> None:
    policy = view({"/execution_policy": {"retry_policy": {"max_retries": 1}}}).execution_policy
    assert policy.retry_policy == RetryPolicy(max_retries=1, backoff_seconds=5)
    assert view().execution_policy.retry_policy == RetryPolicy(max_retries=0, backoff_seconds=0)


@pytest.mark.parametrize(
    ("step", "policy", "seconds"),
    [
        ({}, {}, 30),
        ({}, {"timeout_seconds": 7}, 7),
        ({"timeout_seconds": 2}, {"timeout_seconds": 7}, 2),
    ],
)
def test_a_call_has_the_time_of_its_step_else_of_the_policy_else_thirty_seconds(
    step: JsonObject, policy: JsonObject, seconds: float
) -> None:
    call: JsonObject = {"step_id": "invoke", "type": "construct_invocation", **step}
    template = view({"/resolution_programme": [call], "/execution_policy": policy})
    assert template.timeout_of(template.programme[0]) == seconds


def test_the_programme_is_the_committed_one_in_its_order() -> None:
    assert view().programme == (
        ResolutionStep(step_id="invoke", type="construct_invocation", construct_id=PILOT),
        ResolutionStep(step_id="aggregate", type="aggregation"),
    )


def test_without_a_programme_the_construct_is_called_and_the_scores_aggregated() -> None:
    template = view({"/resolution_programme": []})
    assert template.programme == (
        ResolutionStep(step_id="invoke", type="construct_invocation", construct_id=PILOT),
        ResolutionStep(step_id="aggregate", type="aggregation"),
    )


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, {"truth": "truth.jsonl"}),
        (
            {"/product_theatre_config/gold_label_set": "gold.jsonl"},
            {"truth": "truth.jsonl", "gold_labels": "gold.jsonl"},
        ),
        (
            {
                "/product_theatre_config/gold_label_set": "gold.jsonl",
                "/product_theatre_config/gold_label_dataset_id": "labels",
                "/product_theatre_config/dataset_paths": {"more": "more.jsonl"},
            },
            {"truth": "truth.jsonl", "labels": "gold.jsonl", "more": "more.jsonl"},
        ),
    ],
)
def test_every_dataset_has_its_committed_path(
    changes: dict[str, JsonValue], paths: dict[str, str]
) -> None:
    assert view(changes).product_theatre_config.data_paths() == paths


def test_the_replay_dataset_has_its_committed_hash() -> None:
    assert view({"/dataset_hashes": {"more": "0", "truth": "ab" * 32}}).replay_dataset_hash == (
        "ab" * 32
    )


def test_pins_default_to_the_first_methodology_and_to_any_adapter() -> None:
    pins = view({"/version_pins": {"scorer_version": "label"}}).version_pins
    assert (pins.constructs, pins.methodology_version, pins.adapter_version) == ({}, "1.0.0", None)
    assert view().version_pins.constructs == {PILOT: VERSION}


def test_a_market_template_has_a_view_but_cannot_be_run() -> None:
    market = view_template(MARKET)
    assert isinstance(market, MarketTheatreTemplate)
    assert (market.theatre_id, market.dataset_hashes) == ("geopolitical_strait_v1", {})
    with pytest.raises(InvalidTemplateError) as caught:
        product_template(MARKET)
    assert str(caught.value) == (
        "expected a replay template, got the market template geopolitical_strait_v1: "
        "market templates can be validated and hashed, not run"
    )


def test_a_view_reads_a_frozen_document_and_leaves_it_as_it_was() -> None:
    document = freeze_object(TEMPLATE)
    before = canonical_bytes(document)
    assert product_template(document) == view()
    assert canonical_bytes(document) == before
