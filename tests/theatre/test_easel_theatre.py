"""PRODUCT_EASEL_V1, run for real: a chain of three services, a rubric, and the published result."""

import json
import re
from collections import Counter
from typing import Any, cast

import pytest

from tests.theatre.easel_runs import (
    CHAIN,
    EPISODES,
    FIXTURES,
    RUBRIC,
    TEMPLATE,
    easel_adapters,
    easel_stage,
    items_of,
    let_demo_reviewers_score,
)
from tests.theatre.rated_runs import events
from tests.theatre.runs import Finished, Stage, checked
from theatre.cli.demo.reviewers import REVIEWERS, demo_scores, score_file
from theatre.engine.canonical_json import JsonObject
from theatre.engine.template_validator import TemplateValidator
from theatre.scorers import load_scorers

RATINGS = FIXTURES / "ratings" / "product_easel_v1"
PAGE = (FIXTURES.parent / "docs" / "easel.md").read_text(encoding="utf-8")
# On the page: the example's four documents, the criteria, and the shapes of the three answers.
PAGE_BLOCKS = [
    json.loads(block)
    for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
][4:]
SEQUENCES = range(1, EPISODES + 1)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, Finished]:
    """The theatre at its rubric, and what its first run left."""
    stage = easel_stage(tmp_path_factory.mktemp("honest"))
    return stage, stage.run(easel_adapters())


@pytest.fixture(scope="module")
def items(staged: tuple[Stage, Finished]) -> dict[str, bytes]:
    """What each stand-in gives the items, as a file."""
    shown = items_of(staged[0])
    return {name: score_file(demo_scores(name, shown)) for name in REVIEWERS}


@pytest.fixture(scope="module")
def honest(staged: tuple[Stage, Finished], items: dict[str, bytes]) -> Finished:
    stage, _ = staged
    assert set(items) == set(REVIEWERS)
    let_demo_reviewers_score(stage)
    return stage.run(easel_adapters())


def test_no_rule_warns_of_the_shipped_template() -> None:
    report = TemplateValidator(load_scorers()).validate(TEMPLATE)
    assert (report.errors, report.warnings) == ((), ())


def test_it_commits_to_the_criteria_and_the_shapes_of_the_page() -> None:
    page, *shapes = PAGE_BLOCKS
    programme = cast("list[dict[str, Any]]", TEMPLATE["resolution_programme"])
    steps = [step for step in programme if step["type"] == "construct_invocation"]
    assert [step["construct_id"] for step in steps] == [*CHAIN]
    assert [step["output_spec"] for step in steps] == shapes
    assert all(step["timeout_seconds"] == 10 for step in steps)
    criteria = cast("dict[str, Any]", TEMPLATE["criteria"])
    assert criteria["criteria_ids"] == page["criteria"]["criteria_ids"]
    assert criteria["weights"] == page["criteria"]["weights"]
    told = page["criteria"]["criteria_human"]
    assert criteria["criteria_human"] == (
        f"{told} A fifth of downstream compliance is what people make of the result, by the rubric."
    )
    scoring = cast("dict[str, Any]", TEMPLATE["scoring"])
    assert scoring["criteria_scorers"] == page["scoring"]["criteria_scorers"]


def test_the_first_run_stops_at_the_rubric_and_asks_about_24_answers(
    staged: tuple[Stage, Finished],
) -> None:
    _, waiting = staged
    assert events(waiting.trail) == ["settling", "step_completed", "hitl_opened"]
    opened = cast("JsonObject", waiting.trail[-1]["detail"])
    asked = cast("list[str]", opened.pop("items"))
    assert len(set(asked)) == 24
    assert opened == {
        "step_id": RUBRIC,
        "minimum_scorers": 2,
        "scorer_must_not_be_author": True,
        "timeout_seconds": None,
    }
    assert not waiting.bundle.exists()


def test_the_recorded_ratings_are_what_the_stand_ins_give(items: dict[str, bytes]) -> None:
    recorded = {path.stem: path.read_bytes() for path in RATINGS.glob("*.jsonl")}
    assert recorded == items
    assert all(name.startswith("demo-reviewer-") for name in recorded)


def test_the_certificate_says_backtested_and_names_all_three_versions(honest: Finished) -> None:
    certificate = honest.document("certificate.json")
    pins = cast("dict[str, JsonObject]", TEMPLATE["version_pins"])["constructs"]
    assert certificate["construct_chain_versions"] == pins
    assert set(pins) == {*CHAIN}
    assert certificate["verification_tier"] == "BACKTESTED"
    assert certificate["caps"] == [
        "runs-below-3",
        "runs-span-below-90-days",
        "telemetry-missing",
        "attestation-missing",
        "behavioural-signal-missing",
    ]
    counts = cast("JsonObject", certificate["episode_counts"])
    assert (counts["scored"], counts["total"]) == (EPISODES, EPISODES)


