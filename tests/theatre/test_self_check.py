"""The gate before publishing: what the own check refuses is never sealed, and kept for a look."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.theatre.runs import (
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    checked,
    episodes,
    pilot_stage,
    right,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.certificate import issue_certificate
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import BundleError, InvalidTransitionError
from theatre.engine.models import Scorer, ScoringCase
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.engine.replay import settlement
from theatre.files.run_journal import FileRunJournal
from theatre.scorers import load_scorers

EPISODES = 3
SCORED_BY_THE_RUN = EPISODES * 5
"""Every episode's answer, and its four baselines."""


class PowerCut(BaseException):
    """The process is about to be gone."""


def wrong(_: OracleInvocationRequest) -> JsonObject:
    return {**WRONG}


def scorers_that(score: Callable[[ScoringCase], float]) -> Mapping[str, Scorer]:
    """The installed scorers, with another function under the same name and version."""
    scorers = load_scorers()
    return {**scorers, "exact_match": replace(scorers["exact_match"], score=score)}


def changing_after(calls: int) -> Mapping[str, Scorer]:
    """A scorer that is generous when the run scores, and honest when the check does."""
    given: list[float] = []

    def score(_: ScoringCase) -> float:
        given.append(1.0 if len(given) < calls else 0.0)
        return given[-1]

    return scorers_that(score)


def is_refused(stage: Stage, finished: Finished, *, with_all_installed: bool = True) -> None:
    """The theatre has failed, the trail says by which checks, the draft is kept, nothing sealed."""
    events = [str(entry["event_type"]) for entry in finished.trail]
    assert events[-2:] == ["self-check-failed", "resolved"]
    assert "sealed" not in events
    draft = stage.drafts / stage.theatre_id
    assert list(stage.folder.rglob("certificate.json")) == []
    assert list(stage.folder.glob(".*partial*")) == []
    failed = cast("dict[str, list[str]]", finished.trail[-2]["detail"])["checks"]
    if with_all_installed:
        report = checked(draft)
        refused = {*report.failed, *report.unavailable}
        assert failed == [line.id for line in report.checks if line in refused]
    assert failed
    assert finished.resolution == {
        "outcome": "failed",
        "outcome_reason": "self-check",
        "error_detail": "expected a draft bundle that the independent check passes, got it refused "
        f"({', '.join(failed)}): nothing is issued, and the draft is kept in drafts/ for the "
        "operator",
    }


def test_a_scorer_that_changes_between_scoring_and_check_certifies_nobody(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(EPISODES))
    finished = stage.run(ScriptedAdapter(wrong), scorers=changing_after(SCORED_BY_THE_RUN))
    is_refused(stage, finished)
    with pytest.raises(InvalidTransitionError):
        stage.run(ScriptedAdapter())


def test_an_engine_that_certifies_more_than_it_has_certifies_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generous(*arguments: Any) -> JsonObject:  # noqa: ANN401 - whatever it takes
        return {**issue_certificate(*arguments), "composite_score": 1.0}

    monkeypatch.setattr(settlement, "issue_certificate", generous)
    stage = pilot_stage(tmp_path, episodes(EPISODES, {2: {"output_data": {"colour": "blue"}}}))
    finished = stage.run(ScriptedAdapter(answer_as_asked))
    is_refused(stage, finished)


def test_what_cannot_be_checked_is_not_sealed(tmp_path: Path) -> None:
    """The pinned scorer goes while the run scores: its check is unavailable."""
    stage = pilot_stage(tmp_path, episodes(EPISODES))
    scorers = dict(load_scorers())

    def score(_: ScoringCase) -> float:
        scorers["exact_match"] = replace(load_scorers()["exact_match"], version="2")
        return 1.0

    scorers |= scorers_that(score)
    is_refused(stage, stage.run(ScriptedAdapter(), scorers=scorers), with_all_installed=False)


def test_a_draft_that_is_touched_while_it_is_checked_is_not_sealed(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(EPISODES))
    seen: list[ScoringCase] = []

    def score(case: ScoringCase) -> float:
        seen.append(case)
        if len(seen) == SCORED_BY_THE_RUN + 1:
            (certificate,) = stage.folder.rglob("certificate.json")
            # The check has read it already.
            certificate.write_bytes(certificate.read_bytes().replace(b"BACKTESTED", b"PROVEN"))
        return 1.0

    with pytest.raises(BundleError, match=r"^expected the draft of the bundle as it was checked, "):
        stage.run(ScriptedAdapter(), scorers=scorers_that(score))
    assert list(tmp_path.rglob("certificate.json")) == []
    assert stage.run(ScriptedAdapter()).resolution["outcome"] == "certified"


