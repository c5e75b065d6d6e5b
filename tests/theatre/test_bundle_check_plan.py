"""How the independent check reads a committed template, and what it will not take for one."""

import copy
import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.conftest import CONSTRUCT_ID, TEMPLATE
from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
)
from tests.theatre.forked_echelon import forked
from theatre.engine.bundle_check.plan import (
    CommittedComputation,
    CommittedHop,
    CommittedStep,
    SanitisePolicy,
    committed_plan,
)
from theatre.engine.bundle_check.report import DefectError
from theatre.engine.canonical_json import JsonObject

SHA = "ab" * 32
VERSION = "0123456"
OTHER = "fedcba9"

Edit = Callable[[Any], object]


def template(*edits: Edit) -> JsonObject:
    edited = cast("Any", copy.deepcopy(TEMPLATE))
    edited["version_pins"]["constructs"] = {CONSTRUCT_ID: VERSION, "first": OTHER}
    edited["dataset_hashes"] = {"sums": SHA, "gold_labels": SHA}
    for edit in edits:
        edit(edited)
    return cast("JsonObject", edited)


def test_a_plan_is_read_with_the_documented_defaults() -> None:
    document = cast("dict[str, Any]", template())
    del document["execution_policy"]
    del document["version_pins"]["adapter_version"]
    del document["criteria"]["weights"]
    plan = committed_plan(document)
    assert plan.retry_policy == {"max_retries": 2, "backoff_seconds": 5}
    assert plan.max_attempts == 3
    hop = CommittedHop(
        construct_id=CONSTRUCT_ID,
        adapter_type="local",
        version=VERSION,
        timeout_seconds=30,
        output_spec={},
    )
    assert (plan.hops, plan.failure_threshold) == ((hop,), Fraction(1, 5))
    assert (plan.max_refusal_rate, plan.methodology_version) == (Fraction(1, 2), "1.0.0")
    assert (plan.adapter_version, plan.chain_versions) == (None, None)
    assert (plan.max_concurrency, plan.deterministic_sample) == (1, 0)
    assert plan.sanitising == SanitisePolicy(role_markers="break", raw_fields=())
    assert plan.criteria["weights"] == {}
    assert plan.datasets == {
        "ground_truth/dataset.jsonl": SHA,
        "ground_truth/gold_labels.jsonl": SHA,
    }


SPEC: JsonObject = {"type": "object", "required": ["sum"]}


def calls(*steps: JsonObject, chain: list[str] | None = None) -> Edit:
    """Return the edit that commits these calls, each a step, and perhaps a chain."""

    def edit(whole: Any) -> None:  # noqa: ANN401  # a template at will
        programme = whole["resolution_programme"]
        whole["resolution_programme"] = [
            {"step_id": f"call-{number}", "type": "construct_invocation", **step}
            for number, step in enumerate(steps)
        ] + programme[1:]
        if chain is not None:
            whole["product_theatre_config"]["construct_chain"] = chain

    return edit


FIRST: JsonObject = {"construct_id": "first", "timeout_seconds": 7}
SECOND: JsonObject = {"construct_id": CONSTRUCT_ID, "output_spec": SPEC}
BOTH = ["first", CONSTRUCT_ID]


def hop(construct_id: str, seconds: float, spec: JsonObject) -> CommittedHop:
    version = VERSION if construct_id == CONSTRUCT_ID else OTHER
    return CommittedHop(
        construct_id=construct_id,
        adapter_type="local",
        version=version,
        timeout_seconds=seconds,
        output_spec=spec,
    )


@pytest.mark.parametrize(
    ("edit", "hops"),
    [
        (calls(FIRST, SECOND, chain=BOTH), (hop("first", 7, {}), hop("sums", 1, SPEC))),
        (calls(FIRST, SECOND), (hop("first", 7, {}), hop("sums", 1, SPEC))),
        (calls(SECOND, chain=BOTH), (hop("first", 1, {}), hop("sums", 1, SPEC))),
        (
            calls(SECOND | {"timeout_seconds": 9}, chain=BOTH),
            (hop("first", 9, {}), hop("sums", 9, SPEC)),
        ),
        (calls(SECOND, chain=[CONSTRUCT_ID]), (hop("sums", 1, SPEC),)),
        (
            calls(FIRST | {"output_spec": SPEC}, chain=BOTH[::-1]),
            (hop("sums", 7, {}), hop("first", 7, SPEC)),
        ),
    ],
)
def test_a_chain_is_its_constructs_in_order_with_the_limits_and_shapes_of_their_steps(
    edit: Edit, hops: tuple[CommittedHop, ...]
) -> None:
    plan = committed_plan(template(edit))
    assert plan.hops == hops
    assert plan.chain_versions == {one.construct_id: one.version for one in hops}


