"""`echelon theatre watch`: a run seen from another place, while it goes on and after its end."""

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.runs import (
    ERROR,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from tests.theatre.test_rated_runs import waiting
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.cli.watch_command import newest_theatre, watch_theatre
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.files.run_journal import TRAIL
from theatre.files.theatre_store import FileTheatreStore

COUNT = 30

Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(home: Path, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("ECHELON_HOME", str(home))
        capsys.readouterr()
        code = run_guarded(cli, ["theatre", "watch", *arguments])
        return code, capsys.readouterr().out

    return asked


def stage_of(folder: Path) -> Stage:
    return pilot_stage(
        folder,
        episodes(COUNT, {3: ERROR, 4: ERROR}),
        changes={"/execution_policy/on_threshold": "continue"},
    )


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    return stage_of(tmp_path).run(ScriptedAdapter(answer_as_asked))


def test_a_run_that_has_ended_is_told_with_its_exit_code(
    finished: Finished, tmp_path: Path, ask: Ask
) -> None:
    home = tmp_path / "home"
    code, said = ask(home)
    assert code == ExitCode.OK
    assert said == f"{finished.theatre.theatre_id[:8]}  30/30  RESOLVED  failed 2  certified\n"
    code, said = ask(home, finished.theatre.theatre_id[:6], "--json")
    document = json.loads(said)
    assert code == ExitCode.OK
    assert (document["done"], document["total"], document["failures"]) == (COUNT, COUNT, 2)
    assert (document["state"], document["outcome"]) == ("RESOLVED", "certified")
    assert (document["eta_seconds"], document["waits_for"]) == (None, None)


def test_while_it_goes_on_each_batch_is_seen_once_with_rate_and_time_to_go(tmp_path: Path) -> None:
    """Batch by batch: what the run has written when the construct is asked the next time."""
    stage, seen = stage_of(tmp_path), list[dict[str, Any]]()
    follow = watch_theatre(
        stage.theatre_id, FileTheatreStore(tmp_path / "home"), pause=lambda _: None
    )

    def answer(request: OracleInvocationRequest) -> JsonObject:
        run, is_new = next(follow)
        if is_new:
            seen.append(dict(run.document()))
        return answer_as_asked(request)

    stage.run(ScriptedAdapter(answer))
    assert [one["done"] for one in seen] == [0, 10, 20]
    assert {one["total"] for one in seen} == {COUNT}
    assert seen[0]["rate"] is None
    assert seen[-1]["failures"] == 2
    # The clock of the stage ticks a second a look: 20 episodes are left of 30 after the first ten.
    assert seen[1]["eta_seconds"] == pytest.approx(20 / seen[1]["rate"], abs=0.1)
    last = [run.document() for run, _ in follow][-1]
    assert (last["state"], last["done"], last["eta_seconds"]) == ("RESOLVED", COUNT, None)


def test_a_line_that_is_being_written_waits(finished: Finished, tmp_path: Path) -> None:
    trail = finished.folder / TRAIL
    whole = trail.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    store = FileTheatreStore(tmp_path / "home")
    trail.write_bytes(whole[: last + 9])
    follow = watch_theatre(finished.theatre.theatre_id, store, pause=lambda _: None)
    run, is_new = next(follow)
    assert (is_new, run.state) == (True, "SETTLING")
    with (finished.folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert next(follow)[1] is False
    trail.write_bytes(whole)
    assert next(follow)[1] is True
    assert (run.state, run.exit_code) == ("RESOLVED", ExitCode.OK)
    assert list(follow) == []


def test_the_newest_is_the_one_that_runs(tmp_path: Path) -> None:
    """And none that was committed before it, and never begun."""
    stage_of(tmp_path / "earlier")
    stage, found = pilot_stage(tmp_path, episodes(COUNT), name="another"), set[str]()
    shutil.copytree(tmp_path / "earlier" / "home", tmp_path / "home", dirs_exist_ok=True)
    store = FileTheatreStore(tmp_path / "home")

    def answer(request: OracleInvocationRequest) -> JsonObject:
        found.add(newest_theatre(store))
        return answer_as_asked(request)

    stage.run(ScriptedAdapter(answer))
    assert found == {stage.theatre_id}


def test_a_run_that_was_stopped_is_not_watched_for_ever(
    finished: Finished, tmp_path: Path, ask: Ask
) -> None:
    trail = finished.folder / TRAIL
    lines = trail.read_bytes().splitlines(keepends=True)
    trail.write_bytes(b"".join(line for line in lines if b'"resolved"' not in line))
    theatre_id = finished.theatre.theatre_id
    code, said = ask(tmp_path / "home")
    assert code == ExitCode.INCOMPLETE
    assert said.endswith(
        f"stopped: no process makes it; go on with: echelon theatre run {theatre_id}\n"
    )
    assert ask(tmp_path / "home", "--json")[0] == ExitCode.INCOMPLETE


def test_a_run_that_waits_for_people_says_so_and_ends_as_the_run_does(
    tmp_path: Path, ask: Ask
) -> None:
    stage, _ = waiting(tmp_path)
    code, said = ask(tmp_path / "home")
    assert code == ExitCode.INCOMPLETE
    assert f"waits for people: echelon theatre hitl {stage.theatre_id}" in said


def test_a_run_without_a_certificate_and_no_theatre_end_as_the_run_does(
    tmp_path: Path, ask: Ask
) -> None:
    assert ask(tmp_path / "home")[0] == ExitCode.NOT_FOUND
    stage = pilot_stage(tmp_path, episodes(5, dict.fromkeys(range(1, 6), ERROR)))
    stage.run(ScriptedAdapter(answer_as_asked))
    code, said = ask(tmp_path / "home")
    assert code == ExitCode.FAILURE
    assert "no_certificate" in said
    assert ask(tmp_path / "home", "nope")[0] == ExitCode.NOT_FOUND
