"""Each runtime rule, broken alone; and no document, however odd, that makes the validator raise.

Past 400 lines: the table has a case or more for each rule of docs/contract/template.md §3.
"""

import copy
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Judgement, Scorer, ScorerKind, ScoringCase
from theatre.engine.schema_registry import without_values
from theatre.engine.template_validator import TemplateValidator, ValidationReport, Violation
from theatre.engine.template_validator.validator import RULES, TEMPLATE_SCHEMAS

SHA = "0f" * 32


def equal(case: ScoringCase) -> float:
    return 1.0 if case.answer == case.expected else 0.0


def told(case: ScoringCase) -> Judgement:
    answer = yield {"is_right": case.answer}
    return 1.0 if answer["said"] else 0.0


PARAMS: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["field"],
    "properties": {"field": {"type": "string", "pattern": "^[a-z_]+$"}},
}


def judgement(case: ScoringCase) -> Judgement:
    said = yield {"is_right": case.answer}
    return float(bool(said))


SCORERS = {
    "same": Scorer(
        name="same", version="1", kind=ScorerKind.EXACT, params_schema=PARAMS, score=equal
    ),
    "any": Scorer(name="any", version="2", kind=ScorerKind.EXACT, params_schema={}, score=equal),
    "broken": Scorer(
        name="broken", version="1", kind=ScorerKind.EXACT, params_schema={"type": 5}, score=equal
    ),
    "json_schema": Scorer(
        name="json_schema", version="1", kind=ScorerKind.EXACT, params_schema={}, score=equal
    ),
    "told": Scorer(
        name="told",
        version="1",
        kind=ScorerKind.JUDGED,
        params_schema={},
        score=equal,
        judgement=told,
    ),
}
SCORERS["words"] = replace(SCORERS["same"], name="words", kind=ScorerKind.TEXTUAL)
SCORERS["asks"] = replace(SCORERS["same"], name="asks", kind=ScorerKind.JUDGED, judgement=judgement)
VALIDATOR = TemplateValidator(SCORERS)

AGGREGATION: JsonObject = {"step_id": "aggregate", "type": "aggregation"}


def invocation(construct: str) -> JsonObject:
    step_id = f"invoke_{construct}"
    return {"step_id": step_id, "type": "construct_invocation", "construct_id": construct}


REPLAY: JsonObject = {
    "schema_version": "2.1.0",
    "theatre_id": "product_mirror_v1",
    "template_family": "PRODUCT",
    "execution_path": "replay",
    "display_name": "Mirror",
    "criteria": {
        "criteria_ids": ["left", "right"],
        "criteria_human": "Both halves are given back.",
        "weights": {"left": 0.3, "right": 0.7},
    },
    "version_pins": {"constructs": {"mirror": "abc1234"}, "scorer_version": "same@1"},
    "scorer_pins": {"same": "1"},
    "dataset_hashes": {"halves": SHA},
    "resolution_programme": [invocation("mirror"), AGGREGATION],
    "fork_definitions": [
        {
            "fork_id": "f_01",
            "options": [
                {"option_id": "meets", "label": "Meets it"},
                {"option_id": "falls_short", "label": "Falls short"},
            ],
        }
    ],
    "scoring": {
        "criteria_scorers": {
            "left": {"scorer": "same", "params": {"field": "left"}},
            "right": {"scorer": "same", "params": {"field": "right"}},
        }
    },
    "product_theatre_config": {
        "ground_truth_source": "CUSTOM",
        "construct_under_test": "mirror",
        "adapter_type": "http",
        "adapter_endpoint": "https://mirror.example/invoke",
        "replay_dataset_id": "halves",
        "replay_data_path": "halves.jsonl",
    },
}

MARKET: JsonObject = {
    "schema_version": "2.1.0",
    "theatre_id": "strait_transit_v1",
    "template_family": "GEOPOLITICAL",
    "execution_path": "market",
    "display_name": "Strait",
    "criteria": {"criteria_ids": ["calibration"], "criteria_human": "Probability against event."},
    "version_pins": {"scorer_version": "brier@1"},
    "resolution_programme": [AGGREGATION],
    "fork_definitions": [
        {
            "fork_id": "f_01",
            "exhaustive": True,
            "mutually_exclusive": True,
            "options": [
                {"option_id": "resumes", "label": "Transit resumes"},
                {"option_id": "blocked", "label": "Prolonged blockade"},
                {"option_id": "other", "label": "Anything else"},
            ],
        }
    ],
    "scoring": {},
    "market_theatre_config": {
        "lmsr_config": {"liquidity_b": 100, "duration_seconds": 86400},
        "geopolitical_category": "MARITIME",
        "osint_sources": [
            {"provider": "Spire", "modality": "AIS", "resolution_role": "primary_evidence"},
            {"provider": "GDELT", "modality": "news", "resolution_role": "secondary_corroboration"},
        ],
    },
}

DROP = object()
"""Stands for "take the member away" in an edit."""

Edits = dict[str, object]


def step_into(value: object, token: str | int) -> object:
    if isinstance(value, list):
        return value[int(token)]
    return cast("dict[str | int, object]", value)[token]


def edited(base: JsonObject, edits: Edits) -> JsonObject:
    """Return a copy of `base` with the values at JSON Pointers replaced, added or dropped."""
    document = copy.deepcopy(base)
    for pointer, value in edits.items():
        *path, last = (part.replace("~1", "/") for part in pointer.split("/")[1:])
        parent = reduce(step_into, path, cast("object", document))
        if isinstance(parent, list):
            parent[int(last)] = value
        elif value is DROP:
            del cast("JsonObject", parent)[last]
        else:
            cast("JsonObject", parent)[last] = cast("JsonValue", value)
    return document


OPTIONS = cast(
    "list[JsonObject]", cast("list[JsonObject]", REPLAY["fork_definitions"])[0]["options"]
)
PRODUCT = "/product_theatre_config"
MARKETS = "/market_theatre_config"
STEPS = "/resolution_programme"
FORK = "/fork_definitions/0"
CHOSEN = "/scoring/criteria_scorers"
CONSTRUCTS = "/version_pins/constructs"
IDS = "/criteria/criteria_ids"
WEIGHTS = "/criteria/weights"
SOURCES = f"{MARKETS}/osint_sources"
DATA_PATH = f"{PRODUCT}/replay_data_path"
ENDPOINT = f"{PRODUCT}/adapter_endpoint"
SETTINGS = f"{PRODUCT}/adapter_settings"
OTHER_ENDPOINT = f"{PRODUCT}/construct_endpoints/mirror"