def test_sanitising_is_committed_in_the_first_call() -> None:
    policy: JsonObject = {"raw_fields": ["", "/a~0b/0"], "role_markers": "flag"}
    first, second = FIRST | {"input_spec": policy}, SECOND | {"input_spec": {"raw_fields": ["/x"]}}
    document = cast("Any", template(calls(first, second)))
    del document["execution_policy"]["sanitise_input"]
    plan = committed_plan(document)
    assert plan.sanitising == SanitisePolicy(role_markers="flag", raw_fields=("", "/a~0b/0"))
    assert committed_plan(template(calls(first, second))).sanitising is None


def sanitised_by(policy: JsonObject) -> Edit:
    """Return the edit that commits to sanitise inputs, in this way."""

    def edit(whole: Any) -> None:  # noqa: ANN401  # a template at will
        whole["execution_policy"]["sanitise_input"] = True
        whole["resolution_programme"][0]["input_spec"] = policy

    return edit


def computing(**spec: object) -> Edit:
    step = {"step_id": "c", "type": "deterministic_computation", "input_spec": spec}
    return lambda t: t["resolution_programme"].append(step)


def test_a_computation_is_over_the_episodes_unless_it_names_a_dataset() -> None:
    plan = committed_plan(template(computing(computation="mean")))
    expected = CommittedComputation(name="mean", over="episodes", params={})
    assert plan.steps[-1] == CommittedStep(
        step_id="c", type="deterministic_computation", computation=expected
    )
    named = computing(computation="mean", over="gold_labels", params={"of": "x"})
    step = committed_plan(template(named)).steps[-1]
    assert step.computation == CommittedComputation(
        name="mean", over="gold_labels", params={"of": "x"}
    )


# fmt: off
NO_PLAN: list[tuple[Edit, str]] = [
    (lambda t: t.update(execution_path="market"), "a replay template"),
    (lambda t: t["product_theatre_config"].update(episode_runner="game"), "episode_runner"),
    (lambda t: t["product_theatre_config"].update(adapter_type="mock"), "reaches a real construct"),
    (lambda t: t["product_theatre_config"].update(
        construct_endpoints={"x": {"adapter_type": "mock", "endpoint": "construct:x"}}),
     "reaches a real construct"),
    (lambda t: t["product_theatre_config"].update(construct_chain=["a", "b"]), "steps for the"),
    (lambda t: t["product_theatre_config"].update(construct_chain=["a", "sums"]),
     'a version pin of "a"'),
    (calls(FIRST, SECOND, chain=BOTH[::-1]), "steps for the constructs of"),
    (calls(SECOND, FIRST, SECOND, chain=BOTH), "steps for the constructs of"),
    (calls(FIRST, SECOND, FIRST), "each construct once"),
    (calls(SECOND, chain=["first", "sums", "first"]), "each construct once"),
    (calls(FIRST), "a chain that begins or ends with the construct under test"),
    (lambda t: (t["version_pins"]["constructs"].update(a=SHA, b=SHA),
                calls(SECOND, chain=["a", "sums", "b"])(t)), "a chain that begins or ends with"),
    (calls({"output_spec": {}}), "a construct_id in each step"),
    (sanitised_by({"role_markers": "keep"}), "role_markers break or flag"),
    (sanitised_by({"role_markers": ["break"]}), "role_markers break or flag"),
    (sanitised_by({"raw_fields": "/a"}), "raw_fields as an array of JSON pointers"),
    (sanitised_by({"raw_fields": [1]}), "raw_fields as an array of JSON pointers"),
    (sanitised_by({"raw_fields": ["a"]}), "raw_fields as an array of JSON pointers"),
    (sanitised_by({"raw_fields": ["/a~2"]}), "raw_fields as an array of JSON pointers"),
    (sanitised_by({"raw_fields": ["/~~01"]}), "raw_fields as an array of JSON pointers"),
    (computing(), "the name of a computation"),
    (computing(computation=""), "the name of a computation"),
    (computing(computation="mean", over="nothing"), "over episodes or a committed dataset"),
    (computing(computation="mean", over=["sums"]), "over episodes or a committed dataset"),
    (computing(computation="mean", params=[]), "the params of a computation as an object"),
    (computing(computation="mean", where="here"), "of computation, over, params and in"),
    (computing(computation="mean", in_aggregate=1), "in_aggregate true or false"),
    (computing(computation="mean", in_aggregate=True, over="gold_labels"), "true over episodes"),
    (computing(computation="mean", in_aggregate=True), "before the first aggregation"),
    (lambda t: t["resolution_programme"][1].update(output_spec=SPEC), "an output_spec only in"),
    (lambda t: t["product_theatre_config"].pop("replay_dataset_id"), "replay_dataset_id"),
    (lambda t: t["product_theatre_config"].update(replay_dataset_id="x"), "replay_dataset_id"),
    (lambda t: t["version_pins"].update(constructs={}), 'a version pin of "sums"'),
    (lambda t: t["resolution_programme"].pop(0), "a construct_invocation step or more"),
    (lambda t: t["resolution_programme"][1].update(type="dance"), "a programme of agg"),
    (lambda t: t["resolution_programme"][1].update(type="hitl_rubric"), "an entry in hitl_steps"),
    (lambda t: t["resolution_programme"][1].update(escalation_path="add"), "a later step or FAIL"),
    (lambda t: t["resolution_programme"][1].update(step_id="add"), "step ids that are unique"),
    (lambda t: t["resolution_programme"][0].update(construct_id="other"), "under test"),
    (lambda t: t["criteria"].update(criteria_ids=["composite_score"]), "not named composite_score"),
    (lambda t: t["criteria"]["weights"].pop("parity"), "weights for exactly the criteria"),
    (lambda t: t["criteria"]["weights"].update(parity=0.4), "sum to 1"),
    (lambda t: t["criteria"]["weights"].update(parity=-0.3, addition=1.1), "sum to 1"),
    (lambda t: t["criteria"].update(weights={"addition": 0, "parity": 0, "overlap": 0}),
     "sum to 1"),
    (lambda t: t["scoring"]["criteria_scorers"].pop("overlap"), "a scorer for criterion overlap"),
    (lambda t: t["scoring"]["criteria_scorers"]["parity"]["params"].update(field="9" * 5000),
     "at most 1000 characters"),
    (lambda t: t["dataset_hashes"].update({"../../escape": SHA}), "dataset names with a file each"),
    (lambda t: t["dataset_hashes"].update({"dataset": SHA}), "dataset names with a file each"),
]
# fmt: on