def test_whoever_reads_the_evidence_sees_that_rules_scored_and_not_people(honest: Finished) -> None:
    lines = honest.lines(f"hitl/{RUBRIC}.jsonl")
    assert Counter(line["scorer"] for line in lines) == {
        "demo-reviewer-a": 24,
        "demo-reviewer-b": 24,
    }
    assert all(line["comment"] for line in lines)


def test_a_fifth_of_downstream_compliance_is_what_people_gave(honest: Finished) -> None:
    aggregate = honest.document("scores/aggregate.json")
    (taste,) = cast("dict[str, dict[str, Any]]", aggregate["human_scores"]).values()
    scores = cast("dict[str, float]", aggregate["scores"])
    assert (taste["criterion_id"], taste["share"]) == ("downstream_compliance", 0.2)
    assert (taste["items"], taste["scorers"]) == (24, 2)
    assert scores["downstream_compliance"] == pytest.approx(
        0.8 * taste["machine"] + 0.2 * taste["human"], abs=2e-9
    )
    assert taste["agreement"]["reason"] is None


def test_the_independent_check_finds_the_bundle_sound(honest: Finished) -> None:
    assert checked(honest.bundle).failed == ()
    assert checked(honest.bundle).consistent


def test_every_call_of_every_hop_went_by_http_to_files_that_were_hashed(honest: Finished) -> None:
    calls = [call for seq in SEQUENCES for call in honest.calls(seq)]
    assert {(call["adapter"], call["version_source"]) for call in calls} == {("http@1", "computed")}
    asked = Counter((call["construct_id"], call["repeat"]) for call in calls)
    assert asked == {(name, repeat): (EPISODES, 8)[repeat] for name in CHAIN for repeat in (0, 1)}
    facts = cast("JsonObject", honest.document("tier.json")["facts"])
    assert (facts["determinism_differences"], facts["version_mismatches"]) == (0, 0)


def test_every_input_went_through_the_sanitiser_which_found_nothing_to_change(
    honest: Finished,
) -> None:
    records = [cast("JsonObject", honest.record(seq)["sanitised"]) for seq in SEQUENCES]
    assert all(record["raw_sha256"] == record["sent_sha256"] for record in records)


# --- propagation, counted once more ----------------------------------------------------------


def statements(carried: list[dict[str, str]]) -> set[tuple[str, str, str]]:
    return {(item["tdr"], item["stance"], item["term"]) for item in carried}


def recounted(finished: Finished) -> dict[str, dict[str, int]]:
    """Count hop by hop, over all episodes, from the records and the dataset alone."""
    dataset = finished.lines("ground_truth/dataset.jsonl")
    counts = {hop: {"arrived": 0, "lost": 0, "invented": 0} for hop in CHAIN}
    for seq, episode in enumerate(dataset, start=1):
        expected = cast("Any", episode["expected_output"])["carried"]
        calls = [cast("Any", call) for call in finished.calls(seq) if call["repeat"] == 0]
        answers = {c["construct_id"]: c["attempts"][-1]["response"]["output_data"] for c in calls}
        gone: set[str] = set()
        new: set[str] = set()
        decisions = {tdr for tdr, _, _ in statements(expected["easel"])}
        for hop in CHAIN:
            ought, carried = statements(expected[hop]), statements(answers[hop]["carried"])
            lost = {tdr for tdr, _, _ in ought - carried} - gone
            invented = {tdr for tdr, _, _ in carried - ought} - new
            gone, new = gone | lost, new | invented
            counts[hop]["lost"] += len(lost)
            counts[hop]["invented"] += len(invented)
            counts[hop]["arrived"] += len(decisions - gone)
    return counts


def test_the_propagation_by_hop_is_what_a_recount_of_the_records_gives(honest: Finished) -> None:
    (step,) = [one for one in honest.steps() if one["step_id"] == "follow_decisions"]
    result = cast("dict[str, Any]", step["result"])
    assert (step["status"], result["computation"]) == ("completed", "chain_propagation@1")
    output = result["output"]
    counted = {
        hop["hop"]: {k: hop[k] for k in ("arrived", "lost", "invented")} for hop in output["hops"]
    }
    assert counted == recounted(honest)
    assert (output["episodes"], output["unmeasurable"], output["decisions"]) == (85, 0, 501)
    assert output["lost"]["total"] == len(output["lost"]["listed"])
    assert all(hop["unanswered"] == 0 for hop in output["hops"])
