"""From the last answer to the sealed bundle, or to the reason why there is none."""

import asyncio
from collections import Counter
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
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import BundleError, CertificateError, JournalError, PinMismatchError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import Scorer, ScorerKind, ScoringCase
from theatre.engine.oracle_contract import NOT_ISOLATED, Attempt, OracleInvocationRequest
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.in_process import MockOracleAdapter

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
    status = "refused" if answer is REFUSED else "error"
    assert finished.resolution == {
        "outcome": "no_certificate",
        "outcome_reason": "nothing-scored",
        "results_hash": finished.resolution["results_hash"],
        "statuses": {"success": 0, "refused": 0, "timeout": 0, "error": 0} | {status: 4},
        "reasons": [{"code": status, "count": 4, "entry": 4}],
    }
    assert bundle_folders(stage) == []
    assert [entry["event_type"] for entry in finished.trail][-2:] == ["settling", "resolved"]


def test_where_every_scorer_is_at_fault_there_is_no_certificate(tmp_path: Path) -> None:
    broken = {
        name: Scorer(
            name=name, version="1", kind=ScorerKind.EXACT, params_schema={}, score=crashing_scorer
        )
        for name in ("exact_match", "numeric_tolerance")
    }
    stage = pilot_stage(tmp_path, episodes(4))
    finished = stage.run(ScriptedAdapter(), scorers=broken)
    assert finished.resolution["outcome_reason"] == "nothing-scored"
    assert finished.resolution["reasons"] == [{"code": "unscored", "count": 4, "entry": None}]
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
        "computations": {},
        "sanitiser": None,
        "environment": None,
        "isolation": {PILOT: NOT_ISOLATED.as_document()},
        "previous_environment": None,
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
    adapter = ScriptedAdapter(pin="mock@9")
    with pytest.raises(PinMismatchError, match="expected the committed type local, got mock@9"):
        stage.run(adapter)
    assert (adapter.asked, bundle_folders(stage)) == ([], [])


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