@pytest.mark.parametrize(("edit", "expected"), NO_PLAN)
def test_what_cannot_be_recomputed_is_refused_and_never_passed(edit: Edit, expected: str) -> None:
    with pytest.raises(DefectError, match="expected") as refused:
        committed_plan(template(edit))
    assert expected in refused.value.expected


VERSIONS = REPOSITORY / "fixtures" / "templates" / "versions"
NAME = "product_numerals_v1.json"


def run(folder: Path, **config: object) -> Files:
    """Run the shipped example in a folder of its own, with more in its product config."""
    template = shutil.copytree(VERSIONS, folder / "versions") / NAME
    committed: Any = json.loads(template.read_bytes())
    committed["product_theatre_config"] |= config
    template.write_text(json.dumps(committed), encoding="utf-8")
    report = forked("theatre", "run", template, "--json", home=folder / "home").document
    return load(Path(report["bundle_path"]))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return run(tmp_path_factory.mktemp("numerals"))


def test_a_bundle_of_version_2_0_1_passes_by_the_documented_defaults(
    files: Files, tmp_path: Path
) -> None:
    report = check(store(files, tmp_path / "bundle"))
    assert [line.as_document() for line in report.failed] == []
    assert report.consistent
    told = {line.id: line.actual for line in report.checks}
    assert told["scorers"] == "exact_match@1"
    assert told["sanitised-input"] == '60 inputs by "theatre-sanitise/1.0.0"'


def test_gold_labels_without_a_hash_are_no_evidence_and_the_cap_for_them_is_recomputed(
    tmp_path: Path,
) -> None:
    files = run(tmp_path / "run", gold_label_set="never_there.jsonl")
    assert check(store(files, tmp_path / "bundle")).consistent
    facts: Any = document(files, "tier.json")["facts"]
    assert facts["extra_caps"] == ["gold-unpinned"]

    def uncap(tier: Any) -> None:  # noqa: ANN401  # a document at will
        tier["facts"]["extra_caps"] = []

    uncapped = resealed(changed(files, "tier.json", uncap), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(uncapped, tmp_path / "uncapped"))) == {"tier"}


def test_a_template_without_scorers_cannot_claim_to_have_committed_them(
    files: Files, tmp_path: Path
) -> None:
    def claim(tier: Any) -> None:  # noqa: ANN401  # a document at will
        tier["facts"]["scorers_committed"] = True

    claimed = resealed(changed(files, "tier.json", claim), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(claimed, tmp_path / "bundle"))) == {"tier"}


@pytest.mark.parametrize("version", ["2.9.0", "1.0.0", None, 2, "2.1.0", "2.2.0"])
def test_a_template_of_a_version_that_does_not_run_is_named(
    files: Files, tmp_path: Path, version: object
) -> None:
    """Nor does one pass whose document does not fit the version that it names."""
    forged = dict(files)
    for name, place in (("template.json", None), ("commitment_receipt.json", "template_snapshot")):
        whole: Any = document(files, name)
        (whole if place is None else whole[place])["schema_version"] = version
        forged[name] = json.dumps(whole).encode()
    report = check(store(resealed(forged, Effort.CERTIFIED_HASH), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    without = version in {"2.1.0", "2.2.0"}
    wanted = "a scorer for criterion" if without else "schema_version 2.0.1 or 2.1.0 or 2.2.0"
    assert told["template"].startswith(wanted)
