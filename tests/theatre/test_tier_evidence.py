"""The facts that a tier rests on: counted from what was recorded, none of them asserted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import cast

import pytest

from tests.theatre.runs import PILOT, TEMPLATE, VERSION, with_changes
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.replay.tier_evidence import CallFacts, tier_document, tier_facts_of
from theatre.engine.tier_assigner import (
    CriterionCounts,
    TierAssigner,
    TierFacts,
    TierHistory,
)

MOMENT = datetime(2026, 11, 21, 12, tzinfo=UTC)
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
}


def receipt(changes: dict[str, JsonValue] | None = None) -> CommitmentReceipt:
    hashes: dict[str, JsonValue] = {"/dataset_hashes": {"truth": "ab" * 32}}
    return CommitmentProtocol.commit(
        "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11",
        with_changes(TEMPLATE, hashes | (changes or {})),
        scorer_pins={},
        committed_at=MOMENT,
    )


def record(
    *reasons: str | None, adapter: str = "local@1", version_source: str = "computed"
) -> JsonObject:
    return {
        "calls": [
            {
                "adapter": adapter,
                "version_source": version_source,
                "attempts": [{"reason": reason} for reason in reasons],
            }
        ]
    }


def noted(*records: JsonObject) -> CallFacts:
    facts = CallFacts()
    for one in records:
        facts.note(one)
    return facts


def test_facts_are_counted_from_aggregate_records_and_commitment() -> None:
    calls = noted(record(None), record("timeout", "version-mismatch"), record("version-mismatch"))
    facts = tier_facts_of(receipt(), AGGREGATE, calls, bundle_complete=True)
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
    facts = tier_facts_of(
        receipt(), AGGREGATE | {"episode_counts": counts}, noted(record(None)), bundle_complete=True
    )
    assert (facts.run, facts.total, facts.extra_caps) == (10, 10, ())


@pytest.mark.parametrize("rate", [0, 0.1, 0.3])
def test_the_committed_refusal_rate_is_taken_exactly(rate: float) -> None:
    facts = tier_facts_of(
        receipt({"/execution_policy/max_refusal_rate": rate}),
        AGGREGATE,
        noted(record(None)),
        bundle_complete=False,
    )
    assert facts.max_refusal_rate == Fraction(str(rate))
    assert facts.bundle_complete is False


def test_absent_pins_scorers_and_a_broken_commitment_are_facts_too() -> None:
    without = receipt(
        {"/version_pins": {"scorer_version": "label"}, "/scoring": {"holdout_split": 0}}
    )
    broken = replace(without, commitment_hash="0" * 64)
    facts = tier_facts_of(broken, AGGREGATE, noted(record(None)), bundle_complete=True)
    assert facts.construct_version is None
    assert facts.missing_pins == ("construct_version",)
    assert (facts.scorers_committed, facts.commitment_verifiable) == (False, False)


def test_one_claimed_version_or_one_mock_is_remembered_to_the_end() -> None:
    honest = noted(record(None), record(None))
    assert (honest.recorded, honest.version_source, honest.rehearsed) == (2, "computed", False)
    mixed = noted(
        record(None, version_source="claimed"), record(None, adapter="mock@1"), record(None)
    )
    assert (mixed.recorded, mixed.version_source, mixed.rehearsed) == (3, "claimed", True)
    assert mixed.adapter_pin == "local@1"


def test_the_tier_document_holds_what_was_read_and_what_was_concluded() -> None:
    facts = tier_facts_of(receipt(), AGGREGATE, noted(record(None)), bundle_complete=True)
    history = TierHistory()
    assessment = TierAssigner.assign(facts, history, resolved_at=MOMENT)
    document = tier_document(facts, history, assessment)
    assert document == {
        "facts": facts.as_document(),
        "history": {
            "runs": [],
            "telemetry": [],
            "attestations": [],
            "disputes": [],
            "signals": [],
        },
        "assessment": assessment.as_document(),
    }
    assert TierFacts.from_document(cast("JsonObject", document["facts"])) == facts