CHAIN = edited(
    REPLAY,
    {
        CONSTRUCTS: {"mirror": "abc1234", "lens": "abc1234", "prism": "abc1234"},
        STEPS: [invocation(name) for name in ("mirror", "lens", "prism")],
        f"{PRODUCT}/construct_chain": ["mirror", "lens", "prism"],
    },
)

NEWEST = edited(REPLAY, {"/schema_version": "2.2.0"})
RECORDED = {
    "harness": edited(
        NEWEST,
        {
            f"{PRODUCT}/adapter_type": "harness",
            ENDPOINT: DROP,
            f"{PRODUCT}/harness": "inspect_ai@0.3",
        },
    ),
    "imported": edited(
        NEWEST,
        {
            f"{PRODUCT}/adapter_type": "imported",
            ENDPOINT: "answers",
            f"{PRODUCT}/dataset_paths": {"answers": "answers.jsonl"},
            "/dataset_hashes/answers": SHA,
        },
    ),
}


def rubric(step_id: str) -> JsonObject:
    return {"step_id": step_id, "type": "hitl_rubric"}


RATED = edited(
    REPLAY,
    {
        STEPS: [
            invocation("mirror"),
            rubric("taste") | {"escalation_path": "aggregate"},
            AGGREGATION | {"escalation_path": "FAIL"},
        ],
        "/hitl_steps": [
            {
                "step_id": "taste",
                "rubric": "How well does it read?",
                "scoring_scale": {"min": 1, "max": 5, "labels": {"1": "badly", "4.5": "well"}},
                "identity_separation": {"scorer_must_not_be_author": True, "minimum_scorers": 2},
                "criterion_id": "left",
                "share": 0.5,
                "items": 3,
            }
        ],
    },
)
RATING = "/hitl_steps/0"
TASTE = cast("list[JsonObject]", RATED["hitl_steps"])[0]

COMPUTED = edited(
    REPLAY,
    {
        STEPS: [
            invocation("mirror")
            | {"input_spec": {"raw_fields": ["/code", "", "/a~1b/0"], "role_markers": "flag"}},
            {
                "step_id": "add_up",
                "type": "deterministic_computation",
                "input_spec": {"computation": "sums", "over": "halves", "params": {"start": 1}},
            },
            AGGREGATION,
        ]
    },
)
SENT = f"{STEPS}/0/input_spec"
COMPUTATION = f"{STEPS}/1/input_spec"

MAPPED = edited(
    REPLAY,
    {
        f"{FORK}/options": [
            {"option_id": "left", "label": "Left"},
            {"option_id": "right", "label": "Right"},
            {"option_id": "other", "label": "Anything else"},
        ],
        "/rlmf_export_config": {"fork_id": "f_01", "output_path": "side", "truth_path": "side"},
    },
)
EXPORT = "/rlmf_export_config"


@dataclass(frozen=True)
class Case:
    """A change that breaks one rule, and the pointer at which it is reported."""

    rule: str
    edits: Edits
    pointer: str
    base: JsonObject = field(default_factory=lambda: REPLAY)
    certificate_run: bool = True
    from_api: bool = False

    def report(self) -> ValidationReport:
        return VALIDATOR.validate(
            edited(self.base, self.edits),
            certificate_run=self.certificate_run,
            from_api=self.from_api,
        )


BIG = 2**53


def renamed(old: str, new: str) -> Edits:
    """Return the edits that give a criterion of `REPLAY` another id, wherever it stands."""
    ids = [new if criterion == old else criterion for criterion in ("left", "right")]
    return {
        IDS: ids,
        WEIGHTS: dict.fromkeys(ids, 0.5),
        CHOSEN: {criterion: {"scorer": "any"} for criterion in ids},
        "/scorer_pins": {"any": "2"},
    }


def twice(member: str) -> list[JsonValue]:
    return cast("list[JsonValue]", RATED[member]) * 2


def other_endpoint(adapter_type: str, endpoint: str) -> Edits:
    entry = {"adapter_type": adapter_type, "endpoint": endpoint}
    return {f"{PRODUCT}/construct_endpoints": {"mirror": entry}}


# fmt: off
WORDS_DECIDE: Edits = {f"{CHOSEN}/left/scorer": "words", "/scorer_pins/words": "1"}
MEASURED: Edits = {
    f"{PRODUCT}/dataset_paths": {"measured": "m.sigstore.json"},
    "/dataset_hashes/measured": SHA,
}


def relying(criterion: str, dataset: str) -> Edits:
    return {"/scoring/qualifications": {criterion: {"dataset": dataset, "sha256": SHA}}}


