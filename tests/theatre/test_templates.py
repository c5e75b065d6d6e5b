"""Typed views of a template: the documented defaults, and nothing that was not committed."""

from typing import cast

import pytest
from pydantic import ValidationError

from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    PILOT,
    TEMPLATE,
    VERSION,
    call_step,
    with_changes,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import ExecutionPathUnavailableError
from theatre.engine.models import freeze_object
from theatre.engine.oracle_contract import RetryPolicy
from theatre.engine.templates import (
    ExecutionPolicy,
    Hop,
    InputPolicy,
    MarketTheatreTemplate,
    ProductTheatreTemplate,
    ResolutionStep,
    Scoring,
    product_template,
    read_faulty_template,
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
    (hop,) = view(
        {"/resolution_programme": [call_step(PILOT, **step)], "/execution_policy": policy}
    ).hops
    assert hop.timeout_seconds == seconds


def test_a_construct_of_its_own_is_called_once_an_episode() -> None:
    assert view().hops == (
        Hop(
            number=0,
            construct_id=PILOT,
            construct_version=VERSION,
            timeout_seconds=30,
            output_spec={},
        ),
    )


OBJECT: JsonObject = {"type": "object"}
COLOURED: JsonObject = {"required": ["colour"]}


def test_each_step_of_a_chain_has_a_limit_and_an_output_spec_of_its_own() -> None:
    steps: list[JsonValue] = [
        call_step(EASEL, timeout_seconds=2, output_spec=OBJECT),
        {"step_id": "aggregate", "type": "aggregation"},
        call_step(PILOT, output_spec=COLOURED),
    ]
    assert view({**CHAIN, "/resolution_programme": steps}).hops == (
        Hop(
            number=0,
            construct_id=EASEL,
            construct_version=EASEL_VERSION,
            timeout_seconds=2,
            output_spec=OBJECT,
        ),
        Hop(
            number=1,
            construct_id=PILOT,
            construct_version=VERSION,
            timeout_seconds=30,
            output_spec=COLOURED,
        ),
    )


@pytest.mark.parametrize("named", [EASEL, PILOT])
def test_one_step_stands_for_the_whole_chain_and_its_output_spec_for_the_last_output(
    named: str,
) -> None:
    step = call_step(named, timeout_seconds=2, output_spec=COLOURED)
    hops = view({**CHAIN, "/resolution_programme": [step]}).hops
    assert [(hop.number, hop.construct_id, hop.timeout_seconds) for hop in hops] == [
        (0, EASEL, 2),
        (1, PILOT, 2),
    ]
    assert [hop.output_spec for hop in hops] == [{}, COLOURED]


def test_several_steps_are_a_chain_also_where_none_is_named() -> None:
    steps: list[JsonValue] = [
        call_step(EASEL, output_spec=OBJECT),
        call_step(PILOT, timeout_seconds=3),
    ]
    named = view({**CHAIN, "/resolution_programme": steps})
    unnamed = view(
        {
            "/version_pins/constructs": CHAIN["/version_pins/constructs"],
            "/resolution_programme": steps,
        }
    )
    assert unnamed.hops == named.hops


def test_how_inputs_are_sanitised_stands_in_the_first_call() -> None:
    assert view().input_policy == InputPolicy(role_markers="break", raw_fields=())
    spec: JsonObject = {"role_markers": "flag", "raw_fields": ["/code", "/a~1b"], "note": "any"}
    steps: list[JsonValue] = [
        {"step_id": "aggregate", "type": "aggregation", "input_spec": {"raw_fields": ["/x"]}},
        call_step(EASEL, input_spec=spec),
        call_step(PILOT, input_spec={"role_markers": "break"}),
    ]
    policy = view({**CHAIN, "/resolution_programme": steps}).input_policy
    assert policy == InputPolicy(role_markers="flag", raw_fields=("/code", "/a~1b"))


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
    with pytest.raises(ExecutionPathUnavailableError) as caught:
        product_template(MARKET)
    assert (str(caught.value), caught.value.code) == (
        (
            "expected a replay template, got the market template geopolitical_strait_v1: it can "
            "be validated, hashed and committed, not run"
        ),
        "execution-path-unavailable",
    )


MISFITS: list[tuple[str, JsonValue]] = [
    ("/execution_policy", {"deterministic_sample": "all of them"}),
    ("/execution_policy", {"failure_threshold": None}),
    ("/resolution_programme", [call_step(PILOT, timeout_seconds="soon")]),
    ("/resolution_programme", [5]),
    ("/product_theatre_config/disclosure", "some of it"),
    ("/version_pins", "1"),
    ("/version_pins/constructs", {PILOT: 1}),
    ("/criteria/weights", {"colour": "most"}),
    ("/dataset_hashes", {"truth": None}),
]


@pytest.mark.parametrize(("pointer", "value"), MISFITS)
def test_no_run_goes_on_with_a_default_where_something_else_was_committed(
    pointer: str, value: JsonValue
) -> None:
    document = with_changes(TEMPLATE, {pointer: value})
    with pytest.raises(ValidationError):
        product_template(document)
    assert read_faulty_template(document).theatre_id == TEMPLATE["theatre_id"]


@pytest.mark.parametrize("document", [None, [], 5, "text", {}, {"criteria": [], "scoring": "x"}])
def test_of_a_document_that_is_no_template_nothing_fits(document: JsonValue) -> None:
    read = read_faulty_template(cast("JsonObject", document))
    assert (read.schema_version, read.criteria.criteria_ids, read.scoring) == ("", (), Scoring())
    assert (read.product_theatre_config, read.resolution_programme) == (None, ())


def test_a_view_reads_a_frozen_document_and_leaves_it_as_it_was() -> None:
    document = freeze_object(TEMPLATE)
    before = canonical_bytes(document)
    assert product_template(document) == view()
    assert canonical_bytes(document) == before
