"""Four versions of templates: each with its frozen schema, its rules, and its defaults."""

import copy
import hashlib
import json
import re
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, cast

import pytest
import rfc8785

from theatre.engine.bundle_check.arithmetic import undeclared
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256, parse_object
from theatre.engine.commitment import CommitmentProtocol, close_by
from theatre.engine.errors import ExecutionPathUnavailableError
from theatre.engine.oracle_contract import pinned_version
from theatre.engine.scoring import TheatreScoringProvider
from theatre.engine.template_validator import TemplateValidator, ValidationReport, Violation
from theatre.engine.templates import (
    ExecutionPolicy,
    SimulationTemplate,
    product_template,
    view_template,
)
from theatre.scorers import load_scorers

FIXTURES = Path(__file__).parents[2] / "fixtures" / "templates"
VALIDATOR = TemplateValidator(load_scorers())
SHA = "0f" * 32
DROP = object()
COMMITTED_AT = datetime(2026, 11, 23, 12, tzinfo=UTC)

UNCOMMITTED = Violation(
    "/scoring",
    "scorers-not-committed",
    "expected criteria_scorers, got none: each criterion gets exact_match over the member of its "
    "own name, and the tier is capped at UNVERIFIED",
)


def shipped(name: str) -> JsonObject:
    return parse_object((FIXTURES / f"{name}.json").read_bytes())


def numerals() -> JsonObject:
    return shipped("versions/product_numerals_v1")


def gridworld() -> JsonObject:
    return shipped("versions/gridworld_rescue_v1")


def straits_of_2_0_1() -> JsonObject:
    market: Any = shipped("market/geopolitical_maritime_v1")
    market["schema_version"] = "2.0.1"
    for claim in ("exhaustive", "mutually_exclusive"):
        del market["fork_definitions"][0][claim]
    return cast("JsonObject", market)


def edited(base: JsonObject, edits: dict[str, object]) -> JsonObject:
    """Return a copy of `base` with the values at JSON Pointers replaced, added or dropped."""
    document: Any = copy.deepcopy(base)
    for pointer, value in edits.items():
        *path, last = pointer.split("/")[1:]

        def inside(holder: Any, key: str) -> Any:  # noqa: ANN401  # a walk through any JSON
            return holder[int(key) if isinstance(holder, list) else key]

        holder = reduce(inside, path, document)
        if value is DROP:
            del holder[last]
        else:
            holder[int(last) if isinstance(holder, list) else last] = value
    return cast("JsonObject", document)


def places(document: JsonObject) -> list[tuple[str, str]]:
    return [(error.pointer, error.rule) for error in VALIDATOR.validate(document).errors]


def warnings(document: JsonObject) -> list[tuple[str, str]]:
    report = VALIDATOR.validate(document)
    assert report.errors == ()
    return [(warning.pointer, warning.rule) for warning in report.warnings]


def recomputed(document: JsonObject) -> str:
    """Hash as a stranger would, who knows of no defaults."""
    composite = {
        "template": document,
        "version_pins": document.get("version_pins", {}),
        "dataset_hashes": document.get("dataset_hashes", {}),
    }
    return hashlib.sha256(rfc8785.dumps(cast("Any", composite))).hexdigest()


# --- 2.0.1 -----------------------------------------------------------------------------------


def test_a_2_0_1_template_is_valid_and_warned_that_it_names_no_scorers() -> None:
    report = VALIDATOR.validate(numerals())
    assert report == ValidationReport(errors=(), warnings=(UNCOMMITTED,))


def test_defaults_are_in_the_view_and_never_in_what_is_hashed() -> None:
    document = numerals()
    view = product_template(document)
    config = view.product_theatre_config
    assert view.execution_policy == ExecutionPolicy()
    assert (view.version_pins.adapter_version, view.scorer_pins) == (None, {})
    assert (config.disclosure, config.episode_runner) == ("public", "single_call")
    assert (config.gold_label_dataset_id, config.dataset_paths) == ("gold_labels", {})
    assert document == numerals()
    assert CommitmentProtocol.hash_template(document) == recomputed(numerals())