ERRORS = [
    # 1, 2, 13 and the reserved id
    Case("weights-within-criteria", {f"{WEIGHTS}/up": 0.0}, f"{WEIGHTS}/up"),
    Case("weights-sum-to-one", {f"{WEIGHTS}/left": 0.300002}, WEIGHTS),
    Case("weights-sum-to-one", {WEIGHTS: {"left": 1.7e308, "right": 1.7e308}}, WEIGHTS),
    Case("weights-cover-criteria", {WEIGHTS: {"left": 1}}, WEIGHTS),
    Case("weights-finite-and-not-negative", {WEIGHTS: {"left": -0.5, "right": 1.5}},
         f"{WEIGHTS}/left"),
    *(Case("weights-finite-and-not-negative", {f"{WEIGHTS}/left": weight}, f"{WEIGHTS}/left")
      for weight in (float("nan"), float("inf"), float("-inf"))),
    Case("reserved-criterion-id", renamed("left", "composite_score"), "/criteria/criteria_ids/0"),
    Case("calibration-criterion-known", {"/scoring/calibration_criterion": "up"},
         "/scoring/calibration_criterion"),
    Case("qualification-known",
         {"/schema_version": "2.2.0",
          **WORDS_DECIDE, **relying("left", "elsewhere")},
         "/scoring/qualifications/left/dataset"),
    Case("repeats-fit",
         {"/schema_version": "2.2.0",
          "/execution_policy": {"repeats": 2, "deterministic_sample": 1}},
         "/execution_policy/repeats"),
    Case("qualification-known",
         {"/schema_version": "2.2.0", **MEASURED, **relying("left", "measured")},
         "/scoring/qualifications/left"),
    Case("qualification-known",
         {"/schema_version": "2.2.0", **MEASURED, **relying("up", "measured")},
         "/scoring/qualifications/up"),
    # 17
    Case("criteria-scored", {f"{CHOSEN}/left": DROP}, CHOSEN),
    Case("criteria-scored", {"/scoring": {}, WEIGHTS: {"left": 1}, IDS: ["left"]}, "/scoring"),
    Case("criteria-scored", {f"{CHOSEN}/up": {"scorer": "any"}, "/scorer_pins/any": "2"},
         f"{CHOSEN}/up"),
    Case("scorer-known", {f"{CHOSEN}/left/scorer": "gut_feeling"}, f"{CHOSEN}/left/scorer"),
    Case("scorer-params", {f"{CHOSEN}/left/params": {}}, f"{CHOSEN}/left/params"),
    Case("scorer-params", {f"{CHOSEN}/left/params": DROP}, f"{CHOSEN}/left"),
    Case("scorer-params", {f"{CHOSEN}/left/params/field": "a\n"}, f"{CHOSEN}/left/params/field"),
    Case("scorer-params", {f"{CHOSEN}/left/scorer": "broken", "/scorer_pins/broken": "1"},
         f"{CHOSEN}/left/params"),
    Case("scorer-schema-usable",
         {f"{CHOSEN}/left": {"scorer": "json_schema", "params": {"schema": {"type": "text"}}},
          "/scorer_pins/json_schema": "1"}, f"{CHOSEN}/left/params/schema/type"),
    Case("scorer-schema-usable",
         {f"{CHOSEN}/left": {"scorer": "json_schema",
                             "params": {"schema": {"$ref": "https://example.com/"}}},
          "/scorer_pins/json_schema": "1"}, f"{CHOSEN}/left/params/schema/$ref"),
    Case("scorer-pin", {"/scorer_pins/same": "2"}, "/scorer_pins/same"),
    Case("judge-local", {f"{CHOSEN}/left": {"scorer": "told"}, "/scorer_pins/told": "1",
                         WEIGHTS: {"left": 0, "right": 1}},
         f"{CHOSEN}/left/scorer", from_api=True),
    Case("judge-local", {f"{CHOSEN}/left": {"scorer": "told",
         "params": {"judge": {"provider": "openai"}}}, "/scorer_pins/told": "1",
         WEIGHTS: {"left": 0, "right": 1}},
         f"{CHOSEN}/left/scorer", from_api=True),
    Case("scorer-pin", {"/scorer_pins": {}}, "/scorer_pins"),
    # 3, 4, 9 and 20
    Case("programme-construct-pinned", {f"{STEPS}/1/construct_id": "lens"},
         f"{STEPS}/1/construct_id"),
    Case("invocation-names-construct", {f"{STEPS}/0/construct_id": DROP}, f"{STEPS}/0"),
    Case("chain-pinned", {f"{CONSTRUCTS}/lens": DROP, STEPS: [invocation("mirror")]},
         f"{PRODUCT}/construct_chain/1", CHAIN),
    Case("construct-under-test-invoked", {STEPS: [AGGREGATION]}, f"{PRODUCT}/construct_under_test"),
    Case("construct-under-test-pinned", {STEPS: [AGGREGATION], CONSTRUCTS: {}},
         f"{PRODUCT}/construct_under_test"),
    Case("construct-under-test-invoked",
         {f"{CONSTRUCTS}/lens": "abc1234", f"{STEPS}/0/construct_id": "lens"},
         f"{PRODUCT}/construct_under_test"),
    Case("chain-matches-programme", {f"{PRODUCT}/construct_chain": ["mirror", "prism", "lens"]},
         f"{PRODUCT}/construct_chain", CHAIN),
    Case("chain-matches-programme", {STEPS: [invocation("mirror"), invocation("lens")]},
         f"{PRODUCT}/construct_chain", CHAIN),
    Case("chain-matches-programme",
         {STEPS: [invocation("lamp")], f"{CONSTRUCTS}/lamp": "abc1234"},
         f"{PRODUCT}/construct_chain", CHAIN),
    Case("chain-ends-in-construct-under-test", {f"{PRODUCT}/construct_under_test": "lens"},
         f"{PRODUCT}/construct_under_test", CHAIN),
    Case("constructs-called-once",
         {STEPS: [invocation("mirror"), invocation("mirror") | {"step_id": "again"}]},
         f"{STEPS}/1/construct_id"),
    # what an input_spec commits
    *(Case("computation-named", {COMPUTATION: spec}, pointer, COMPUTED)
      for spec, pointer in (
          ({}, COMPUTATION),
          ({"computation": ""}, f"{COMPUTATION}/computation"),
          ({"computation": 5}, f"{COMPUTATION}/computation"),
      )),
    Case("computation-named", {COMPUTATION: DROP}, f"{STEPS}/1", COMPUTED),
    *(Case("computation-over", {f"{COMPUTATION}/over": over}, f"{COMPUTATION}/over", COMPUTED)
      for over in ("quarters", "gold_labels", None, ["halves"])),
    Case("computation-params", {f"{COMPUTATION}/params": [1]}, f"{COMPUTATION}/params", COMPUTED),
    *(Case("computation-in-aggregate", {COMPUTATION: {"computation": "sums", **spec}},
           f"{COMPUTATION}/in_aggregate", COMPUTED)
      for spec in ({"in_aggregate": "yes"}, {"in_aggregate": 1},
                   {"over": "halves", "in_aggregate": True})),
    Case("computation-in-aggregate",
         {f"{STEPS}/1": AGGREGATION,
          f"{STEPS}/2": {"step_id": "add_up", "type": "deterministic_computation",
                         "input_spec": {"computation": "sums", "in_aggregate": True}}},
         f"{STEPS}/2/input_spec/in_aggregate", COMPUTED),
    Case("computation-members", {f"{COMPUTATION}/dataset": "halves"}, f"{COMPUTATION}/dataset",
         COMPUTED),
    *(Case("role-markers-known", {f"{SENT}/role_markers": markers}, f"{SENT}/role_markers",
           COMPUTED)
      for markers in ("keep", None, ["flag"])),
    Case("raw-fields-are-pointers", {f"{SENT}/raw_fields": "/code"}, f"{SENT}/raw_fields",
         COMPUTED),
    *(Case("raw-fields-are-pointers", {f"{SENT}/raw_fields": ["/code", field]},
           f"{SENT}/raw_fields/1", COMPUTED)
      for field in ("code", "/a~", "/a~2b", 5)),
    # 12
    Case("ids-unique", {f"{STEPS}/1/step_id": "invoke_mirror"}, f"{STEPS}/1/step_id"),
    Case("ids-unique", {f"{FORK}/options": [*OPTIONS, OPTIONS[0]]},
         f"{FORK}/options/2/option_id"),
    Case("ids-unique", {"/fork_definitions": twice("fork_definitions")},
         "/fork_definitions/1/fork_id"),
    Case("ids-unique", {"/hitl_steps": twice("hitl_steps")}, "/hitl_steps/1/step_id", RATED),
    Case("ids-fit", {"/theatre_id": "a" * 253 + "_v1"}, "/theatre_id"),
    Case("ids-fit", {f"{CONSTRUCTS}/{128 * 'ä'}": "abc1234"}, f"{CONSTRUCTS}/{128 * 'ä'}"),
    Case("step-id-reserved", {f"{STEPS}/1/step_id": "FAIL"}, f"{STEPS}/1/step_id"),
    *(Case("escalation-forward", {f"{STEPS}/{at}/escalation_path": target},
           f"{STEPS}/{at}/escalation_path")
      for at, target in ((0, "nowhere"), (1, "invoke_mirror"), (1, "aggregate"))),
    Case("output-spec-schema", {f"{STEPS}/0/output_spec": {"not": {"$ref": "https://example.com/"}}},
         f"{STEPS}/0/output_spec/not/$ref"),
    Case("output-spec-schema", {f"{STEPS}/0/output_spec": {"type": "text"}},
         f"{STEPS}/0/output_spec/type"),
    # ratings
    Case("hitl-step-known", {f"{STEPS}/1/type": "aggregation"}, f"{RATING}/step_id",
         RATED),
    Case("hitl-steps-match", {"/hitl_steps": []}, f"{STEPS}/1/step_id", RATED),
    Case("scale-ordered", {f"{RATING}/scoring_scale/max": 1}, f"{RATING}/scoring_scale", RATED),
    *(Case("scale-labels-on-scale", {f"{RATING}/scoring_scale/labels": {"1": "low", label: "high"}},
           f"{RATING}/scoring_scale/labels/{label}", RATED)
      for label in ("5.1", "0.999", "best", "1-2", "4\n")),
    Case("hitl-criterion-known", {f"{RATING}/criterion_id": "up"}, f"{RATING}/criterion_id", RATED),
    Case("hitl-criterion-once", {STEPS: [invocation("mirror"), rubric("taste"), rubric("again")],
                                 "/hitl_steps": [TASTE, TASTE | {"step_id": "again"}]},
         "/hitl_steps/1/criterion_id", RATED),
    Case("hitl-before-aggregation", {STEPS: [invocation("mirror"), AGGREGATION, rubric("taste")]},
         f"{STEPS}/2", RATED),
    *(Case("hitl-step-id-is-file-name", {f"{STEPS}/1/step_id": name, f"{RATING}/step_id": name},
           f"{STEPS}/1/step_id", RATED)
      for name in ("../taste", "a/b", ".hidden", "what taste", "gôut", "taste\n")),
    # 7, 10 and 19
    Case("replay-dataset-hashed", {"/dataset_hashes": {}}, f"{PRODUCT}/replay_dataset_id"),
    Case("dataset-path-present", {f"{PRODUCT}/replay_data_path": DROP}, PRODUCT),
    Case("dataset-path-present", {f"{PRODUCT}/replay_dataset_id": DROP, "/dataset_hashes": {}},
         PRODUCT),
    *(Case("dataset-path-inside-root", {DATA_PATH: path}, DATA_PATH)
      for path in ("a/../b", "..\\b", "..", "a\0b")),
    *(Case("dataset-path-inside-root", {DATA_PATH: path}, DATA_PATH, from_api=True)
      for path in ("/data/halves.jsonl", "C:\\halves.jsonl", "\\\\host\\share\\halves.jsonl")),
    Case("dataset-path-inside-root",
         {f"{PRODUCT}/gold_label_set": "../gold", "/dataset_hashes/gold_labels": SHA},
         f"{PRODUCT}/gold_label_set"),
    Case("dataset-path-inside-root",
         {f"{PRODUCT}/dataset_paths": {"styles": ".."}, "/dataset_hashes/styles": SHA},
         f"{PRODUCT}/dataset_paths/styles"),
    Case("dataset-names-match-paths", {"/dataset_hashes/styles": SHA}, "/dataset_hashes/styles"),
    Case("dataset-names-match-paths", {"/dataset_hashes": {"x": SHA}}, "/dataset_hashes/x", MARKET),
    Case("dataset-names-match-paths", {f"{PRODUCT}/gold_label_set": "gold"},
         f"{PRODUCT}/gold_label_set"),
    Case("dataset-names-match-paths",
         {f"{PRODUCT}/gold_label_set": "gold", f"{PRODUCT}/gold_label_dataset_id": "halves"},
         f"{PRODUCT}/gold_label_dataset_id"),
    *(Case("dataset-names-match-paths", {f"{PRODUCT}/dataset_paths": {name: "other.jsonl"}},
           f"{PRODUCT}/dataset_paths/{name}")
      for name in ("styles", "halves")),
    *(Case("dataset-name-is-file-name",
           {f"{PRODUCT}/dataset_paths": {name: "other.jsonl"}, "/dataset_hashes": {"halves": SHA,
            name: SHA}}, f"{PRODUCT}/dataset_paths/{name.replace('/', '~1')}")
      for name in ("dataset", "a/b", ".hidden", "two words", "..", "a\n")),
    Case("dataset-name-is-file-name",
         {f"{PRODUCT}/gold_label_set": "gold", f"{PRODUCT}/gold_label_dataset_id": "experts",
          f"{PRODUCT}/dataset_paths": {"gold_labels": "other.jsonl"},
          "/dataset_hashes": {"halves": SHA, "experts": SHA, "gold_labels": SHA}},
         f"{PRODUCT}/dataset_paths/gold_labels"),
    # endpoints
    *(Case("endpoint-form", {f"{PRODUCT}/adapter_type": adapter, ENDPOINT: endpoint}, ENDPOINT,
           from_api=from_api)
      for adapter, endpoint, from_api in (
          ("http", "mirror.example", False),
          ("http", "ftp://mirror.example", False),
          ("http", "https://", False),
          ("http", "http://[::1", False),
          ("http", "construct:", False),
          ("local", "python mirror.py", False),
          ("local", "[]", False),
          ("local", '["python", 1]', False),
          ("local", "[" * 100, False),
          ("local", '["python", "mirror.py"]', True),
          ("python", "mirror", False),
      )),
    Case("endpoint-form", other_endpoint("http", "x"), f"{OTHER_ENDPOINT}/endpoint"),
    Case("python-adapter-local", {f"{PRODUCT}/adapter_type": "python", ENDPOINT: DROP},
         f"{PRODUCT}/adapter_type", from_api=True),
    Case("python-adapter-local", other_endpoint("python", "construct:m"),
         f"{OTHER_ENDPOINT}/adapter_type", from_api=True),
    *(Case("python-adapter-local", other_endpoint("python", place),
           f"{OTHER_ENDPOINT}/adapter_type", from_api=True)
      for place in ("mirror:answer", "listed.sub:answer", "listedx:answer", "Listed:answer")),
    # constructs without a wrapper
    Case("adapter-settings", {"/schema_version": "2.2.0", SETTINGS: {"model": "m"}},
         f"{SETTINGS}/model"),
    Case("adapter-registered", {"/schema_version": "2.2.0", f"{PRODUCT}/adapter_type": "command",
         ENDPOINT: "construct:mirror"}, SETTINGS, from_api=True),
    Case("version-declared", {"/schema_version": "2.2.0", f"{PRODUCT}/adapter_type": "openai",
         ENDPOINT: "https://a.example/v1", SETTINGS: {"model": "m"}}, f"{CONSTRUCTS}/mirror"),
    Case("budget-local", {"/schema_version": "2.2.0",
         "/execution_policy": {"budget": {"max_calls": 1}}}, "/execution_policy/budget",
         from_api=True),
    Case("budget-counted", {"/schema_version": "2.2.0",
         "/execution_policy": {"budget": {"max_tokens": 1}}},
         "/execution_policy/budget/max_tokens"),
    Case("budget-priced", {"/schema_version": "2.2.0",
         "/execution_policy": {"budget": {"max_cost_usd": 1}}},
         "/execution_policy/budget/max_cost_usd"),
    *(Case("recorded-adapter-local", {}, f"{PRODUCT}/adapter_type", RECORDED[adapter],
           from_api=True)
      for adapter in ("imported", "harness")),
    Case("recorded-adapter-complete", {f"{PRODUCT}/harness": "inspect_ai@0.3"},
         f"{PRODUCT}/harness", NEWEST),
    Case("recorded-adapter-complete", {f"{PRODUCT}/harness": DROP}, PRODUCT, RECORDED["harness"]),
    Case("recorded-adapter-complete", {f"{PRODUCT}/construct_endpoints": {
         "mirror": {"adapter_type": "http", "endpoint": "https://mirror.example"}}}, PRODUCT,
         RECORDED["harness"]),
    Case("recorded-adapter-complete", {ENDPOINT: "unknown"}, ENDPOINT, RECORDED["imported"]),
    # markets
    Case("family-matches-path", {"/template_family": "PRODUCT"}, "/execution_path", MARKET),
    Case("other-path-config-absent", {MARKETS: MARKET["market_theatre_config"]}, MARKETS),
    Case("other-path-config-absent",
         {PRODUCT: REPLAY["product_theatre_config"], "/dataset_hashes": {"halves": SHA},
          CONSTRUCTS: {"mirror": "abc1234"}}, PRODUCT, MARKET),
    Case("sources-independent", {SOURCES: DROP}, MARKETS, MARKET),
    Case("sources-independent", {SOURCES: []}, SOURCES, MARKET),
    Case("sources-independent", {f"{MARKETS}/corroboration_minimum": 3}, SOURCES, MARKET),
    Case("sources-independent",
         {f"{SOURCES}/1/provider": " SPIRE", f"{SOURCES}/1/modality": "ais"}, SOURCES, MARKET),
    Case("sources-primary", {f"{SOURCES}/0/resolution_role": "secondary_corroboration"}, SOURCES,
         MARKET),
    Case("forks-exhaustive", {f"{FORK}/exhaustive": DROP}, FORK, MARKET),
    Case("forks-exhaustive", {f"{FORK}/exhaustive": False}, f"{FORK}/exhaustive", MARKET),
    Case("forks-exclusive", {f"{FORK}/mutually_exclusive": DROP}, FORK, MARKET),
    Case("option-labels-distinct", {f"{FORK}/options/1/label": "TRANSIT  resumes"},
         f"{FORK}/options/1/label", MARKET),
    Case("fork-residual", {f"{FORK}/options/2/option_id": "talks"}, FORK, MARKET),
    # the export
    *(Case("export-config-complete", {f"{EXPORT}/{member}": DROP}, EXPORT, MAPPED)
      for member in ("fork_id", "output_path", "truth_path")),
    *(Case("export-config-complete", {f"{EXPORT}/{member}": value}, f"{EXPORT}/{member}", MAPPED)
      for member, value in (("fork_id", 1), ("output_path", ""), ("truth_path", None))),
    Case("export-fork-known", {f"{EXPORT}/fork_id": "f_02"}, f"{EXPORT}/fork_id", MAPPED),
    Case("export-fork-residual", {f"{FORK}/options/2/option_id": "up"}, f"{EXPORT}/fork_id",
         edited(MAPPED, {f"{FORK}/options/2/label": "Up"})),
    # 8, 18 and 21
    Case("canonical-form", {"/scoring/tie_breakers": [float("nan")]}, "/scoring/tie_breakers/0"),
    Case("canonical-form", {"/display_name": "\ud800"}, "/display_name"),
    Case("canonical-form", {"/physics_config": {"\udc00": 1}}, "/physics_config"),
    Case("strings-nfc", {"/display_name": "e\u0301"}, "/display_name"),
    Case("strings-nfc", {"/physics_config": {"e\u0301": 1}}, "/physics_config/e\u0301"),
    Case("keys-order-agrees", {"/physics_config": {"\ufb01": 1, "\U0001f600": 2}},
         "/physics_config"),
    Case("integers-safe", {"/physics_config": [BIG]}, "/physics_config/0"),
    Case("integers-safe", {"/physics_config": {"a/b": -BIG}}, "/physics_config/a~1b"),
    Case("no-credentials", {"/description": f"token ghp_{'a1' * 18}"}, "/description"),
    Case("no-credentials", {"/physics_config": {f"ghp_{'a1' * 18}": 1}}, "/physics_config"),
    Case("no-credentials", {ENDPOINT: "https://user:pass@mirror.example/"}, ENDPOINT),
    # 6
    Case("mock-adapter-refused", {f"{PRODUCT}/adapter_type": "mock"}, f"{PRODUCT}/adapter_type"),
    Case("mock-adapter-refused", other_endpoint("mock", "x"), f"{OTHER_ENDPOINT}/adapter_type"),
]

