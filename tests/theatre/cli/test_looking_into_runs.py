"""`echelon theatre list`, `episodes` and `episode`: while a theatre runs, and after."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import sys
import termios
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.conftest import SmallRun
from tests.theatre.forged_bundle import SCORERS
from tests.theatre.rated_runs import rated_stage
from tests.theatre.runs import (
    ERROR,
    WRONG,
    Finished,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from tests.theatre.test_judged_criteria import CHANGES, TOLD, RuledJudge
from tests.theatre.test_rated_runs import rated, waiting
from theatre.cli import cli
from theatre.cli.certificate_report import print_certificate
from theatre.cli.exits import ExitCode, run_guarded
from theatre.engine.canonical_json import JsonObject
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay import RunContext
from theatre.files.run_journal import TRAIL

ALL = [f"sum-{number}" for number in range(1, 11)]
BELOW_ONE = ["sum-2", "sum-6"]
WITHOUT_SCORE = ["sum-3", "sum-4", "sum-5", "sum-7", "sum-9", "sum-10"]


class Console:
    """Runs `echelon theatre` in this process, in the store of a test."""

    def __init__(
        self, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._captured, self._patch = capfdbinary, monkeypatch

    def at(self, home: Path) -> Console:
        self._patch.setenv("ECHELON_HOME", str(home))
        return self

    def ask(self, *arguments: str | Path) -> tuple[int, str, str]:
        self._captured.readouterr()
        code = run_guarded(cli, ["theatre", *map(str, arguments)])
        said = self._captured.readouterr()
        return code, said.out.decode(), said.err.decode()

    def text(self, *arguments: str | Path) -> str:
        code, said, complaint = self.ask(*arguments)
        assert code == ExitCode.OK, complaint
        return said

    def document(self, *arguments: str | Path) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.text(*arguments, "--json"))
        return document

    def ids(self, *arguments: str | Path) -> list[str]:
        return [one["episode_id"] for one in self.document("episodes", *arguments)["episodes"]]

    def on_terminal(self, *arguments: str | Path, columns: int) -> list[str]:
        """The lines that a terminal of so many columns shows."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        read: list[bytes] = []
        reader = threading.Thread(target=_read_all, args=(ours, read))
        reader.start()
        with self._patch.context() as patch, os.fdopen(theirs, "w", encoding="utf-8") as terminal:
            patch.setattr(sys, "stdout", terminal)
            patch.setenv("COLUMNS", str(columns))
            patch.setenv("TERM", "dumb")
            assert run_guarded(cli, ["theatre", *map(str, arguments)]) == ExitCode.OK
        reader.join()
        os.close(ours)
        return b"".join(read).decode().replace("\r\n", "\n").splitlines()


def _read_all(terminal: int, read: list[bytes]) -> None:
    try:
        while part := os.read(terminal, 65536):
            read.append(part)
    except OSError:
        # So Linux says that the other end is closed.
        return


@pytest.fixture
def console(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Console:
    return Console(capfdbinary, monkeypatch)


@pytest.fixture
def certified(real_run: SmallRun, console: Console) -> Console:
    return console.at(real_run.home)


def test_the_list_says_how_each_theatre_ended_and_names_a_damaged_one(
    real_run: SmallRun, console: Console, tmp_path: Path
) -> None:
    shutil.copytree(real_run.home, tmp_path / "home")
    damaged = "00000000-0000-4000-8000-000000000000"
    theatres = tmp_path / "home" / "theatres"
    shutil.copytree(theatres / real_run.theatre.theatre_id, theatres / damaged)
    (theatres / damaged / TRAIL).write_text("{}\n", encoding="utf-8")
    listed = console.at(tmp_path / "home").document("list")["theatres"]
    by_id = {one["theatre_id"]: one for one in listed}
    assert set(by_id[damaged]) == {"theatre_id", "error"}
    certificate = real_run.certificate
    assert by_id[real_run.theatre.theatre_id] == {
        "theatre_id": real_run.theatre.theatre_id,
        "template_id": "product_sums_v1",
        "construct_id": "sums",
        "state": "RESOLVED",
        "outcome": "certified",
        "outcome_reason": None,
        "verification_tier": "UNVERIFIED",
        "expires_at": None,
        "composite_score": certificate["composite_score"],
        "episodes_recorded": 10,
        "commitment_hash": certificate["commitment_hash"],
    }
    _, shown, note = console.ask("list")
    assert f"{real_run.theatre.theatre_id[:8]}  product_sums_v1  RESOLVED" in shown
    assert note == "note: show has the whole id, which run, hitl, cancel and export need\n"
    assert "00000000  -                cannot be read" in shown


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ALL),
        (["--failed"], WITHOUT_SCORE),
        (["--wrong"], BELOW_ONE),
        (["--failed", "--wrong"], [one for one in ALL if one not in {"sum-1", "sum-8"}]),
        (["--wrong", "--criterion", "parity"], ["sum-2"]),
        (["--grep", "CANNOT add"], ["sum-3"]),
        (["--grep", "complain"], ["sum-8"]),
        (["--grep", "wrong"], ["sum-2"]),
        (["--grep", "no such words"], []),
    ],
)
def test_episodes_are_found_by_what_became_of_them(
    certified: Console, real_run: SmallRun, options: list[str], expected: list[str]
) -> None:
    found = certified.ids(real_run.theatre.theatre_id[:6], *options)
    assert found == expected
    assert certified.ids(real_run.sealed, *options) == expected


