"""What a settled run leaves: chain, digests, tier, ground truth, and results that repeat."""

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.forged_bundle import episode_leaves, load, tree_root
from tests.theatre.runs import (
    BEGIN,
    ERROR,
    LATE,
    PILOT,
    PILOT_FINDINGS,
    REFUSED,
    SANITISED,
    VERSION,
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    checked,
    episodes,
    pilot_stage,
)
from theatre.engine.audit_chain import verify_chain
from theatre.engine.bundle_check.report import at
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line
from theatre.engine.clock import parse_rfc3339
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.tier_assigner import (
    Dispute,
    DisputeStatus,
    RunRecord,
    TierHistory,
    VerificationTier,
)


def certified(tmp_path: Path, count: int = 60) -> tuple[Stage, Finished]:
    stage = pilot_stage(tmp_path, episodes(count, {7: REFUSED, 9: ERROR, 11: WRONG}))
    return stage, stage.run(ScriptedAdapter(answer_as_asked), batch_size=25)


def test_the_episode_root_is_over_what_the_bundle_holds_of_each_episode(tmp_path: Path) -> None:
    _, finished = certified(tmp_path)
    leaves = episode_leaves(load(finished.bundle))
    certificate = finished.document("certificate.json")
    assert certificate["episode_root"] == tree_root([leaf for _, _, leaf in leaves]).hex()
    lines = [json.loads(line) for _, line, _ in leaves]
    results = finished.lines("scores/per_episode.jsonl")
    assert [line["result"] for line in lines] == results
    assert [line["record"]["seq"] for line in lines] == [*range(1, 61)]
    dataset = (finished.bundle / "ground_truth" / "dataset.jsonl").read_text()
    assert "".join(f"{line['dataset_line']}\n" for line in lines) == dataset
    assert all(line == canonical_bytes(json.loads(line)) for _, line, _ in leaves)
    assert len({salt for salt, _, _ in leaves}) == 60


def test_a_certified_run_writes_this_chain(tmp_path: Path) -> None:
    stage, finished = certified(tmp_path)
    assert [entry["event_type"] for entry in finished.trail] == [
        *("created", "committed", "activated"),
        *("episodes_recorded", "episode_refused", "episode_failed"),
        *("episodes_recorded", "episodes_recorded"),
        *("settling", "step_completed", "sealed", "resolved"),
    ]
    in_bundle = finished.lines("audit_trail.jsonl")
    assert finished.trail[:-1] == in_bundle
    head = verify_chain(in_bundle, theatre_id=stage.theatre_id)
    certificate = finished.document("certificate.json")
    assert certificate["audit_head"] == head.entry_hash
    assert in_bundle[-1]["detail"] == {
        "certificate_id": certificate["certificate_id"],
        "issuer": "a test",
        "issued_at": in_bundle[-1]["at"],
        "theatre_resolved_at": in_bundle[-1]["at"],
    }
    aggregation = cast("list[JsonValue]", finished.document("resolution.json")["steps"])[1]
    assert in_bundle[-2]["detail"] == aggregation
    assert finished.resolution == {
        "outcome": "certified",
        "certificate_id": certificate["certificate_id"],
        "verification_tier": certificate["verification_tier"],
        "results_hash": certificate["results_hash"],
    }