def killed(stage: Stage, when: str, event_type: str, *, is_generous: bool = True) -> None:
    """Run in a process that kills itself before or after it makes one event durable.

    Its scorer is generous when the run scores; the engine that goes on has an honest one.
    """

    class Journal(FileRunJournal):
        async def note(self, event: AuditEvent) -> JsonObject:
            if (when, event.event_type) == ("before", event_type):
                os.kill(os.getpid(), signal.SIGKILL)
            entry = await super().note(event)
            if (when, event.event_type) == ("after", event_type):
                os.kill(os.getpid(), signal.SIGKILL)
            return entry

    child = os.fork()
    if child == 0:
        scorers = changing_after(SCORED_BY_THE_RUN) if is_generous else load_scorers()
        try:
            stage.run(
                ScriptedAdapter(wrong),
                journal=lambda _: Journal(stage.folder, stage.theatre_id),
                scorers=scorers,
            )
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def trail_lines(stage: Stage) -> list[bytes]:
    return (stage.folder / "audit_trail.jsonl").read_bytes().splitlines()


@pytest.mark.parametrize(
    ("when", "event_type", "left"),
    [
        ("before", "settling", "nothing"),
        ("before", "self-check-failed", "a draft"),
        ("after", "self-check-failed", "a draft"),
        ("before", "resolved", "a refused draft"),
    ],
)
def test_a_process_that_dies_round_a_refusal_is_repaired_and_certifies_nobody(
    tmp_path: Path, when: str, event_type: str, left: str
) -> None:
    stage = pilot_stage(tmp_path, episodes(EPISODES))
    killed(stage, when, event_type)
    found = {
        "a draft": bool(list(stage.folder.glob(".*partial"))),
        "a refused draft": (stage.drafts / stage.theatre_id).is_dir(),
    }
    assert found == {name: name == left for name in found}
    # Once it is noted, a refusal stands, whatever a later check would say.
    is_noted = any(b"self-check-failed" in line for line in trail_lines(stage))
    scorers = scorers_that(lambda _: 1.0) if is_noted else load_scorers()
    is_refused(stage, stage.run(ScriptedAdapter(wrong), scorers=scorers))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sealed_bundle_is_checked_again_before_it_is_believed(tmp_path: Path, when: str) -> None:
    stage = pilot_stage(tmp_path, episodes(EPISODES))
    killed(stage, when, "sealed", is_generous=False)
    (certificate,) = stage.folder.rglob("certificate.json")
    whole = certificate.read_bytes()
    certificate.write_bytes(whole.replace(b'"issuer":"a test"', b'"issuer":"a king"'))
    assert certificate.read_bytes() != whole
    finished = stage.run(ScriptedAdapter())
    assert finished.resolution["outcome_reason"] == "self-check"
    assert finished.trail[-2]["detail"] == {"checks": ["inventory", "certificate-fields"]}
    assert list(stage.folder.rglob("certificate.json")) == []
    kept = stage.drafts / stage.theatre_id / "certificate.json"
    assert b"a king" in kept.read_bytes()


class BehindTheEngine(ScriptedAdapter):
    """An adapter with a clock of its own, an hour behind."""

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        attempt = await super().invoke(request)
        early = parse_rfc3339(attempt.response.responded_at) - timedelta(hours=1)
        response = replace(attempt.response, responded_at=format_rfc3339(early))
        return replace(attempt, response=response)


def test_no_answer_is_stamped_before_its_request(tmp_path: Path) -> None:
    finished = pilot_stage(tmp_path, episodes(2)).run(BehindTheEngine())
    assert finished.resolution["outcome"] == "certified"
    for seq in (1, 2):
        (call,) = cast("list[Any]", finished.calls(seq))
        asked_at = call["request"]["metadata"]["invoked_at"]
        assert [one["response"]["responded_at"] for one in call["attempts"]] == [asked_at]


def test_stamps_never_go_back_although_the_clock_does(tmp_path: Path) -> None:
    """One clock is set back in the middle of a run and again before it is gone on with."""
    stage = pilot_stage(tmp_path, episodes(6))
    ticking = stage.clock
    behind = timedelta()
    stage.clock = lambda: ticking() - behind

    def answer(request: OracleInvocationRequest) -> JsonObject:
        nonlocal behind
        behind += timedelta(hours=1)
        if behind == timedelta(hours=4):
            raise PowerCut
        return right(request)

    with pytest.raises(PowerCut):
        stage.run(ScriptedAdapter(answer), batch_size=1)
    behind = timedelta(days=400)
    finished = stage.run(ScriptedAdapter(), batch_size=1)

    assert finished.resolution["outcome"] == "certified"
    stamps = [str(entry["at"]) for entry in finished.trail]
    assert stamps == sorted(stamps)
    times = [stage.receipt.committed_at]
    for seq in range(1, 7):
        (call,) = cast("list[Any]", finished.calls(seq))
        times.append(call["request"]["metadata"]["invoked_at"])
        times.append(call["attempts"][0]["response"]["responded_at"])
    times.append(str(finished.document("certificate.json")["issued_at"]))
    assert times == sorted(times)
    assert checked(finished.bundle).consistent
