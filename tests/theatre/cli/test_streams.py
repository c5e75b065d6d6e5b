"""What goes to stdout, what to stderr, and what happens where one of them is odd."""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.theatre.echelon_process import (
    CARTOGRAPH,
    ECHELON,
    PATIENCE_SECONDS,
    Answer,
    echelon,
    environment,
)
from theatre.files.theatre_store import FileTheatreStore

TITLE = "product_cartograph_v1"
PLAIN_LINE = re.compile(
    rf"{TITLE} [█░]{{24}} (\d+)/240 │ success \d+ timeout 0 error \d+ refused 0 │ "
    r"p50 (?:-|\d+ ms) │ ETA (?:-|\d+:\d\d)"
)
FIRST_FAILED = "first failed cartograph-0002: not implemented"
NO_ID = "00000000-0000-4000-8000-000000000000"

# Takes from root the right to ignore file modes, so that a read-only folder is one for root too.
UNPRIVILEGED = (
    "import ctypes, os, sys;"
    "ctypes.CDLL(None).prctl(24, 1, 0, 0, 0);"  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with one resolved theatre, and its id. Copy it before writing into it."""
    home = tmp_path_factory.mktemp("resolved")
    run = echelon("theatre", "run", CARTOGRAPH, "--quiet", "--json", home=home)
    assert (run.code, run.stderr) == (0, "")
    return home, run.document["theatre_id"]


@contextmanager
def closed_reader() -> Iterator[int]:
    """The writing end of a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def on_streams(
    *arguments: str | Path,
    home: Path,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    more: Mapping[str, str] | None = None,
) -> Answer:
    """Run `echelon` with the given stdout or stderr; what is not given is captured."""
    ended = subprocess.run(
        [ECHELON, *arguments],
        env=environment(home, more=more),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        check=False,
        timeout=PATIENCE_SECONDS,
        encoding="utf-8",
    )
    return Answer(code=ended.returncode, stdout=ended.stdout or "", stderr=ended.stderr or "")


def test_results_go_to_stdout_and_progress_to_stderr(tmp_path: Path) -> None:
    answer = echelon("theatre", "run", CARTOGRAPH, home=tmp_path)
    assert answer.code == 0
    assert answer.stdout.startswith("certificate  ")
    assert TITLE + " " not in answer.stdout
    logged, *progress = answer.stderr.splitlines()
    assert logged.startswith("logged       entry ")
    matched = [PLAIN_LINE.fullmatch(line) for line in progress]
    said = [line for line, match in zip(progress, matched, strict=True) if match is None]
    assert said == [FIRST_FAILED]
    done = [match[1] for match in matched if match]
    assert (done[0], done[-1]) == ("0", "240")


@contextmanager
def terminal(columns: int) -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        yield master, slave
    finally:
        os.close(master)


def read_to_the_end(master: int) -> str:
    """Everything that was written to a terminal whose last writer has gone."""
    data = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            return data.decode("utf-8")
        if not chunk:
            return data.decode("utf-8")
        data += chunk


def on_terminal(
    *arguments: str | Path, home: Path, columns: int = 80, stream: str = "stderr"
) -> tuple[int, str, str]:
    """Run `echelon` with one stream on a terminal; return code, that stream, the other one."""
    with terminal(columns) as (master, slave):
        with subprocess.Popen(
            [ECHELON, *arguments],
            env=environment(home, more={"TERM": "xterm"}),
            stdin=subprocess.DEVNULL,
            stdout=slave if stream == "stdout" else subprocess.PIPE,
            stderr=slave if stream == "stderr" else subprocess.PIPE,
        ) as process:
            os.close(slave)
            seen = read_to_the_end(master)
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        other = out if stream == "stderr" else err
        return process.returncode, seen, other.decode("utf-8")


@pytest.mark.parametrize("columns", [200, 80, 40])
def test_on_a_terminal_progress_is_one_line_drawn_over_and_over(
    tmp_path: Path, columns: int
) -> None:
    code, seen, stdout = on_terminal(
        "theatre", "run", CARTOGRAPH, "--json", home=tmp_path, columns=columns
    )
    assert (code, json.loads(stdout)["state"]) == (0, "RESOLVED")
    start, logged, *drawn, last = seen.split("\r\x1b[2K")
    assert start == ""
    assert re.fullmatch(r"logged       entry \d+ of \S+\r\n", logged)
    # What is said stays above the line that is drawn over.
    assert [line for line in drawn if line.endswith("\r\n")] == [f"{FIRST_FAILED}\r\n"]
    assert last.endswith("\r\n")
    lines = [line for line in [*drawn, last.removesuffix("\r\n")] if not line.endswith("\r\n")]
    assert len(lines) >= 2  # how often depends on the clock
    assert not [line for line in lines if "\n" in line or len(line) >= columns]
    assert "0/240" in lines[0]
    assert "240/240" in lines[-1]
    assert lines[-1].startswith(TITLE) == (columns == 200)
    if columns >= 80:
        assert "success 120" in lines[-1]
        assert lines[-1].endswith("ETA 0:00")


def test_on_a_terminal_tables_are_plain_text_and_brackets_are_no_markup(tmp_path: Path) -> None:
    expertise = tmp_path / "expertise.yaml"
    expertise.write_text(
        'domains:\n  - {name: "[/bold]", review: "[red]\\e[2J", verified: {tier: PROVEN}}\n',
        encoding="utf-8",
    )
    code, seen, stderr = on_terminal("gate", expertise, home=tmp_path, columns=200, stream="stdout")
    assert (code, stderr) == (0, "")
    header, rule, row = re.sub(r"\x1b\[\d+m", "", seen).splitlines()[:3]
    assert re.split(r"  +", header)[:3] == ["domain", "tier", "declared"]
    assert set(rule) == {"-", " "}
    assert re.split(r"  +", row)[:3] == ["[/bold]", "PROVEN", "[red]?[2J"]


def test_a_pipe_that_is_closed_early_gives_no_traceback(resolved: tuple[Path, str]) -> None:
    home, theatre_id = resolved
    commands: list[tuple[str | Path, ...]] = [
        ("theatre", "show", theatre_id),
        ("theatre", "show", theatre_id, "--json"),
        ("theatre", "show", NO_ID, "--json"),
        ("theatre", "validate", CARTOGRAPH),
        ("--help",),
    ]
    for command in commands:
        with closed_reader() as writer:
            answer = on_streams(*command, home=home, stdout=writer)
        assert answer.code in {1, 3}, command
        assert answer.stderr == "", command


def test_head_takes_one_byte_and_nobody_complains(resolved: tuple[Path, str]) -> None:
    home, theatre_id = resolved
    pipeline = subprocess.run(
        ["sh", "-c", '"$0" theatre show "$1" | head -c 1', ECHELON, theatre_id],
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (pipeline.returncode, pipeline.stdout, pipeline.stderr) == (0, b"c", b"")


def test_a_run_goes_on_where_nobody_reads_its_progress_any_more(tmp_path: Path) -> None:
    with closed_reader() as writer:
        answer = on_streams("theatre", "run", CARTOGRAPH, "--json", home=tmp_path, stderr=writer)
    assert (answer.code, answer.document["outcome"]) == (0, "certified")


def test_streams_that_the_caller_closed_are_no_obstacle(resolved: tuple[Path, str]) -> None:
    home, theatre_id = resolved
    script = '"$0" theatre show "$1" >&- 2>&-; echo $?; "$0" theatre show "$2" >&- 2>&-; echo $?'
    shell = subprocess.run(
        ["sh", "-c", script, ECHELON, theatre_id, NO_ID],
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (shell.stdout, shell.stderr) == (b"0\n3\n", b"")


def test_a_full_disk_behind_stdout_is_a_failure_with_a_reason(resolved: tuple[Path, str]) -> None:
    home, theatre_id = resolved
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        # As for most callers: Python holds back what it prints, and tries again at its end.
        buffered = {"PYTHONUNBUFFERED": ""}
        text = on_streams(
            "theatre", "show", theatre_id, home=home, stdout=full.fileno(), more=buffered
        )
        document = on_streams("theatre", "show", NO_ID, "--json", home=home, stdout=full.fileno())
    assert (text.code, document.code) == (1, 3)
    assert text.stderr.startswith("error (system): ")
    assert "No space left on device; free some space and run the same" in text.stderr
    assert "Traceback" not in text.stderr + document.stderr
    assert "Exception ignored" not in text.stderr + document.stderr


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_a_terminal_without_unicode_gets_escapes_not_an_error(
    resolved: tuple[Path, str], encoding: str
) -> None:
    home, theatre_id = resolved
    more = {"PYTHONIOENCODING": encoding}
    answer = on_streams("theatre", "show", theatre_id, home=home, more=more)
    assert (answer.code, answer.stderr) == (0, "")
    document = on_streams("theatre", "hash", "𝄞.json", "--json", home=home, more=more).document
    assert "𝄞.json" in document["error"]["message"]


def unprivileged(*arguments: str | Path, home: Path) -> Answer:
    ended = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, ECHELON, *arguments],
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        encoding="utf-8",
    )
    return Answer(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


@pytest.fixture
def read_only(resolved: tuple[Path, str], tmp_path: Path) -> Iterator[Path]:
    home = shutil.copytree(resolved[0], tmp_path / "home")
    folders = [home, home / "theatres", home / "theatres" / resolved[1]]
    (folders[-1] / "lock").chmod(0o400)
    for folder in folders:
        folder.chmod(0o500)
    yield home
    for folder in folders:
        folder.chmod(0o700)


def test_a_store_that_is_read_only_can_be_read(read_only: Path, resolved: tuple[Path, str]) -> None:
    shown = unprivileged("theatre", "show", resolved[1], "--json", home=read_only)
    assert (shown.code, shown.document["state"], shown.stderr) == (0, "RESOLVED", "")


def test_a_store_that_is_read_only_refuses_to_be_written_with_one_message(
    read_only: Path, resolved: tuple[Path, str]
) -> None:
    for arguments in (("commit", CARTOGRAPH), ("run", CARTOGRAPH), ("run", resolved[1])):
        answer = unprivileged("theatre", *arguments, "--json", home=read_only)
        assert (answer.code, answer.document["error"]["code"]) == (1, "system")
        assert "Permission denied" in answer.document["error"]["message"]
        assert "Traceback" not in answer.stderr
    assert FileTheatreStore(read_only).theatre_ids() == [resolved[1]]


def test_a_home_below_a_file_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    answer = echelon("theatre", "commit", CARTOGRAPH, "--json", home=tmp_path / "file" / "home")
    assert (answer.code, answer.document["error"]["code"]) == (1, "system")
    assert "Not a directory" in answer.document["error"]["message"]