def test_each_criterion_gets_exact_match_over_the_member_of_its_own_name() -> None:
    provider = TheatreScoringProvider(numerals(), load_scorers())
    assert [(plan.criterion_id, plan.scorer.pin, plan.params) for plan in provider.criteria] == [
        ("roman_numeral", "exact_match@1", {"field": "roman_numeral", "expected": "roman_numeral"}),
        ("digit_sum", "exact_match@1", {"field": "digit_sum", "expected": "digit_sum"}),
    ]
    assert provider.scorer_pins == {"exact_match": "1"}
    assert provider.calibration_criterion is None


CHOSEN = "/scoring/criteria_scorers"
BARE: JsonObject = {"scorer": "exact_match"}


def test_scorers_that_a_2_0_1_template_does_name_are_used() -> None:
    chosen = {"roman_numeral": {"scorer": "set_f1"}, "digit_sum": BARE}
    document = edited(numerals(), {CHOSEN: chosen})
    assert VALIDATOR.validate(document) == ValidationReport(errors=(), warnings=())
    provider = TheatreScoringProvider(document, load_scorers())
    assert [plan.scorer.name for plan in provider.criteria] == ["set_f1", "exact_match"]


@pytest.mark.parametrize("chosen", [{}, {"roman_numeral": BARE}])
def test_a_2_0_1_template_names_all_scorers_or_none(chosen: JsonObject) -> None:
    assert (CHOSEN, "criteria-scored") in places(edited(numerals(), {CHOSEN: chosen}))


PRODUCT = "/product_theatre_config"


@pytest.mark.parametrize(
    ("edits", "pointer", "rule"),
    [
        ({"/scorer_pins": {"exact_match": "1"}}, "/scorer_pins", "additionalProperties"),
        ({"/execution_policy": {}}, "/execution_policy", "additionalProperties"),
        (
            {"/version_pins/adapter_version": "local@1"},
            "/version_pins/adapter_version",
            "additionalProperties",
        ),
        *(
            ({f"{PRODUCT}/{member}": value}, f"{PRODUCT}/{member}", "additionalProperties")
            for member, value in (
                ("construct_endpoints", {}),
                ("dataset_paths", {}),
                ("gold_label_dataset_id", "gold_labels"),
                ("disclosure", "hashes"),
                ("episode_runner", "single_call"),
            )
        ),
        (
            {f"{PRODUCT}/adapter_type": "python", f"{PRODUCT}/adapter_endpoint": "a:b"},
            f"{PRODUCT}/adapter_type",
            "enum",
        ),
        (
            {"/criteria/criteria_ids": ["top_5"], "/criteria/weights": {}},
            "/criteria/criteria_ids/0",
            "pattern",
        ),
        ({CHOSEN: {"roman_numeral": {}, "digit_sum": BARE}}, f"{CHOSEN}/roman_numeral", "required"),
    ],
)
def test_what_2_1_0_adds_is_no_part_of_2_0_1(
    edits: dict[str, object], pointer: str, rule: str
) -> None:
    assert places(edited(numerals(), edits)) == [(pointer, f"schema:{rule}")]


def test_the_members_that_2_1_0_adds_to_a_rating_are_no_part_of_2_0_1() -> None:
    step = {"step_id": "taste", "type": "hitl_rubric"}
    rating: JsonObject = {
        "step_id": "taste",
        "rubric": "How well does it read?",
        "scoring_scale": {"min": 1, "max": 5},
    }
    base = edited(numerals(), {"/resolution_programme/1": step, "/hitl_steps": [rating]})
    assert warnings(base) == [("/scoring", "scorers-not-committed")]
    for name, value in {"criterion_id": "digit_sum", "share": 0.5, "items": 3}.items():
        assert places(edited(base, {f"/hitl_steps/0/{name}": value})) == [
            (f"/hitl_steps/0/{name}", "schema:additionalProperties")
        ]


def test_a_criterion_of_2_0_1_may_have_a_long_name_and_is_warned_of_it() -> None:
    name = "a" * 80
    document = edited(numerals(), {"/criteria/criteria_ids": [name], "/criteria/weights": {}})
    assert ("/criteria/criteria_ids/0", "criteria-id-length") in warnings(document)


def test_gold_labels_without_a_hash_are_not_used_and_the_author_is_told() -> None:
    document = edited(numerals(), {f"{PRODUCT}/gold_label_set": "gold.jsonl"})
    assert warnings(document) == [
        (f"{PRODUCT}/gold_label_set", "gold-unpinned"),
        ("/scoring", "scorers-not-committed"),
    ]
    assert product_template(document).gold_is_unpinned
    config = product_template(document).product_theatre_config
    assert (config.gold_label_set, config.data_paths()) == (None, {"numerals": "numerals.jsonl"})
    assert CommitmentProtocol.hash_template(document) == recomputed(document)


