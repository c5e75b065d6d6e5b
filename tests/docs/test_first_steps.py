"""Everything on docs/first-steps.md is done as it stands there, in an empty folder."""

import re
import shlex
import subprocess
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.theatre.echelon_process import ECHELON, PATIENCE_SECONDS, Answer, environment
from tests.theatre.forked_echelon import forked

PAGE = (Path(__file__).parents[2] / "docs" / "first-steps.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"<!-- (file|run|output|shown)(?:: (\S+))? -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A marked block: a file by name, commands with their exit code, or lines they print."""

    kind: str
    detail: str
    text: str


def run(commands: str, folder: Path) -> tuple[int, str]:
    """Run commands in order until one fails; return its exit code and what all printed."""
    code, printed = 0, ""
    for is_ours, lines in groupby(commands.splitlines(), lambda line: line.startswith("echelon ")):
        for part in lines if is_ours else ("\n".join(lines),):
            if code == 0:
                done = ours(part, folder) if is_ours else shell(part, folder)
                code, printed = done.code, printed + done.stdout + done.stderr
    return code, printed


def ours(command: str, folder: Path) -> Answer:
    return forked(*shlex.split(command)[1:], home=folder / ".echelon", cwd=folder)


def shell(commands: str, folder: Path) -> Answer:
    known = environment(folder / ".echelon")
    ended = subprocess.run(
        ["sh", "-eu", "-c", commands],
        cwd=folder,
        env={**known, "PATH": f"{ECHELON.parent}:{known['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return Answer(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


def test_every_step_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    blocks = [Block(*found) for found in BLOCK.findall(PAGE)]
    # Every block is marked, but for the one that installs, and the session of what follows.
    assert len(blocks) == PAGE.count("\n```") // 2 - 2
    session = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    typed = "".join(text for kind, _, text in blocks if kind == "run").splitlines()
    # The session is what is replayed here, but for the installation.
    assert len(session) == 6
    assert [line for line in typed if line in session][:5] == session[1:]
    printed, folder = "", tmp_path / "numerals"
    folder.mkdir()
    for kind, detail, text in blocks:
        if kind == "file":
            (folder / detail).write_text(text, encoding="utf-8")
        elif kind == "shown":
            assert (folder / detail).read_text(encoding="utf-8") == text
        elif kind == "run":
            code, printed = run(text, folder)
            assert code == int(detail or 0), f"{text}\n{printed}"
        else:
            lines = printed.splitlines()
            for shown in text.splitlines():
                assert any(line.startswith(shown) for line in lines), f"{shown}\n{printed}"
