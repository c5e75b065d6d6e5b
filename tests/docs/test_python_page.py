"""What docs/python.md and docs/ci.md show is executed, in the folder of docs/first-steps.md."""

import contextlib
import importlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import theatre
from tests.docs.test_first_steps import BLOCK
from tests.docs.test_first_steps import PAGE as FIRST_STEPS
from theatre.cli.init_command import init
from theatre.files.trust_home import TRUST_HOME

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"
PYTHON_PAGE = (DOCS / "python.md").read_text("utf-8")
CI_PAGE = (DOCS / "ci.md").read_text("utf-8")
MARKED = re.compile(
    r"<!-- (file|python|output)(?:: (\S+))? -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind, name, text in BLOCK.findall(FIRST_STEPS):
        if kind == "file":
            (tmp_path / name).write_text(text, "utf-8")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(tmp_path / "questions.py"))
    (tmp_path / "questions.csv").write_text(printed.getvalue(), "utf-8")
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^echelon init (.*)$", FIRST_STEPS, re.MULTILINE)
    assert CliRunner().invoke(init, shlex.split(command)).exit_code == 0
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(TRUST_HOME, str(tmp_path / "trust"))
    monkeypatch.delenv("ECHELON_HOME", raising=False)
    importlib.invalidate_caches()
    return tmp_path


def test_the_python_page_does_what_it_says(folder: Path) -> None:
    names: dict[str, object] = {}
    printed = ""
    for kind, name, text in MARKED.findall(PYTHON_PAGE):
        if kind == "file":
            (folder / name).write_text(text, "utf-8")
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(text, "docs/python.md", "exec"), names)  # noqa: S102 - our own page
            printed = stream.getvalue()
        else:
            assert printed == text


def test_the_python_page_lists_the_public_names() -> None:
    table = PYTHON_PAGE.partition("|---|---|\n")[2].partition("\n\n")[0]
    listed = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()))
    assert sorted(listed) == sorted(theatre.__all__)


def test_the_test_of_the_ci_page_fails_as_it_says(pytester: pytest.Pytester, folder: Path) -> None:
    blocks = {kind: (name, text) for kind, name, text in MARKED.findall(CI_PAGE)}
    name, text = blocks["file"]
    (folder / name).write_text(text, "utf-8")
    ended = pytester.runpytest_inprocess(str(folder / name), "-p", "no:cacheprovider")
    ended.assert_outcomes(failed=1)
    shown = ended.stdout.lines
    for line in blocks["output"][1].splitlines():
        assert line in shown