def test_gold_labels_with_a_hash_are_used() -> None:
    document = edited(
        numerals(), {f"{PRODUCT}/gold_label_set": "gold.jsonl", "/dataset_hashes/gold_labels": SHA}
    )
    assert warnings(document) == [("/scoring", "scorers-not-committed")]
    assert not product_template(document).gold_is_unpinned
    assert product_template(document).product_theatre_config.data_paths() == {
        "numerals": "numerals.jsonl",
        "gold_labels": "gold.jsonl",
    }


def test_in_2_1_0_gold_labels_need_their_hash() -> None:
    document = edited(shipped("product_cartograph_v1"), {f"{PRODUCT}/gold_label_set": "gold.jsonl"})
    assert not product_template(document).gold_is_unpinned
    assert places(document) == [(f"{PRODUCT}/gold_label_set", "dataset-names-match-paths")]


def test_a_hash_without_a_path_is_refused_in_2_0_1_too() -> None:
    document = edited(numerals(), {"/dataset_hashes/styles": SHA})
    assert places(document) == [("/dataset_hashes/styles", "dataset-names-match-paths")]


def test_a_chain_of_2_0_1_names_each_construct_once() -> None:
    chain = ["numerals", "scribe", "numerals"]
    document = edited(
        numerals(),
        {f"{PRODUCT}/construct_chain": chain, "/version_pins/constructs/scribe": "abc1234"},
    )
    assert places(document) == [(f"{PRODUCT}/construct_chain/2", "constructs-called-once")]


def test_a_market_of_2_0_1_need_not_declare_its_forks_exclusive_but_leaves_room() -> None:
    assert VALIDATOR.validate(straits_of_2_0_1()) == ValidationReport(errors=(), warnings=())
    without_rest: Any = straits_of_2_0_1()
    del without_rest["fork_definitions"][0]["options"][-1]
    assert places(without_rest) == [("/fork_definitions/0", "fork-residual")]


def test_a_mapping_of_the_export_means_nothing_before_2_1_0() -> None:
    document = edited(numerals(), {"/rlmf_export_config": {"fork_id": "f_77"}})
    assert warnings(document) == [("/scoring", "scorers-not-committed")]


# --- 1.0.0 -----------------------------------------------------------------------------------


def test_a_simulation_template_is_valid_hashed_and_readable() -> None:
    document = gridworld()
    assert VALIDATOR.validate(document) == ValidationReport(errors=(), warnings=())
    assert CommitmentProtocol.hash_template(document) == recomputed(document)
    view = view_template(document)
    assert isinstance(view, SimulationTemplate)
    assert (view.theatre_id, view.template_family, view.display_name) == (
        "gridworld_rescue_v1",
        "2D-DISCRETE",
        "Gridworld rescue: a template of version 1.0.0",
    )


@pytest.mark.parametrize(
    "edits", [{}, {"/execution_path": "replay"}, {"/execution_path": "market"}]
)
def test_a_simulation_template_cannot_be_run_whatever_else_it_says(
    edits: dict[str, object],
) -> None:
    with pytest.raises(ExecutionPathUnavailableError) as caught:
        product_template(edited(gridworld(), edits))
    assert (str(caught.value), caught.value.code) == (
        (
            "expected a replay template, got the 1.0.0 simulation template gridworld_rescue_v1: "
            "it can be validated, hashed and committed, not run"
        ),
        "execution-path-unavailable",
    )


REQUIRED = (
    *("theatre_id", "template_family", "display_name", "training_primitives", "difficulty_tiers"),
    *("fork_definitions", "scoring"),
)


@pytest.mark.parametrize("member", REQUIRED)
def test_a_simulation_template_needs_its_members(member: str) -> None:
    assert places(edited(gridworld(), {f"/{member}": DROP})) == [("", "schema:required")]


FORK = "/fork_definitions/0"


