"""From the last answer to the sealed bundle, or to the reason why there is none."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.runs import (
    BEGIN,
    ERROR,
    PILOT,
    REFUSED,
    VERSION,
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.engine.audit_chain import AuditEvent, verify_chain
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import BundleError, CertificateError, JournalError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import Scorer, ScoringCase
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.engine.tier_assigner import Dispute, DisputeStatus, TierHistory
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.mock import MockOracleAdapter

ANY_ADAPTER: dict[str, JsonValue] = {
    "/version_pins": {"constructs": {PILOT: VERSION}, "scorer_version": "exact_match@1"}
}
CONTINUE: dict[str, JsonValue] = {"/execution_policy/on_threshold": "continue"}


def asked_by(adapter: ScriptedAdapter) -> list[int]:
    return [request.input_data["seq"] for request in adapter.asked]


def bundle_folders(stage: Stage) -> list[str]:
    """Return what there is of a bundle, half-written ones included."""
    return sorted(path.name for path in stage.folder.iterdir() if "bundle" in path.name)


FAILING_THRICE = {1: WRONG, 2: ERROR, 3: ERROR, 4: REFUSED, 5: ERROR, 8: ERROR}


def test_a_run_ends_at_the_threshold_with_what_it_has(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(10, FAILING_THRICE))
    adapter = ScriptedAdapter(answer_as_asked)
    finished = stage.run(adapter)
    assert asked_by(adapter) == [1, 2, 3, 4, 5]
    lines = finished.lines("scores/per_episode.jsonl")
    zero, gap = {"colour": 0, "recall": 0}, {"colour": None, "recall": None}
    assert [(line["seq"], line["outcome"], line["scores"]) for line in lines] == [
        (1, "scored", zero),
        (2, "missing", zero),
        (3, "missing", zero),
        (4, "excluded", gap),
        (5, "missing", zero),
        *((seq, "not_run", gap) for seq in range(6, 11)),
    ]
    assert sorted(path.name for path in (finished.bundle / "invocations").iterdir()) == [
        f"episode_{seq:06d}.json" for seq in range(1, 6)
    ]


def test_episodes_that_were_not_run_count_in_no_mean_and_no_rate(tmp_path: Path) -> None:
    answers = FAILING_THRICE | {1: {"output_data": {"colour": "red", "recall": 0.9}}}
    finished = pilot_stage(tmp_path, episodes(10, answers)).run(ScriptedAdapter(answer_as_asked))
    aggregate = finished.document("scores/aggregate.json")
    assert aggregate["scores"] == {"colour": 0.25, "recall": 0}
    assert aggregate["composite_score"] == 0.1875
    assert aggregate["answered_only"] == {"colour": 1, "recall": 0}
    assert aggregate["refusals_as_zero"] == {"colour": 0.2, "recall": 0}
    assert (aggregate["coverage"], aggregate["refusal_rate"]) == (0.25, 0.2)
    counts = {"scored": 1, "missing": 3, "not_applicable": 0, "declined": 0, "unscored": 0}
    assert aggregate["score_counts"] == {"colour": counts, "recall": counts}
    assert aggregate["episode_counts"] == {
        "total": 10,
        "scored": 1,
        "timeout": 0,
        "error": 3,
        "refused": 1,
        "unscored": 0,
        "not_run": 5,
    }
    parts = cast("dict[str, JsonObject]", aggregate["holdout_scores"])
    assert cast("int", parts["train"]["episodes"]) + cast("int", parts["holdout"]["episodes"]) == 5


def test_a_run_that_was_ended_is_capped_for_its_failures_and_for_what_was_not_run(
    tmp_path: Path,
) -> None:
    finished = pilot_stage(tmp_path, episodes(10, FAILING_THRICE)).run(
        ScriptedAdapter(answer_as_asked)
    )
    certificate = finished.document("certificate.json")
    assert (certificate["verification_tier"], certificate["replay_count"]) == ("UNVERIFIED", 1)
    assert certificate["caps"] == [
        "replays-below-50",
        "failure-rate-above-20",
        "criterion-n-below-30:colour",
        "criterion-n-below-30:recall",
        "episodes-not-run",
    ]
    facts = cast("JsonObject", finished.document("tier.json")["facts"])
    assert {name: facts[name] for name in ("replay_count", "failures", "refusals", "run")} == {
        "replay_count": 1,
        "failures": 3,
        "refusals": 1,
        "run": 5,
    }


def test_exactly_the_threshold_does_not_end_a_run(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(10, {2: ERROR, 3: ERROR}))
    adapter = ScriptedAdapter(answer_as_asked)
    finished = stage.run(adapter)
    assert asked_by(adapter) == list(range(1, 11))
    counts = cast("JsonObject", finished.document("scores/aggregate.json")["episode_counts"])
    assert (counts["error"], counts["not_run"]) == (2, 0)
    assert "failure-rate-above-20" not in cast(
        "list[str]", finished.document("tier.json")["assessment"]
    )


def test_a_run_that_is_to_continue_goes_to_the_end_and_is_capped_alike(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(10, FAILING_THRICE), changes=CONTINUE)
    adapter = ScriptedAdapter(answer_as_asked)
    finished = stage.run(adapter)
    assert asked_by(adapter) == list(range(1, 11))
    aggregate = finished.document("scores/aggregate.json")
    assert aggregate["episode_counts"] == {
        "total": 10,
        "scored": 5,
        "timeout": 0,
        "error": 4,
        "refused": 1,
        "unscored": 0,
        "not_run": 0,
    }
    assert aggregate["scores"] == {"colour": 0.444444444, "recall": 0.444444444}
    caps = cast("list[str]", finished.document("certificate.json")["caps"])
    assert "failure-rate-above-20" in caps
    assert "episodes-not-run" not in caps


def crashing_scorer(_: ScoringCase) -> float:
    raise RuntimeError("a plug-in with a bug")


@pytest.mark.parametrize("answer", [ERROR, REFUSED], ids=["failed", "refused"])
def test_where_nothing_was_scored_there_is_no_certificate(
    tmp_path: Path, answer: JsonObject
) -> None:
    stage = pilot_stage(tmp_path, episodes(4, dict.fromkeys(range(1, 5), answer)), changes=CONTINUE)
    finished = stage.run(ScriptedAdapter(answer_as_asked))
    assert (finished.theatre.state, stage.state) == ("RESOLVED", "RESOLVED")
    assert finished.resolution == {
        "outcome": "no_certificate",
        "outcome_reason": "nothing-scored",
        "results_hash": finished.resolution["results_hash"],
    }
    assert bundle_folders(stage) == []
    assert [entry["event_type"] for entry in finished.trail][-2:] == ["settling", "resolved"]


def test_where_every_scorer_is_at_fault_there_is_no_certificate(tmp_path: Path) -> None:
    broken = {
        name: Scorer(name=name, version="1", params_schema={}, score=crashing_scorer)
        for name in ("exact_match", "numeric_tolerance")
    }
    stage = pilot_stage(tmp_path, episodes(4))
    finished = stage.run(ScriptedAdapter(), scorers=broken)
    assert finished.resolution["outcome_reason"] == "nothing-scored"
    assert bundle_folders(stage) == []


def test_an_empty_dataset_gives_no_certificate(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, [])
    assert stage.run(ScriptedAdapter()).resolution["outcome_reason"] == "nothing-scored"
    assert bundle_folders(stage) == []


def mock() -> MockOracleAdapter:
    return MockOracleAdapter(
        {}, clock=lambda: BEGIN, default={"output_data": {"colour": "red", "recall": 0.5}}
    )


def test_a_rehearsal_resolves_without_a_certificate(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(3), changes=ANY_ADAPTER)
    finished = stage.run(mock(), certificate_run=False)
    assert finished.theatre.state == "RESOLVED"
    assert (finished.resolution["outcome"], finished.resolution["outcome_reason"]) == (
        "no_certificate",
        "rehearsal",
    )
    assert bundle_folders(stage) == []
    assert finished.trail[2]["detail"] == {
        "episodes": 3,
        "adapters": {PILOT: "mock@1"},
        "scorers": {"exact_match": "1", "numeric_tolerance": "1"},
    }


class PowerCut(BaseException):
    """The process is about to be gone."""


class MockThatStops(MockOracleAdapter):
    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        if request.input_data["seq"] == 3:
            raise PowerCut
        return await super().invoke(request)


def test_answers_of_a_mock_in_the_journal_are_refused_when_a_certificate_is_to_be_issued(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(4), changes=ANY_ADAPTER)
    stopping = MockThatStops(
        {}, clock=lambda: BEGIN, default={"output_data": {"colour": "red", "recall": 0.5}}
    )
    with pytest.raises(PowerCut):
        stage.run(stopping, certificate_run=False)
    assert stage.state == "ACTIVE"
    real = ScriptedAdapter()
    with pytest.raises(CertificateError) as caught:
        stage.run(real)
    assert str(caught.value) == "expected answers of a real construct, got a mock's"
    assert asked_by(real) == [3, 4]
    assert (stage.state, bundle_folders(stage)) == ("SETTLING", [])
    finished = stage.run(ScriptedAdapter(), certificate_run=False)
    assert finished.resolution["outcome_reason"] == "rehearsal"


def test_an_adapter_that_reports_itself_as_a_mock_backs_no_certificate(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(2), changes=ANY_ADAPTER)
    with pytest.raises(CertificateError, match="got a mock's"):
        stage.run(ScriptedAdapter(pin="mock@9"))
    assert bundle_folders(stage) == []


def certified(tmp_path: Path, count: int = 60) -> tuple[Stage, Finished]:
    stage = pilot_stage(tmp_path, episodes(count, {7: REFUSED, 9: ERROR, 11: WRONG}))
    return stage, stage.run(ScriptedAdapter(answer_as_asked), batch_size=25)


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


def test_a_tier_above_unverified_expires_and_the_sealing_says_when_it_began(
    tmp_path: Path,
) -> None:
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


@pytest.mark.parametrize(("version", "source"), [(VERSION, "computed"), (None, "claimed")])
def test_the_certificate_says_where_the_version_comes_from(
    tmp_path: Path, version: str | None, source: str
) -> None:
    finished = pilot_stage(tmp_path, episodes(2)).run(ScriptedAdapter(version=version))
    assert finished.document("certificate.json")["version_source"] == source
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
        stage = pilot_stage(tmp_path / str(batch_size), episodes(12, FAILING_THRICE))
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
        name: Scorer(name=name, version="1", params_schema={}, score=greedy)
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


def test_a_disk_that_fails_while_sealing_leaves_nothing_visible_and_the_next_run_seals(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(3))
    in_the_way = stage.folder / bundle_name(stage.theatre_id)
    in_the_way.write_bytes(b"not a folder")
    with pytest.raises(BundleError, match="expected to seal the bundle"):
        stage.run(ScriptedAdapter())
    assert stage.state == "SETTLING"
    assert bundle_folders(stage) == [in_the_way.name]
    in_the_way.unlink()
    again = ScriptedAdapter()
    finished = stage.run(again)
    assert (again.asked, finished.resolution["outcome"]) == ([], "certified")
    happened = Counter(entry["event_type"] for entry in finished.trail)
    assert (happened["step_completed"], happened["sealed"], happened["resolved"]) == (1, 1, 1)
    assert bundle_folders(stage) == [finished.bundle.name]


async def note(stage: Stage, *events: AuditEvent) -> None:
    with FileTheatreStore(stage.folder.parents[1]).hold(stage.theatre_id) as held:
        for event in events:
            await held.journal.note(event)


def test_a_journal_that_lacks_an_episode_cannot_be_settled(tmp_path: Path) -> None:
    import asyncio

    stage = pilot_stage(tmp_path, episodes(2))
    moves = [("COMMITTED", "ACTIVE"), ("ACTIVE", "SETTLING")]
    asyncio.run(
        note(
            stage,
            *(
                AuditEvent(
                    event_type=after.lower(),
                    from_state=before,
                    to_state=after,
                    detail={},
                    at="2026-11-21T12:00:05.000000Z",
                )
                for before, after in moves
            ),
        )
    )
    with pytest.raises(JournalError) as caught:
        stage.run(ScriptedAdapter())
    assert str(caught.value) == ("expected episode 1 in the journal before settling, got none")
    assert (stage.state, bundle_folders(stage)) == ("SETTLING", [])


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