WARNINGS = [
    Case("criteria-id-length", renamed("left", "a" * 33), "/criteria/criteria_ids/0"),
    Case("scorer-pins-missing", {"/scorer_pins": DROP}, ""),
    Case("measure-unqualified", WORDS_DECIDE, f"{CHOSEN}/left/scorer"),
    Case("measure-unqualified", {**WORDS_DECIDE, WEIGHTS: DROP}, f"{CHOSEN}/left/scorer"),
    Case("measure-unqualified", {**WORDS_DECIDE, f"{RATING}/criterion_id": "left",
         f"{RATING}/share": 0.9}, f"{CHOSEN}/left/scorer", RATED),
    Case("controls-counted",
         {"/schema_version": "2.2.0", **MEASURED, f"{CHOSEN}/left/scorer": "asks",
          "/scorer_pins/asks": "1", **relying("left", "measured")}, f"{CHOSEN}/left"),
    Case("input-spec-read", {f"{SENT}/raw_field": ["/code"]}, f"{SENT}/raw_field", COMPUTED),
    Case("input-spec-read", {f"{STEPS}/1/input_spec": {"raw_fields": ["/code"]}},
         f"{STEPS}/1/input_spec/raw_fields", CHAIN),
    Case("export-told-by-fork", {f"{FORK}/options/1/option_id": "misses"}, "/fork_definitions"),
    Case("mock-adapter-rehearsal", {f"{PRODUCT}/adapter_type": "mock"}, f"{PRODUCT}/adapter_type",
         certificate_run=False),
]
# fmt: on