def test_the_journal_says_what_the_bundle_says(
    real_run: SmallRun, console: Console, tmp_path: Path
) -> None:
    """As long as there is no bundle; composite and holdout are drawn when the run is settled."""
    theatre_id = real_run.theatre.theatre_id
    shutil.copytree(real_run.home, tmp_path / "home")
    sealed = console.at(tmp_path / "home").document("episodes", theatre_id)["episodes"]
    shutil.copy(real_run.home.parent / "sums.jsonl", tmp_path / "sums.jsonl")
    episode = console.document("episode", theatre_id, "sum-2")
    shutil.rmtree(tmp_path / "home" / "theatres" / theatre_id / bundle_name(theatre_id))
    unsettled = {"composite": None, "holdout": None}
    journalled = console.document("episodes", theatre_id)["episodes"]
    assert journalled == [one | unsettled for one in sealed]
    assert console.document("episode", theatre_id, "2") == episode | unsettled


def test_a_bundle_whose_records_lie_in_parts_is_read_alike(
    real_run: SmallRun, certified: Console, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(real_run.sealed, bundle)
    records = sorted((bundle / "invocations").iterdir())
    part = b"".join(record.read_bytes() for record in records)
    for record in records:
        record.unlink()
    (bundle / "invocations" / "part-00001.jsonl").write_bytes(part)
    assert certified.text("episodes", bundle, "--json") == certified.text(
        "episodes", real_run.sealed, "--json"
    )


def test_an_episode_has_its_question_its_answer_and_why(
    certified: Console, real_run: SmallRun
) -> None:
    found = certified.document("episode", real_run.theatre.theatre_id, "sum-2")
    assert found["input_data"] == {"numbers": [2, 2], "do": "wrong"}
    assert found["expected_output"] == {"sum": 4, "parity": True}
    assert found["gold_label"] == {"even": True}
    assert found["criteria"] == {
        "addition": {"score": 0, "scorer": "exact_match", "expected": 4, "answered": -1},
        "parity": {"score": 0, "scorer": "exact_match", "expected": True, "answered": None},
        "overlap": {"score": 0, "scorer": "field_match"},
    }
    assert found["record"]["calls"][0]["construct_id"] == "sums"
    shown = certified.text("episode", real_run.theatre.theatre_id, "3")
    assert "outcome   missing, error: cannot add" in shown
    assert "answer of sums, attempt 2: error" in shown
    # An id comes before a number.
    assert certified.document("episode", real_run.sealed, "#10")["episode_id"] == "sum-10"


def test_a_theatre_is_looked_into_while_it_runs(tmp_path: Path, console: Console) -> None:
    stage = pilot_stage(tmp_path, episodes(6, {2: WRONG, 3: ERROR}))
    seen: list[Any] = []

    def look(request: OracleInvocationRequest) -> JsonObject:
        if request.input_data == {"seq": 6}:
            home = console.at(stage.folder.parents[1])
            seen.append(home.ids(stage.theatre_id, "--failed", "--wrong"))
            seen.append(home.document("episode", stage.theatre_id, "pilot-2")["criteria"])
            seen.append(home.document("list")["theatres"][0]["state"])
        return answer_as_asked(request)

    stage.run(ScriptedAdapter(look), batch_size=1)
    wrong, criteria, state = seen
    assert (wrong, state) == (["pilot-2", "pilot-3"], "ACTIVE")
    assert criteria["colour"]["answered"] != criteria["colour"]["expected"]


def test_who_is_to_score_sees_nothing_that_could_lead_him(tmp_path: Path, console: Console) -> None:
    stage, _ = waiting(tmp_path, {2: WRONG, 3: ERROR})
    console.at(stage.folder.parents[1])
    listed = console.document("episodes", stage.theatre_id)
    assert (listed["withheld"], {one["scores"] for one in listed["episodes"]}) == (True, {None})
    assert [one["outcome"] for one in listed["episodes"]].count("missing") == 1
    found = console.document("episode", stage.theatre_id, "pilot-2")
    hidden = ("expected_output", "gold_label", "composite", "criteria", "ratings")
    assert {found[member] for member in hidden} == {None}
    assert "shown once people have scored" in console.text("episode", stage.theatre_id, "pilot-2")
    for options in (["--wrong"], ["--criterion", "colour"]):
        code, _, complaint = console.ask("episodes", stage.theatre_id, *options)
        assert (code, "are still to" in complaint) == (ExitCode.WRONG_STATE, True)
    # Of the second, which answered something else, only the expectation says "red".
    told = [f"pilot-{number}" for number in (1, 4, 5, 6, 7, 8)]
    assert console.ids(stage.theatre_id, "--grep", "red") == told


def test_once_people_have_scored_what_each_gave_is_shown(tmp_path: Path, console: Console) -> None:
    stage, items, finished = rated(tmp_path)
    console.at(stage.folder.parents[1])
    shown = console.text("episode", stage.theatre_id, items[2])
    assert "rated     1 by Grace (taste)\nrated     2 by Edsger (taste)\n" in shown
    assert console.text("episode", finished.bundle, items[2]) == shown
    assert console.ids(stage.theatre_id, "--wrong") == ["pilot-4"]
    assert "pilot-4" in console.ids(stage.theatre_id, "--grep", "red")


class Talkative(RuledJudge):
    """Answers as a message of the model's interface does."""

    async def ask(self, request: JsonObject) -> JsonObject:
        said = {"because": "it is the colour of the sky"}
        text = [{"type": "text", "text": json.dumps(said)}]
        return {**await super().ask(request), "body": json.dumps({"content": text})}


def judged(stage: Stage) -> Finished:
    def around(surroundings: RunContext) -> RunContext:
        return replace(surroundings, judge=Talkative())

    scorers = {**SCORERS, "told": TOLD}
    return stage.run(ScriptedAdapter(answer_as_asked), around=around, scorers=scorers)


def test_a_judge_is_quoted(tmp_path: Path, console: Console) -> None:
    finished = judged(pilot_stage(tmp_path, episodes(2), changes=CHANGES))
    shown = console.text("episode", finished.bundle, "pilot-1")
    assert 'judge on colour 1 of 2\n  {"because": "it is the colour of the sky"}\n' in shown


def test_a_judge_is_not_quoted_to_people_who_are_still_to_score(
    tmp_path: Path, console: Console
) -> None:
    stage = rated_stage(tmp_path, episodes(4), changes=CHANGES)
    assert judged(stage).theatre.state == "SETTLING"
    console.at(stage.folder.parents[1])
    assert "judgements" not in console.document("episode", stage.theatre_id, "1")["record"]
    assert console.ids(stage.theatre_id, "--grep", "colour of the sky") == []


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_the_beginning_and_says_how_to_see_all(
    tmp_path: Path, console: Console, columns: int
) -> None:
    long: JsonObject = {
        "output_data": {"colour": "blue", "list": [{"n": n, "x": "y" * 90} for n in range(30)]}
    }
    finished = pilot_stage(tmp_path, episodes(2, {2: long})).run(ScriptedAdapter(answer_as_asked))
    arguments = ("episode", finished.bundle, "pilot-2")
    cut = console.on_terminal(*arguments, columns=columns)
    assert max(map(len, cut)) <= columns
    assert [line for line in cut if line.endswith("more lines: --full")]
    whole = console.on_terminal(*arguments, "--full", columns=columns)
    assert len(whole) > len(cut)
    assert "--full" not in "\n".join(whole)
    assert "--full" not in console.text(*arguments)
    listed = console.on_terminal("episodes", finished.bundle, "--wrong", columns=columns // 2)
    assert [line.split() for line in listed if " pilot-2 " in line] == [
        ["2", "pilot-2", "scored", "1:0", "2:0"]
    ]


def test_what_cannot_be_shown_is_refused_in_a_line(
    real_run: SmallRun, certified: Console, tmp_path: Path
) -> None:
    def emptied(name: str) -> Path:
        bundle = tmp_path / Path(name).stem
        shutil.copytree(real_run.sealed, bundle)
        (bundle / name).write_text("{}\n", encoding="utf-8")
        return bundle

    cases: Mapping[tuple[str | Path, ...], tuple[ExitCode, str]] = {
        ("episodes", "ffffffff"): (ExitCode.NOT_FOUND, "ffffffff"),
        ("episodes", ""): (ExitCode.NOT_FOUND, "The theatre was not found in"),
        ("episodes", tmp_path): (ExitCode.NOT_FOUND, "expected an evidence bundle"),
        ("episode", real_run.sealed, "sum-11"): (ExitCode.NOT_FOUND, "of the 10 episodes"),
        ("episodes", real_run.sealed, "--criterion", "x"): (ExitCode.USAGE, "one of addition"),
        ("episodes", emptied("scores/per_episode.jsonl")): (ExitCode.INVALID, "'seq'"),
        ("episodes", emptied("commitment_receipt.json")): (ExitCode.INVALID, "theatre_id"),
    }
    for arguments, (expected, words) in cases.items():
        code, _, complaint = certified.ask(*arguments)
        assert (code, complaint.count("\n")) == (expected, 1), complaint
        assert words in complaint


def test_a_beginning_that_two_ids_have_is_none(
    real_run: SmallRun, console: Console, tmp_path: Path
) -> None:
    shutil.copytree(real_run.home, tmp_path / "home")
    theatres, theatre_id = tmp_path / "home" / "theatres", real_run.theatre.theatre_id
    twin = theatre_id[:-1] + ("0" if theatre_id[-1] != "0" else "1")
    shutil.copytree(theatres / theatre_id, theatres / twin)
    code, _, complaint = console.at(tmp_path / "home").ask("show", theatre_id[:8])
    assert (code, f"{theatre_id[:8]}, with which 2 begin" in complaint) == (3, True)
    assert len(console.text("list").splitlines()[2].split()[0]) == len(theatre_id)


def test_a_member_that_no_answer_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: JsonObject = {"output_data": {"color": "red", "recall": 0.5}}
    print_certificate(
        pilot_stage(tmp_path, episodes(3)).run(ScriptedAdapter(lambda _: said)).bundle
    )
    assert (
        "\nnote: colour reads colour, but answers have: color, recall\n" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("member", "seen"), [("answer", "but answers have: answer"), ("colour", "answers have: colour")]
)
def test_answers_that_are_json_as_text_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], member: str, seen: str
) -> None:
    """As those of a tool of MCP without a schema, which are read as text."""
    said: JsonObject = {"output_data": {member: '{"colour": "red", "recall": 0.5}'}}
    print_certificate(
        pilot_stage(tmp_path, episodes(3)).run(ScriptedAdapter(lambda _: said)).bundle
    )
    hint = """; they are JSON as text, which "answer": {"from": "json"} reads"""
    assert f"\nnote: colour reads colour, {seen}{hint}\n" in capsys.readouterr().out


def test_a_text_where_a_number_is_expected_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: JsonObject = {"output_data": {"colour": 7, "recall": 0.5}}
    sealed = pilot_stage(tmp_path, episodes(3)).run(ScriptedAdapter(lambda _: said))
    print_certificate(sealed.bundle)
    assert (
        "\nnote: colour reads 7 where 'red' is expected: a text never equals a number\n"
        in capsys.readouterr().out
    )