@pytest.mark.parametrize(
    ("edits", "pointer", "rule"),
    [
        ({"/template_family": "PRODUCT"}, "/template_family", "enum"),
        ({"/training_primitives": []}, "/training_primitives", "minItems"),
        ({"/difficulty_tiers": []}, "/difficulty_tiers", "minItems"),
        ({"/fork_definitions": []}, "/fork_definitions", "minItems"),
        *(
            ({f"{FORK}/{member}": DROP}, FORK, "required")
            for member in ("trigger_condition", "options", "deadline_ms", "state_transitions")
        ),
        ({f"{FORK}/deadline_ms": 999}, f"{FORK}/deadline_ms", "minimum"),
        ({f"{FORK}/options": []}, f"{FORK}/options", "minItems"),
        ({"/scoring/score_vector": DROP}, "/scoring", "required"),
        *(
            ({f"/scoring/score_vector/{name}_weight": DROP}, "/scoring/score_vector", "required")
            for name in ("time", "value", "collateral", "safety", "trace")
        ),
        ({"/metadata/created_date": "yesterday"}, "/metadata/created_date", "anyOf"),
        ({"/version_pins": 5}, "/version_pins", "type"),
    ],
)
def test_the_schema_of_1_0_0_names_what_does_not_fit(
    edits: dict[str, object], pointer: str, rule: str
) -> None:
    assert places(edited(gridworld(), edits)) == [(pointer, f"schema:{rule}")]


def test_the_root_of_1_0_0_is_open_and_what_it_holds_is_committed() -> None:
    document = edited(gridworld(), {"/colour_scheme": {"sky": "grey"}, "/criteria": "none"})
    assert VALIDATOR.validate(document) == ValidationReport(errors=(), warnings=())
    assert CommitmentProtocol.hash_template(document) == recomputed(document)
    assert recomputed(document) != recomputed(gridworld())


@pytest.mark.parametrize(
    ("edits", "pointer", "rule"),
    [
        ({"/display_name": "e\u0301"}, "/display_name", "strings-nfc"),
        ({"/note": 2**53}, "/note", "integers-safe"),
        ({"/note": float("nan")}, "/note", "canonical-form"),
        ({"/note": {"\ufb01": 1, "\U0001f600": 2}}, "/note", "keys-order-agrees"),
        ({"/note": f"ghp_{'a1' * 18}"}, "/note", "no-credentials"),
        ({f"{FORK}/options/1/option_id": "short_way"}, f"{FORK}/options/1/option_id", "ids-unique"),
    ],
)
def test_the_rules_that_guard_the_hash_hold_for_1_0_0_too(
    edits: dict[str, object], pointer: str, rule: str
) -> None:
    assert places(edited(gridworld(), edits)) == [(pointer, rule)]


# --- 2.2.0 -----------------------------------------------------------------------------------

POLICY = "/execution_policy"
DATASET = "cartograph_grid_reference"


def reached(kind: str, place: str) -> dict[str, object]:
    return {f"{PRODUCT}/adapter_type": kind, f"{PRODUCT}/adapter_endpoint": place}


def newest(edits: dict[str, object] | None = None) -> JsonObject:
    base = edited(shipped("product_cartograph_v1"), {"/schema_version": "2.2.0"})
    base.setdefault("execution_policy", {})
    return edited(base, edits or {})


def test_a_2_2_0_template_runs_as_one_of_2_1_0_and_may_say_when_it_is_closed() -> None:
    document = newest({f"{POLICY}/close_within_days": 7})
    assert VALIDATOR.validate(document) == ValidationReport(errors=(), warnings=())
    assert product_template(document).theatre_id == "product_cartograph_v1"
    assert close_by(document, COMMITTED_AT) == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert CommitmentProtocol.hash_template(document) == recomputed(document)


@pytest.mark.parametrize(
    "document",
    [newest(), shipped("product_cartograph_v1"), numerals(), gridworld(), straits_of_2_0_1()],
    ids=lambda document: f"{document['theatre_id']} {document['schema_version']}",
)
def test_a_template_that_does_not_say_when_is_closed_after_thirty_days(
    document: JsonObject,
) -> None:
    assert close_by(document, COMMITTED_AT) == datetime(2026, 12, 23, 12, tzinfo=UTC)