WARNINGS_OF_2_0_1 = {"scorers-not-committed", "gold-unpinned"}
"""Shown in test_template_versions.py."""


def places(violations: tuple[Violation, ...]) -> list[tuple[str, str]]:
    return [(violation.pointer, violation.rule) for violation in violations]


def case_id(case: Case) -> str:
    return f"{case.rule}:{case.pointer}"


@pytest.mark.parametrize(
    "base",
    [REPLAY, CHAIN, RATED, COMPUTED, MAPPED, MARKET],
    ids=["replay", "chain", "rated", "computed", "mapped", "market"],
)
@pytest.mark.parametrize("from_api", [False, True])
def test_a_sound_template_has_neither_errors_nor_warnings(
    base: JsonObject, *, from_api: bool
) -> None:
    report = VALIDATOR.validate(base, from_api=from_api)
    assert report == ValidationReport(errors=(), warnings=())
    assert report.valid


@pytest.mark.parametrize("case", ERRORS, ids=case_id)
def test_a_template_that_breaks_one_rule_has_that_one_error(case: Case) -> None:
    report = case.report()
    assert places(report.errors) == [(case.pointer, case.rule)]
    assert report.warnings == ()
    assert (report.valid, report.view) == (False, None)
    assert report.errors[0].detail.startswith("expected ") or case.rule == "scorer-params"


