"""The facts that a tier rests on: counted from what was recorded, none of them asserted."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from typing import cast

import pytest

from tests.theatre.runs import COIN, ISOLATED, PILOT, TEMPLATE, VERSION, with_changes
from theatre.engine.bundle_check.arithmetic import SCORER_KINDS, Document, Plan, kinds_of
from theatre.engine.bundle_check.measures import unqualified_measures
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.oracle_contract import Isolation
from theatre.engine.replay.recording import facts_of
from theatre.engine.replay.tier_evidence import (
    CallFacts,
    few_ratings_caps,
    scorer_findings,
    tier_document,
    tier_facts_of,
)
from theatre.engine.templates import product_template
from theatre.engine.tier_assigner import CriterionCounts, TierAssigner, TierFacts, TierHistory
from theatre.scorers import load_scorers

MOMENT = datetime(2026, 11, 21, 12, tzinfo=UTC)
KINDS = {"exact_match": "exact", "numeric_tolerance": "exact"}
COUNTS: JsonObject = {"scored": 6, "missing": 3, "not_applicable": 0, "declined": 0, "unscored": 0}
AGGREGATE: JsonObject = {
    "episode_counts": {
        "total": 12,
        "scored": 6,
        "timeout": 1,
        "error": 2,
        "refused": 1,
        "unscored": 0,
        "not_run": 2,
    },
    "score_counts": {"colour": COUNTS, "recall": COUNTS},
    "human_scores": None,
}

read_facts = partial(tier_facts_of, isolation=ISOLATED)
CAPPED = ("construct-not-isolated",)


AUDIT: JsonObject = {
    "distinct_scored_inputs": 5,
    "criteria": {"colour": {"distinct_inputs": 8}, "recall": {"distinct_inputs": 7}},
}


def receipt(
    changes: dict[str, JsonValue] | None = None, kinds: dict[str, str] | None = None
) -> CommitmentReceipt:
    hashes: dict[str, JsonValue] = {"/dataset_hashes": {"truth": "ab" * 32}}
    return CommitmentProtocol.commit(
        "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11",
        with_changes(TEMPLATE, hashes | (changes or {})),
        coin=COIN,
        scorer_pins={},
        scorer_kinds=KINDS | (kinds or {}),
        committed_at=MOMENT,
    )


def call(
    *reasons: str | None,
    construct_id: str = PILOT,
    adapter: str = "local@1",
    version_source: str = "computed",
    repeat: int = 0,
    output: JsonObject | None = None,
) -> JsonObject:
    """Return a call with an attempt a reason; one without a reason succeeded with `output`."""
    return {
        "construct_id": construct_id,
        "repeat": repeat,
        "adapter": adapter,
        "version_source": version_source,
        "attempts": [
            {
                "reason": reason,
                "response": {
                    "status": "error" if reason else "success",
                    "output_data": None if reason else output or {},
                },
            }
            for reason in reasons
        ],
    }


def record(*calls: JsonObject) -> JsonObject:
    return {"sanitised": None, "calls": list(calls or [call(None)])}


def noted(*records: JsonObject) -> CallFacts:
    facts = CallFacts(PILOT)
    for one in records:
        facts.note(facts_of(one))
    return facts


def test_facts_are_counted_from_aggregate_records_and_commitment() -> None:
    calls = noted(
        record(),
        record(call("timeout", "version-mismatch")),
        record(call(None), call("version-mismatch")),
    )
    facts = read_facts(receipt(), AGGREGATE, calls, AUDIT, bundle_complete=True)
    assert facts == TierFacts(
        construct_id=PILOT,
        construct_version=VERSION,
        adapter_pin="local@1",
        rehearsal=False,
        replay_count=6,
        failures=3,
        refusals=1,
        run=10,
        total=12,
        max_refusal_rate=Fraction(1, 2),
        criterion_counts={
            name: CriterionCounts(scored=6, missing=3, not_applicable=0, declined=0, unscored=0)
            for name in ("colour", "recall")
        },
        distinct_inputs=5,
        criterion_distinct_inputs={"colour": 8, "recall": 7},
        unqualified_measures={},
        missing_pins=(),
        version_mismatches=2,
        determinism_differences=0,
        scorers_committed=True,
        bundle_complete=True,
        commitment_verifiable=True,
        extra_caps=("episodes-not-run",),
    )


def test_a_run_to_the_end_has_no_cap_for_episodes_that_were_not_run() -> None:
    counts = cast("JsonObject", AGGREGATE["episode_counts"]) | {"total": 10, "not_run": 0}
    facts = read_facts(
        receipt(),
        AGGREGATE | {"episode_counts": counts},
        noted(record()),
        AUDIT,
        bundle_complete=True,
    )
    assert (facts.run, facts.total, facts.extra_caps) == (10, 10, ())


def test_a_human_part_that_was_committed_and_not_given_is_a_cap_of_its_criterion() -> None:
    def step(criterion: str | None, share: float | None, human: float | None) -> JsonObject:
        return {"criterion_id": criterion, "share": share, "human": human}

    human: JsonObject = {
        "given": step("colour", 0.5, 0),
        "missing": step("recall", 1, None),
        "missing_too": step("beauty", 0.1, None),
        "no_part": step("colour", None, None),
        "no_criterion": step(None, None, None),
    }
    facts = read_facts(
        receipt(), AGGREGATE | {"human_scores": human}, noted(record()), AUDIT, bundle_complete=True
    )
    assert facts.extra_caps == (
        *("episodes-not-run", "human-part-missing:beauty", "human-part-missing:recall"),
    )


def people_decide(share: float, *, items: int = 30) -> JsonObject:
    """Return changes by which people have a share in `colour`."""
    rating: JsonObject = {"step_id": "rate", "type": "hitl_rubric"}
    aggregate: JsonObject = {"step_id": "aggregate", "type": "aggregation"}
    scale: JsonObject = {"min": 1, "max": 5}
    step: JsonObject = {"step_id": "rate", "criterion_id": "colour", "share": share, "items": items}
    return {
        "/resolution_programme": [rating, aggregate],
        "/hitl_steps": [step | {"rubric": "How red?", "scoring_scale": scale}],
    }


@pytest.mark.parametrize(
    ("share", "items", "is_few"),
    [(1, 29, True), (1, 30, False), (0.99, 1, True), (0.1, 2, True), (0.1, 3, False)],
)
def test_people_rate_as_large_a_part_of_thirty_answers_as_they_have_a_share(
    share: float, items: int, *, is_few: bool
) -> None:
    document = receipt(people_decide(share, items=items)).template_snapshot
    caps = ["ratings-too-few:colour"] if is_few else []
    assert few_ratings_caps(document) == caps
    assert Plan(document).template_caps() == caps


TEXTUAL = {"exact_match": "textual"}
UNQUALIFIED = {"colour": "exact_match is textual"}


@pytest.mark.parametrize(
    ("changes", "kinds", "unqualified"),
    [
        ({}, {}, {}),
        ({}, {"exact_match": "judged"}, {"colour": "exact_match is judged"}),
        ({}, TEXTUAL, UNQUALIFIED),
        ({}, {"exact_match": "opinion"}, UNQUALIFIED),
        ({"/criteria/weights": {"colour": 1e-9, "recall": 1 - 1e-9}}, TEXTUAL, UNQUALIFIED),
        ({"/criteria/weights": {"colour": 0, "recall": 1}}, TEXTUAL, {}),
        ({"/criteria/weights": {}}, TEXTUAL, UNQUALIFIED),
        (people_decide(0.99), TEXTUAL, UNQUALIFIED),
        (people_decide(1), TEXTUAL, {}),
    ],
)
def test_a_criterion_with_a_weight_that_words_alone_decide_is_a_fact(
    changes: dict[str, JsonValue], kinds: dict[str, str], unqualified: dict[str, str]
) -> None:
    facts = read_facts(
        receipt(changes, kinds), AGGREGATE, noted(record()), AUDIT, bundle_complete=True
    )
    assert facts.unqualified_measures == unqualified
    template = cast("Document", receipt(changes).template_snapshot)
    stated = KINDS | kinds
    # The check's own arithmetic goes by the name of a shipped scorer, whatever is stated.
    assert unqualified_measures(template, stated, {}, {}, {}) == {}
    chosen = {"colour": {"scorer": "mine"}, "recall": {"scorer": "numeric_tolerance"}}
    renamed = {**template, "scoring": {**template["scoring"], "criteria_scorers": chosen}}
    found = unqualified_measures(renamed, stated | {"mine": stated["exact_match"]}, {}, {}, {})
    assert found == {name: why.replace("exact_match", "mine") for name, why in unqualified.items()}


def test_the_kinds_of_shipped_scorers_are_those_of_the_checks_own_table() -> None:
    kinds = {name: scorer.kind.value for name, scorer in load_scorers().items()}
    assert kinds == SCORER_KINDS
    liar = dict.fromkeys(SCORER_KINDS, "exact")
    assert kinds_of(SCORER_KINDS, liar) == SCORER_KINDS
    assert kinds_of(["mine", "silent", "odd"], {"mine": "exact", "odd": "true"}) == {
        "mine": "exact",
        "odd": "textual",
        "silent": "textual",
    }


@pytest.mark.parametrize("rate", [0, 0.1, 0.3])
def test_the_committed_refusal_rate_is_taken_exactly(rate: float) -> None:
    facts = read_facts(
        receipt({"/execution_policy/max_refusal_rate": rate}),
        AGGREGATE,
        noted(record()),
        AUDIT,
        bundle_complete=False,
    )
    assert facts.max_refusal_rate == Fraction(str(rate))
    assert facts.bundle_complete is False


def test_absent_pins_scorers_and_a_broken_commitment_are_facts_too() -> None:
    without = receipt(
        {"/version_pins": {"scorer_version": "label"}, "/scoring": {"holdout_split": 0}}
    )
    broken = replace(without, commitment_hash="0" * 64)
    facts = read_facts(broken, AGGREGATE, noted(record()), AUDIT, bundle_complete=True)
    assert facts.construct_version is None
    assert facts.missing_pins == ("construct_version",)
    assert (facts.scorers_committed, facts.commitment_verifiable) == (False, False)


def test_one_claimed_version_or_one_mock_is_remembered_to_the_end() -> None:
    honest = noted(record(), record())
    assert (honest.recorded, honest.version_source, honest.rehearsed) == (2, "computed", False)
    mixed = noted(
        record(call(None, version_source="claimed")),
        record(call(None, construct_id="easel", adapter="mock@1"), call(None)),
        record(),
    )
    assert (mixed.recorded, mixed.version_source, mixed.rehearsed) == (3, "claimed", True)


@pytest.mark.parametrize("order", [1, -1])
def test_the_adapter_of_a_chain_is_that_of_the_construct_under_test(order: int) -> None:
    calls = [call(None), call(None, construct_id="easel", adapter="http@1")]
    assert noted(record(*calls[::order])).adapter_pin == "local@1"


def test_a_rehearsal_whose_chain_never_came_to_its_last_construct_has_a_tier() -> None:
    calls = noted(record(call("crashed", construct_id="easel")))
    facts = read_facts(receipt(), AGGREGATE, calls, AUDIT, bundle_complete=True)
    assert facts.adapter_pin == "none"


RED: JsonObject = {"colour": "red", "shade": [1, 2.0]}
SAME: JsonObject = {"shade": [1, 2], "colour": "red"}
BLUE: JsonObject = {"colour": "blue", "shade": [1, 2]}


@pytest.mark.parametrize(
    ("second", "differences"),
    [
        ([], 0),
        ([call(None, output=RED), call(None, construct_id="easel", output=SAME)], 0),
        ([call(None, output=RED), call(None, construct_id="easel", output=BLUE)], 1),
        ([call(None, output=BLUE), call(None, construct_id="easel", output=RED)], 1),
        ([call(None, output=RED), call("timeout", construct_id="easel")], 1),
        ([call("crashed", None, output=RED), call(None, construct_id="easel", output=RED)], 0),
        ([call("crashed")], 1),
    ],
    ids=[
        *("none", "same", "other at the end", "other in between", "late failure", "retried"),
        "fails",
    ],
)
def test_a_repeat_differs_where_a_hop_fails_or_says_another_thing(
    second: list[JsonObject], differences: int
) -> None:
    first = [call(None, output=RED), call(None, construct_id="easel", output=RED)]
    repeated = [one | {"repeat": 1} for one in second]
    assert noted(record(*first, *repeated)).determinism_differences == differences


def test_a_difference_is_counted_once_an_episode_and_caps_the_tier() -> None:
    first, second = call(None, output=RED), call(None, output=BLUE, repeat=1)
    facts = read_facts(
        receipt(),
        AGGREGATE,
        noted(record(first, second), record(), record(first, second)),
        AUDIT,
        bundle_complete=True,
    )
    assert (facts.determinism_differences, facts.version_mismatches) == (2, 0)
    caps = TierAssigner.assign(facts, TierHistory(), resolved_at=MOMENT).caps
    assert [cap for cap in caps if "determin" in cap] == ["answers-not-deterministic"]


def test_the_tier_document_holds_what_was_read_and_what_was_concluded() -> None:
    facts = read_facts(receipt(), AGGREGATE, noted(record()), AUDIT, bundle_complete=True)
    history = TierHistory()
    assessment = TierAssigner.assign(facts, history, resolved_at=MOMENT)
    document = tier_document(facts, history, assessment)
    assert document == {
        "facts": facts.as_document(),
        "history": {"runs": [], "telemetry": [], "attestations": [], "disputes": [], "signals": []},
        "assessment": assessment.as_document(),
    }
    assert TierFacts.from_document(cast("JsonObject", document["facts"])) == facts


@pytest.mark.parametrize(
    ("closed", "cap"), [("network", ()), ("files", CAPPED), ("processes", CAPPED)]
)
def test_a_construct_that_could_read_the_answers_caps_the_tier_and_an_open_network_does_not(
    closed: str, cap: tuple[str, ...]
) -> None:
    isolation = Isolation(
        files=closed != "files",
        processes=closed != "processes",
        network=closed != "network",
        by="namespaces",
    )
    counts = cast("JsonObject", AGGREGATE["episode_counts"]) | {"total": 10, "not_run": 0}
    aggregate = AGGREGATE | {"episode_counts": counts}
    facts = tier_facts_of(
        receipt(), aggregate, noted(record()), AUDIT, isolation=isolation, bundle_complete=True
    )
    assert facts.extra_caps == cap


@pytest.mark.parametrize("panel", [False, True])
@pytest.mark.parametrize(("model", "named"), [("m-1", ["judges-itself:colour"]), ("m-2", [])])
def test_a_model_that_judges_its_own_answers_is_named(
    model: str, named: list[str], *, panel: bool
) -> None:
    judge: JsonObject = {"provider": "openai", "model": "m-1"}
    other: JsonObject = {**judge, "model": "m-3"}
    params: JsonObject = {"panel": {"judges": [other, judge]}} if panel else {"judge": judge}
    template = with_changes(
        TEMPLATE,
        {
            "/scoring/criteria_scorers/colour": {"scorer": "llm_judge", "params": params},
            "/product_theatre_config/adapter_settings": {"model": model},
        },
    )
    assert [*scorer_findings(template, product_template(template))] == named
    assert Plan(template).scorer_findings() == named


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ({"kept": 1}, ["kept"]),
        # The habit has the 0.9: its certificate read 0.900 without a word.
        ({"kept": 0.9, "both": 0.1}, ["kept"]),
        ({"kept": 0.5, "both": 0.5}, ["kept"]),
        ({"kept": 0.4, "both": 0.6}, []),
        ({"won": 0.25, "gained": 0.25, "both": 0.5}, ["won", "gained"]),
        ({"won": 0.2, "kept": 0.4, "both": 0.4}, []),
        ({"kept": 0.44, "turned": 0.44, "both": 0.04, "won": 0.08}, ["kept", "turned"]),
    ],
)
def test_what_a_habit_is_enough_for_is_named(weights: JsonObject, named: list[str]) -> None:
    """The adversary `never-turns`: to keep what was said is all of one side of control."""
    measures = {"kept": "begun_true", "turned": "begun_false", "both": "turned_and_kept"}
    measures |= {"won": "net_effect", "gained": "control"}
    changes: dict[str, JsonValue] = {
        "/criteria/criteria_ids": [*weights],
        "/criteria/weights": weights,
        "/scoring/criteria_scorers": {
            name: {
                "scorer": "debate_transitions",
                "params": {"measure": measures[name], "expected": "probes"},
            }
            for name in weights
        },
        "/product_theatre_config/episode_runner": "debate",
    }
    template = with_changes(TEMPLATE, changes)
    codes = [f"one-sided:{name}" for name in named]
    assert [*scorer_findings(template, product_template(template))] == codes
    assert Plan(template).scorer_findings() == codes