def test_a_limit_where_no_version_has_one_limits_nothing() -> None:
    document = edited(gridworld(), {"/execution_policy": {"close_within_days": 1}})
    assert VALIDATOR.validate(document).errors == ()
    assert close_by(document, COMMITTED_AT) == datetime(2026, 12, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize("repeats", [1, 3, 20])
def test_an_episode_can_be_asked_up_to_twenty_times(repeats: int) -> None:
    document = newest({f"{POLICY}/repeats": repeats})
    assert VALIDATOR.validate(document).errors == ()
    assert product_template(document).execution_policy.repeats == repeats


def test_an_open_member_of_2_1_0_that_has_a_reserved_name_means_nothing() -> None:
    document = edited(shipped("product_cartograph_v1"), {"/scoring/qualifications": "none"})
    assert VALIDATOR.validate(document).errors == ()
    assert product_template(document).schema_version == "2.1.0"


@pytest.mark.parametrize(
    ("edits", "pointer", "rule"),
    [
        *(
            ({f"{POLICY}/close_within_days": days}, f"{POLICY}/close_within_days", rule)
            for days, rule in ((0, "minimum"), (91, "maximum"), (1.5, "type"), (None, "type"))
        ),
        ({f"{POLICY}/repeats": 0}, f"{POLICY}/repeats", "minimum"),
        ({f"{POLICY}/repeats": 21}, f"{POLICY}/repeats", "maximum"),
        ({f"{POLICY}/budget": {}}, f"{POLICY}/budget", "minProperties"),
        ({f"{POLICY}/budget": {"max_calls": 0}}, f"{POLICY}/budget/max_calls", "minimum"),
        ({f"{POLICY}/budget": {"max_cost_usd": 0}}, f"{POLICY}/budget/max_cost_usd",
         "exclusiveMinimum"),
        ({f"{POLICY}/budget": {"calls": 1}}, f"{POLICY}/budget/calls", "additionalProperties"),
        ({"/scoring/qualifications": {}}, "/scoring/qualifications", "minProperties"),
        ({f"{PRODUCT}/adapter_type": "grpc"}, f"{PRODUCT}/adapter_type", "enum"),
    ],
)  # fmt: skip
def test_the_schema_of_2_2_0_names_what_does_not_fit(
    edits: dict[str, object], pointer: str, rule: str
) -> None:
    assert places(newest(edits)) == [(pointer, f"schema:{rule}")]


@pytest.mark.parametrize(
    ("edits", "pointer", "rule"),
    [
        (reached("http", "https://a.example/?b"), f"{PRODUCT}/adapter_endpoint", "endpoint-form"),
        (reached("command", "./agent"), f"{PRODUCT}/adapter_endpoint", "endpoint-form"),
    ],
)  # fmt: skip
def test_the_rules_hold_for_what_2_2_0_adds(
    edits: dict[str, object], pointer: str, rule: str
) -> None:
    assert places(newest(edits)) == [(pointer, rule)]


def test_no_command_comes_in_over_the_interface() -> None:
    command = reached("command", '["./agent"]')
    report = VALIDATOR.validate(newest(command), from_api=True)
    assert [(error.pointer, error.rule) for error in report.errors] == [
        (f"{PRODUCT}/adapter_endpoint", "endpoint-form"),
        (f"{PRODUCT}/adapter_settings", "adapter-registered"),
    ]


def test_a_model_over_the_interface_is_one_that_the_operator_registered() -> None:
    settings = {
        "model": "m",
        "key_env": "OPENAI_API_KEY",
        "answer": {"from": "regex", "regex": "a"},
    }
    edits = reached("openai", "https://api.example.com/v1")
    at = f"{PRODUCT}/adapter_settings"
    report = VALIDATOR.validate(newest(edits | {at: settings}), from_api=True)
    assert [one.pointer for one in report.errors if one.rule == "adapter-registered"] == [
        at,
        f"{at}/answer",
        f"{at}/key_env",
    ]
    budget = newest({f"{POLICY}/budget": {"max_calls": 9}})
    assert [one.rule for one in VALIDATOR.validate(budget, from_api=True).errors] == [
        "budget-local"
    ]


def test_the_settings_that_the_page_shows_fit() -> None:
    page = (FIXTURES.parents[1] / "docs" / "constructs.md").read_text(encoding="utf-8")
    shown = page[page.index("## Without a wrapper") : page.index("## In a template")]
    blocks = [json.loads(one) for one in re.findall(r"```json\n(.*?)```", shown, re.DOTALL)]
    assert [one["adapter_type"] for one in blocks] == ["openai", "mcp", "command", "container"]
    for block in blocks:
        edits = {f"{PRODUCT}/{name}": value for name, value in block.items()}
        rules = {rule for _, rule in places(newest(edits))}
        assert rules <= {"version-declared"}


PROMPT: JsonObject = {"model": "m", "prompt": "{{/text}}", "parameters": {"temperature": 0}}
TWINS: dict[str, JsonObject] = {
    "prompt": PROMPT | {"prompt": "Now: {{/text}}"},
    "model": PROMPT | {"model": "n"},
    "parameter": PROMPT | {"parameters": {"temperature": 1}},
    "answer": PROMPT | {"answer": {"from": "json"}},
}


@pytest.mark.parametrize("twin", TWINS)
def test_another_prompt_or_parameter_is_another_version(twin: str) -> None:
    place = "https://api.example.com/v1"
    version = pinned_version("openai", place, PROMPT)
    assert pinned_version("openai", place, TWINS[twin]) != version
    # What changes no answer changes no version.
    known: JsonObject = {"key_env": "OPENAI_API_KEY", "prices": {"input": 1, "output": 2}}
    assert pinned_version("openai", place, PROMPT | known) == version
    edits = reached("openai", place) | {
        f"{PRODUCT}/adapter_settings": TWINS[twin],
        "/version_pins/constructs/cartograph": version,
    }
    pointer = "/version_pins/constructs/cartograph"
    assert places(newest(edits)) == [(pointer, "version-declared")]
    # The check of a bundle finds it out by itself.
    assert list(undeclared(newest(edits), canonical_sha256)) == ["cartograph"]
    edits |= {f"{PRODUCT}/adapter_settings": PROMPT}
    assert list(undeclared(newest(edits), canonical_sha256)) == []
    assert places(newest(edits)) == []
    # Without prices no cost is counted, and a limit of it would never be reached.
    edits |= {f"{POLICY}/budget": {"max_cost_usd": 1}}
    limit = f"{POLICY}/budget/max_cost_usd"
    assert places(newest(edits)) == [(limit, "budget-priced")]
    assert places(newest(edits | {f"{PRODUCT}/adapter_settings": PROMPT | known})) == []


@pytest.mark.parametrize(
    ("edits", "pointer", "rule"),
    [
        *(({f"{POLICY}/{member}": value}, f"{POLICY}/{member}", "additionalProperties")
          for member, value in (("close_within_days", 30), ("repeats", 1), ("budget", {}))),
        *((reached(kind, "construct:cartograph"), f"{PRODUCT}/adapter_type", "enum")
          for kind in ("openai", "anthropic", "mcp", "command")),
    ],
)  # fmt: skip
def test_what_2_2_0_adds_is_no_part_of_2_1_0(
    edits: dict[str, object], pointer: str, rule: str
) -> None:
    document = newest(edits | {"/schema_version": "2.1.0"})
    assert places(document) == [(pointer, f"schema:{rule}")]


# --- no version ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.0.0", "2.1", "", "2.1.0 ", "latest"])
def test_a_version_that_there_is_not_is_the_one_error(version: str) -> None:
    document = edited(numerals(), {"/schema_version": version, "/display_name": 5})
    assert VALIDATOR.validate(document) == ValidationReport(
        errors=(
            Violation(
                "/schema_version",
                "schema:enum",
                f"expected one of 1.0.0, 2.0.1, 2.1.0, 2.2.0; got {version!r}",
            ),
        ),
        warnings=(),
    )


def test_a_credential_in_the_place_of_a_version_is_not_repeated() -> None:
    token = f"ghp_{'a1' * 18}"
    (error,) = VALIDATOR.validate(edited(numerals(), {"/schema_version": token})).errors
    assert error.detail == "expected one of 1.0.0, 2.0.1, 2.1.0, 2.2.0; got '[withheld]'"


@pytest.mark.parametrize("edit", [DROP, 2, None])
def test_a_document_that_names_no_version_is_read_as_the_newest(edit: JsonValue) -> None:
    cartograph = shipped("product_cartograph_v1")
    rule = "schema:required" if edit is DROP else "schema:const"
    pointer = "" if edit is DROP else "/schema_version"
    assert places(edited(cartograph, {"/schema_version": edit})) == [(pointer, rule)]