def test_a_long_chain_is_told_by_how_it_begins_and_without_values_not_at_all() -> None:
    chain: list[JsonValue] = [f"link{number}" for number in range(9)]
    report = VALIDATOR.validate(edited(CHAIN, {f"{PRODUCT}/construct_chain": chain}))
    (detail,) = [one.detail for one in report.errors if one.rule == "chain-matches-programme"]
    expected = "expected the constructs of the construct_invocation steps in their order"
    links = " → ".join(f"'link{number}'" for number in range(8))
    assert detail == f"{expected} ('mirror' → 'lens' → 'prism'), got {links} → …"
    words = ("a text of 6 characters", "a text of 4 characters", "a text of 5 characters")
    seen = " → ".join(["a text of 5 characters"] * 8)
    assert without_values(detail) == f"{expected} ({' → '.join(words)}), got {seen} → …"


@pytest.mark.parametrize("case", WARNINGS, ids=case_id)
def test_a_doubtful_template_is_valid_with_a_warning(case: Case) -> None:
    report = case.report()
    assert report.errors == ()
    assert places(report.warnings) == [(case.pointer, case.rule)]
    assert report.valid


def test_every_rule_of_the_table_has_a_case_and_a_name_of_its_own() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert {case.rule for case in ERRORS} == {r.name for r in RULES if r.severity == "error"}
    warnings = {rule.name for rule in RULES if rule.severity == "warning"}
    assert {case.rule for case in WARNINGS} | WARNINGS_OF_2_0_1 == warnings