def test_each_batch_binds_its_records_by_their_digest(tmp_path: Path) -> None:
    _, finished = certified(tmp_path)
    batches = [e["detail"] for e in finished.trail if e["event_type"] == "episodes_recorded"]
    journal = (finished.folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    expected = []
    for first, last in ((1, 25), (26, 50), (51, 60)):
        records = [
            finished.document(f"invocations/episode_{seq:06d}.json")
            for seq in range(first, last + 1)
        ]
        lines = b"".join(canonical_line(record) for record in records)
        failed, refused = (first <= 9 <= last, first <= 7 <= last)
        expected.append(
            {
                "seqs": [[first, last]],
                "records_sha256": hashlib.sha256(lines).hexdigest(),
                "journal_sha256": hashlib.sha256(b"".join(journal[first - 1 : last])).hexdigest(),
                "statuses": {
                    "success": len(records) - failed - refused,
                    "timeout": 0,
                    "error": int(failed),
                    "refused": int(refused),
                },
            }
        )
    assert batches == expected
    troubles = [e["detail"] for e in finished.trail if "_failed" in str(e["event_type"])]
    assert troubles == [
        {
            "seq": 9,
            "episode_id": "pilot-9",
            "construct_id": PILOT,
            "hop": 0,
            "status": "error",
            "reason": None,
            "error_detail": "cannot",
        }
    ]


def test_a_tier_above_unverified_expires_and_the_sealing_says_when_it_began(tmp_path: Path) -> None:
    _, finished = certified(tmp_path)
    certificate = finished.document("certificate.json")
    resolved_at = parse_rfc3339(cast("str", certificate["theatre_resolved_at"]))
    assert certificate["verification_tier"] == "BACKTESTED"
    assert parse_rfc3339(cast("str", certificate["expires_at"])) == resolved_at + timedelta(days=90)
    assert certificate["issued_at"] == certificate["theatre_resolved_at"]
    assert certificate["theatre_committed_at"] == "2026-11-21T12:00:01.000000Z"
    assert certificate["caps"] == [
        *("runs-below-3", "runs-span-below-90-days", "telemetry-missing"),
        *("attestation-missing", "behavioural-signal-missing"),
    ]


def test_the_history_that_the_assigner_read_stands_in_the_evidence(tmp_path: Path) -> None:
    dispute = Dispute(dispute_id="d-1", status=DisputeStatus.ADMITTED, at=BEGIN)
    history = TierHistory(disputes=(dispute,))
    finished = pilot_stage(tmp_path, episodes(60)).run(ScriptedAdapter(), history=history)
    tier = finished.document("tier.json")
    assert tier["history"] == history.as_document()
    assert finished.document("certificate.json")["caps"] == ["dispute-open"]
    assert cast("JsonObject", tier["assessment"])["tier"] == "UNVERIFIED"


def test_a_history_holds_what_was_known_when_the_run_resolved_and_not_the_run_itself(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(2))

    def run_of(theatre_id: str, resolved_at: datetime) -> RunRecord:
        return RunRecord(
            theatre_id=theatre_id,
            construct_id=PILOT,
            construct_version="1",
            tier=VerificationTier.BACKTESTED,
            resolved_at=resolved_at,
            results_hash="ab" * 32,
        )

    before, after = BEGIN - timedelta(days=1), BEGIN + timedelta(days=1)
    known = run_of("11111111-1111-4111-8111-111111111111", before)
    admitted = Dispute(dispute_id="d-1", status=DisputeStatus.ADMITTED, at=after)
    history = TierHistory(
        runs=(
            known,
            run_of(stage.theatre_id, before),
            run_of("22222222-2222-4222-8222-222222222222", after),
        ),
        disputes=(admitted,),
    )
    finished = stage.run(ScriptedAdapter(), history=history)
    assert finished.document("tier.json")["history"] == TierHistory(runs=(known,)).as_document()
    assert "dispute-open" not in cast("list[str]", finished.document("certificate.json")["caps"])
    assert checked(finished.bundle).failed == ()


HERE: JsonObject = {
    "environment_hash": "ab" * 32,
    "interpreter": "CPython 3.11.7",
    "platform": "Linux",
}
THERE: JsonObject = {**HERE, "environment_hash": "cd" * 32}


@pytest.mark.parametrize(
    ("before", "began", "findings"),
    [
        (None, HERE, []),
        (HERE, HERE, []),
        (None, THERE, ["environment-changed"]),
        (None, None, ["environment-changed"]),
        (THERE, HERE, ["environment-changed"]),
        (THERE, THERE, ["environment-changed"]),
    ],
)
def test_the_certificate_says_that_the_environment_is_not_as_committed_or_as_before(
    tmp_path: Path, before: JsonObject | None, began: JsonObject | None, findings: list[str]
) -> None:
    stage = pilot_stage(tmp_path, episodes(2), environment=HERE)
    finished = stage.run(
        ScriptedAdapter(),
        around=lambda one: replace(one, environment=began, previous_environment=before),
    )
    activated = cast("JsonObject", finished.trail[2]["detail"])
    assert (activated["environment"], activated["previous_environment"]) == (began, before)
    certificate = finished.document("certificate.json")
    assert (certificate["environment"], certificate["findings"]) == (
        HERE,
        sorted([*PILOT_FINDINGS, *findings]),
    )
    assert finished.document("commitment_receipt.json")["environment"] == HERE
    assert checked(finished.bundle).failed == ()


@pytest.mark.parametrize(
    ("version", "source", "findings"),
    [(VERSION, "computed", []), (None, "claimed", ["version-claimed"])],
)
def test_the_certificate_says_where_the_version_comes_from(
    tmp_path: Path, version: str | None, source: str, findings: list[str]
) -> None:
    finished = pilot_stage(tmp_path, episodes(2)).run(ScriptedAdapter(version=version))
    certificate = finished.document("certificate.json")
    assert (certificate["version_source"], certificate["findings"]) == (
        source,
        sorted([*PILOT_FINDINGS, *findings]),
    )
    record = finished.document("invocations/episode_000001.json")
    (call,) = cast("list[JsonObject]", record["calls"])
    assert call["version_source"] == source


def test_a_version_mismatch_caps_the_tier(tmp_path: Path) -> None:
    mismatch: JsonObject = {"construct_version": "deadbeef" * 8, "output_data": {}}
    finished = pilot_stage(tmp_path, episodes(60, {5: mismatch, 6: mismatch})).run(
        ScriptedAdapter(answer_as_asked)
    )
    assert finished.document("certificate.json")["caps"] == ["version-mismatch"]
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert (facts["version_mismatches"], facts["failures"]) == (2, 2)


def test_results_do_not_depend_on_batches_times_or_the_folder(tmp_path: Path) -> None:
    seen = set()
    for batch_size in (1, 7, 100):
        stage = pilot_stage(
            tmp_path / str(batch_size), episodes(12, {2: ERROR, 4: REFUSED, 7: WRONG})
        )
        finished = stage.run(ScriptedAdapter(answer_as_asked), batch_size=batch_size)
        lines = (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()
        seen.add((lines, cast("str", finished.document("certificate.json")["results_hash"])))
    assert len(seen) == 1


GOLD = [
    {"episode_id": "pilot-1", "label": {"colour": "blue"}, "labeller": "a test"},
    {"episode_id": "pilot-2", "label": {"colour": "red"}, "labeller": "a test"},
]


def test_every_dataset_is_copied_byte_for_byte_under_its_name(tmp_path: Path) -> None:
    gold = "\n".join(json.dumps(label) for label in GOLD).encode()
    more = b'{"any":  "bytes"}\r\n\xff'
    scorers: JsonObject = {
        "colour": {
            "scorer": "exact_match",
            "params": {"field": "colour", "expected": "gold:colour"},
        },
        "recall": {
            "scorer": "numeric_tolerance",
            "params": {"field": "recall", "expected": "recall"},
        },
    }
    stage = pilot_stage(
        tmp_path,
        episodes(3),
        further={"labels.jsonl": gold, "more.jsonl": more},
        changes={
            "/product_theatre_config/gold_label_set": "labels.jsonl",
            "/product_theatre_config/gold_label_dataset_id": "labels",
            "/product_theatre_config/dataset_paths": {"more": "more.jsonl"},
            "/scoring/criteria_scorers": scorers,
        },
    )
    finished = stage.run(ScriptedAdapter())
    truth = finished.bundle / "ground_truth"
    assert {path.name: path.read_bytes() for path in truth.iterdir()} == {
        "dataset.jsonl": (tmp_path / "truth.jsonl").read_bytes(),
        "gold_labels.jsonl": gold,
        "more.jsonl": more,
    }
    lines = finished.lines("scores/per_episode.jsonl")
    assert [cast("JsonObject", line["scores"])["colour"] for line in lines] == [0, 1, None]


def test_a_scorer_that_changes_what_it_is_shown_changes_no_evidence(tmp_path: Path) -> None:
    def greedy(case: ScoringCase) -> float:
        cast("JsonObject", case.answer).clear()
        case.input_data.clear()
        return 1.0

    scorers = {
        name: Scorer(name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, score=greedy)
        for name in ("exact_match", "numeric_tolerance")
    }
    stage = pilot_stage(
        tmp_path,
        episodes(1),
        changes={
            "/scoring/criteria_scorers/colour/params": {},
            "/scoring/criteria_scorers/recall/params": {},
        },
    )
    finished = stage.run(ScriptedAdapter(), scorers=scorers)
    (call,) = cast(
        "list[JsonObject]", finished.document("invocations/episode_000001.json")["calls"]
    )
    (attempt,) = cast("list[JsonObject]", call["attempts"])
    assert cast("JsonObject", attempt["response"])["output_data"] == {
        "colour": "red",
        "recall": 0.5,
    }
    assert cast("JsonObject", call["request"])["input_data"] == {"seq": 1}


def test_a_run_of_more_than_a_thousand_ends_in_its_first_part_and_is_checked(
    tmp_path: Path,
) -> None:
    asked = episodes(1001, dict.fromkeys(range(2, 600, 2), ERROR))
    stage = pilot_stage(tmp_path, asked, changes=SANITISED)
    finished = stage.run(ScriptedAdapter(answer_as_asked))
    assert [path.name for path in (finished.bundle / "invocations").iterdir()] == [
        "part-00001.jsonl"
    ]
    assert checked(finished.bundle).consistent


def test_what_few_episodes_expect_is_held_against_their_own_questions(tmp_path: Path) -> None:
    # In a set of these three 44 comes first.
    asked = episodes(60)
    for seq, one in enumerate(asked, 1):
        one["input_data"] = {"colour": f"red {seq}"}
        one["expected_output"] = {"colour": f"red {seq}"} if seq in {5, 44, 54} else {}
    finished = pilot_stage(tmp_path, asked, changes=SANITISED).run(ScriptedAdapter())
    baselines = cast("JsonObject", finished.document("certificate.json")["baselines"])
    assert at(baselines, "criteria", "colour", "copied", "score") == 1
    assert checked(finished.bundle).consistent


def test_a_gap_behind_the_end_of_a_run_is_one_in_its_part(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        "/schema_version": "2.2.0",
        "/execution_policy/repeats": 2,
        "/execution_policy/failure_threshold": 0,
    }
    stage = pilot_stage(tmp_path, episodes(1001, {9: ERROR}), changes=changes)
    finished = stage.run(ScriptedAdapter(answer_as_asked))
    found = [record["seq"] for record in finished.lines("invocations/part-00001.jsonl")]
    assert found[:9] == [*range(1, 10)]
    assert found[9:] != [*range(10, 1 + len(found))]
    assert checked(finished.bundle).consistent
    assert verify(finished.bundle, now=LATE).word == "consistent"


def test_past_a_thousand_episodes_the_records_lie_in_parts(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(1001, {1001: WRONG}))
    finished = stage.run(ScriptedAdapter(answer_as_asked), batch_size=1000)
    invocations = finished.bundle / "invocations"
    assert sorted(path.name for path in invocations.iterdir()) == [
        "part-00001.jsonl",
        "part-00002.jsonl",
    ]
    (last,) = finished.lines("invocations/part-00002.jsonl")
    assert (last["seq"], last["episode_id"]) == (1001, "pilot-1001")
    assert len(canonical_bytes(last)) + 1 == (invocations / "part-00002.jsonl").stat().st_size
    assert cast("dict[str, float]", finished.document("certificate.json")["scores"])["colour"] == (
        0.999000999
    )