# fmt: off
WITHIN_THE_RULES: list[tuple[Edits, JsonObject]] = [
    ({WEIGHTS: DROP}, REPLAY),
    ({WEIGHTS: {}}, REPLAY),
    ({f"{WEIGHTS}/left": 0.3000009}, REPLAY),
    ({**WORDS_DECIDE, WEIGHTS: {"left": 0, "right": 1}}, REPLAY),
    ({**WORDS_DECIDE, f"{RATING}/criterion_id": "left", f"{RATING}/share": 1}, RATED),
    ({DATA_PATH: "/data/halves.jsonl"}, REPLAY),
    ({DATA_PATH: "a..b/..c"}, REPLAY),
    ({DATA_PATH: f"dataset:{SHA}"}, REPLAY),
    ({f"{PRODUCT}/gold_label_set": "gold", "/dataset_hashes/gold_labels": SHA}, REPLAY),
    ({f"{PRODUCT}/gold_label_set": "gold", f"{PRODUCT}/gold_label_dataset_id": "experts",
      "/dataset_hashes/experts": SHA}, REPLAY),
    ({f"{PRODUCT}/dataset_paths": {"styles": "s"}, "/dataset_hashes/styles": SHA}, REPLAY),
    ({ENDPOINT: "construct:mirror"}, REPLAY),
    ({f"{PRODUCT}/adapter_type": "local", ENDPOINT: '["python", "mirror.py"]'}, REPLAY),
    ({f"{PRODUCT}/adapter_type": "python", ENDPOINT: "mirror.main:run"}, REPLAY),
    ({STEPS: [invocation("prism")]}, CHAIN),
    ({f"{PRODUCT}/construct_under_test": "prism"}, CHAIN),
    ({f"{STEPS}/0/output_spec": {"type": "object", "required": ["left"]}}, REPLAY),
    ({"/theatre_id": "a" * 252 + "_v1", f"{CONSTRUCTS}/{85 * 'あ'}": "abc1234"}, REPLAY),
    ({STEPS: [invocation("mirror"), invocation("lens")], f"{CONSTRUCTS}/lens": "abc1234"}, REPLAY),
    ({f"{COMPUTATION}/over": "episodes"}, COMPUTED),
    ({COMPUTATION: {"computation": "sums"}}, COMPUTED),
    ({COMPUTATION: {"computation": "sums", "in_aggregate": True}}, COMPUTED),
    ({f"{COMPUTATION}/in_aggregate": False}, COMPUTED),
    ({f"{COMPUTATION}/over": "gold_labels", f"{PRODUCT}/gold_label_set": "gold",
      "/dataset_hashes/gold_labels": SHA}, COMPUTED),
    ({f"{PRODUCT}/dataset_paths": {"Styles_2.v-1": "s"}, "/dataset_hashes/Styles_2.v-1": SHA},
     REPLAY),
    ({"/rlmf_export_config": {"enabled": True}}, REPLAY),
    ({"/rlmf_export_config": "later"}, REPLAY),
    ({f"{FORK}/options/1": {"option_id": "no_change", "label": "As before"}}, REPLAY),
    ({EXPORT: {"fork_id": "f_09"}}, edited(MARKET, {})),
    ({f"{RATING}/scoring_scale": {"min": -1.5, "max": 0, "labels": {"-1.5": "no"}}}, RATED),
    ({"/physics_config": {"n": 2**53 - 1, "deep": [[[1e300]]]}}, REPLAY),
    ({f"{FORK}/options/2": {"option_id": "x", "label": "None of the above"}}, MARKET),
    ({f"{FORK}/options/2/option_id": "x", f"{FORK}/exhaustive_because": "No other way."}, MARKET),
    ({f"{SOURCES}/1/provider": "Spire"}, MARKET),
    ({f"{SOURCES}/1/modality": "AIS"}, MARKET),
    ({"/template_family": "HYBRID"}, MARKET),
]
# fmt: on


@pytest.mark.parametrize(("edits", "base"), WITHIN_THE_RULES)
def test_a_change_within_the_rules_stays_valid(edits: Edits, base: JsonObject) -> None:
    assert VALIDATOR.validate(edited(base, edits)) == ValidationReport(errors=(), warnings=())


# fmt: off
LACKING_A_MEMBER: list[tuple[Edits, str, str, JsonObject]] = [
    ({"/fork_definitions": DROP}, "", "required", REPLAY),
    ({PRODUCT: DROP}, "", "required", edited(REPLAY, {"/dataset_hashes": {}})),
    ({"/dataset_hashes": DROP, f"{PRODUCT}/replay_dataset_id": DROP,
      f"{PRODUCT}/replay_data_path": DROP}, "", "required", edited(REPLAY, {})),
    ({MARKETS: DROP}, "", "required", MARKET),
    ({"/criteria/criteria_human": DROP}, "/criteria", "required", REPLAY),
    ({f"{RATING}/criterion_id": DROP}, RATING, "dependentRequired", RATED),
]
# fmt: on


@pytest.mark.parametrize(("edits", "pointer", "rule", "base"), LACKING_A_MEMBER)
def test_the_schema_names_the_object_that_lacks_a_member(
    edits: Edits, pointer: str, rule: str, base: JsonObject
) -> None:
    errors = places(VALIDATOR.validate(edited(base, edits)).errors)
    assert [error for error in errors if error[1].startswith("schema:")] == [
        (pointer, f"schema:{rule}")
    ]


# fmt: off
UNFIT_VALUES: list[tuple[str, object, str, JsonObject]] = [
    ("/schema_version", 2, "const", REPLAY),
    ("/schema_version", "2.1.1", "enum", REPLAY),
    ("/theatre_id", "mirror_v1\n", "pattern", REPLAY),
    ("/theatre_id", "mirror_v\u0663", "pattern", REPLAY),
    ("/display_name", "", "minLength", REPLAY),
    ("/description", "a" * 1001, "maxLength", REPLAY),
    ("/execution_polcy", {}, "additionalProperties", REPLAY),
    ("/dataset_hashes/halves", SHA.upper(), "pattern", REPLAY),
    (f"{CONSTRUCTS}/mirror", "abc123", "pattern", REPLAY),
    ("/version_pins/adapter_version", "http", "pattern", REPLAY),
    ("/version_pins/extra", 1, "additionalProperties", REPLAY),
    ("/criteria/extra", 1, "additionalProperties", REPLAY),
    (f"{WEIGHTS}/left", True, "type", REPLAY),
    (f"{STEPS}/1/type", "guess", "enum", REPLAY),
    (f"{STEPS}/1/timeout_seconds", 0.5, "minimum", REPLAY),
    (f"{STEPS}/1/note", "", "additionalProperties", REPLAY),
    (f"{RATING}/share", 0, "exclusiveMinimum", RATED),
    (f"{RATING}/rubric", "a" * 5001, "maxLength", RATED),
    (f"{RATING}/items", 0, "minimum", RATED),
    (f"{RATING}/note", "", "additionalProperties", RATED),
    (f"{FORK}/fork_id", "f_1", "pattern", REPLAY),
    (f"{FORK}/options", [], "minItems", REPLAY),
    (f"{FORK}/trigger_condition", {"type": "never"}, "enum", REPLAY),
    (f"{FORK}/deadline_ms", -1, "minimum", REPLAY),
    ("/scoring/holdout_split", 0.51, "maximum", REPLAY),
    ("/execution_policy", {"max_refusal_rate": 0.6}, "maximum", REPLAY),
    ("/execution_policy", {"failure_threshold": 1.1}, "maximum", REPLAY),
    ("/execution_policy", {"max_concurrency": True}, "type", REPLAY),
    ("/execution_policy", {"max_concurrency": 1e21}, "type", REPLAY),
    ("/execution_policy", {"on_threshold": "stop"}, "enum", REPLAY),
    ("/execution_policy", {"retry_policy": {"max_retries": -1}}, "minimum", REPLAY),
    ("/execution_policy", {"retries": 1}, "additionalProperties", REPLAY),
    (f"{PRODUCT}/adapter_type", "grpc", "enum", REPLAY),
    (f"{PRODUCT}/extra", 1, "additionalProperties", REPLAY),
    (f"{MARKETS}/corroboration_minimum", 1, "minimum", MARKET),
    (f"{MARKETS}/lmsr_config/liquidity_b", 0.9, "minimum", MARKET),
    (f"{MARKETS}/lmsr_config/duration_seconds", 59, "minimum", MARKET),
    (f"{MARKETS}/lmsr_config/fee_schedule", {"taker_fee_bps": 501}, "maximum", MARKET),
    (f"{MARKETS}/geopolitical_category", "SPORT", "enum", MARKET),
    (f"{SOURCES}/0/polling_frequency_seconds", 0, "exclusiveMinimum", MARKET),
    ("/metadata", {"created_date": "2026-02-30"}, "anyOf", REPLAY),
    ("/metadata", {"last_modified": "2026-02-28T24:00:01Z"}, "anyOf", REPLAY),
    ("/metadata", {"status": "done"}, "enum", REPLAY),
]
# fmt: on


@pytest.mark.parametrize(("pointer", "value", "rule", "base"), UNFIT_VALUES)
def test_the_schema_names_the_value_that_does_not_fit(
    pointer: str, value: object, rule: str, base: JsonObject
) -> None:
    errors = places(VALIDATOR.validate(edited(base, {pointer: value})).errors)
    assert [rule for _, rule in errors] == [f"schema:{rule}"]
    assert errors[0][0].startswith(pointer)


@pytest.mark.parametrize(
    "pointer", ["/scoring/x", "/metadata", f"{FORK}/x", f"{MARKETS}/x", "/oracle_config"]
)
def test_an_open_object_takes_further_members(pointer: str) -> None:
    document = edited(MARKET, {pointer: {"created_date": "2026-02-28T00:00:00Z", "more": [1]}})
    assert VALIDATOR.validate(document).errors == ()


def test_all_errors_are_reported_schema_and_rules_together() -> None:
    document = edited(
        REPLAY,
        {
            "/display_name": 5,
            f"{WEIGHTS}/left": 0.4,
            f"{PRODUCT}/adapter_type": "mock",
            "/description": "e\u0301",
        },
    )
    assert places(VALIDATOR.validate(document).errors) == [
        ("/criteria/weights", "weights-sum-to-one"),
        ("/description", "strings-nfc"),
        ("/display_name", "schema:type"),
        ("/product_theatre_config/adapter_type", "mock-adapter-refused"),
    ]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
)
WORDS = st.sampled_from(
    ["mirror", "mock", "local", "python", "FAIL", "halves", "../x", "[[", "construct_invocation"]
)
JSON = st.recursive(
    SCALARS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(REPLAY)) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


def pointers_of(value: object, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [at] * bool(at) + [p for key, child in children for p in pointers_of(child, (*at, key))]


@st.composite
def mutations(draw: st.DrawFn) -> JsonObject:
    """Draw a sound template in which up to three places hold something else or nothing."""
    document = copy.deepcopy(
        draw(st.sampled_from([REPLAY, CHAIN, RATED, COMPUTED, MAPPED, MARKET]))
    )
    version = draw(st.sampled_from([*TEMPLATE_SCHEMAS, "2.3.0"]))
    document["schema_version"] = version
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(pointers_of(document)))
        parent = cast("dict[object, object]", reduce(step_into, path, cast("object", document)))
        if draw(st.booleans()):
            parent[last] = draw(JSON)
        else:
            del parent[last]
    return document


@settings(deadline=None, max_examples=drawn(300))
@given(document=JSON | mutations(), certificate_run=st.booleans(), from_api=st.booleans())
def test_no_document_makes_the_validator_raise(
    document: JsonObject, *, certificate_run: bool, from_api: bool
) -> None:
    report = VALIDATOR.validate(document, certificate_run=certificate_run, from_api=from_api)
    assert list(report.errors) == sorted(set(report.errors))
    assert list(report.warnings) == sorted(set(report.warnings))
    assert all(violation.detail for violation in report.errors + report.warnings)


def test_half_a_surrogate_pair_in_an_argument_list_is_two_errors() -> None:
    edits: Edits = {f"{PRODUCT}/adapter_type": "local", ENDPOINT: '["\ud800"]'}
    assert places(VALIDATOR.validate(edited(REPLAY, edits)).errors) == [
        (ENDPOINT, "canonical-form"),
        (ENDPOINT, "endpoint-form"),
    ]


def test_a_document_without_end_is_refused_and_no_rule_walks_it() -> None:
    endless: list[JsonValue] = []
    endless.append(endless)
    report = VALIDATOR.validate(
        edited(REPLAY, {WEIGHTS: {"left": 2}}) | {"physics_config": endless}
    )
    assert places(report.errors) == [("", "schema:depth")]
    assert report.warnings == ()


@pytest.mark.parametrize("document", [None, [], "text", 5, True, {}])
def test_what_is_no_template_at_all_has_schema_errors_only(document: JsonValue) -> None:
    report = VALIDATOR.validate(cast("JsonObject", document))
    assert {error.rule.partition(":")[0] for error in report.errors} == {"schema"}
    assert report.warnings == ()
