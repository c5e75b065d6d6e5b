"""From `module:name` to a version and a callable: the hash is that of the source that runs."""

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from tests.theatre.construct_kit.kit_process import (
    KIT,
    PATIENCE_SECONDS,
    WriteModule,
    encoded,
    environment,
    http_service,
    kit,
    question,
    talk,
    version_of,
)
from theatre.oracles.construct_registry import construct_version
from theatre.oracles.in_process import construct_from_callable

ANSWER = "def answer(_):\n    return {'n': 1}\n"


def reported_version(folder: Path, target: str = "pilot:answer") -> str:
    """Return the version that a server reports which was told none."""
    (document,) = talk(folder, b"not an envelope", target=target, version=None).answers
    return str(document["construct_version"])


def computed_version(folder: Path, target: str = "pilot:answer") -> str:
    """Return the version that an engine computes without importing the module."""
    return construct_version(construct_from_callable("pilot", target, folder))


def test_the_version_of_a_module_is_the_hash_of_its_file_on_both_sides(
    write_module: WriteModule,
) -> None:
    folder = write_module(ANSWER)
    write_module("unrelated = True", "co_pilot.py")
    expected = version_of(folder, "pilot.py")
    assert [computed_version(folder), reported_version(folder), reported_version(folder)] == [
        expected,
        expected,
        expected,
    ]


@pytest.mark.parametrize("target", ["pilot:answer", "pilot.deep.module:answer"])
def test_the_version_of_a_package_is_the_hash_of_all_its_source_on_both_sides(
    write_module: WriteModule, target: str
) -> None:
    names = [f"pilot/{name}.py" for name in ("__init__", "other", "deep/__init__", "deep/module")]
    for name in names:
        write_module(ANSWER, name)
    folder = write_module("data", "pilot/data.txt")
    write_module("unrelated = True", "co_pilot.py")
    expected = version_of(folder, *names, target=target)
    assert [computed_version(folder, target), reported_version(folder, target)] == [
        expected,
        expected,
    ]


def test_a_folder_without_init_is_a_package_too(write_module: WriteModule) -> None:
    folder = write_module(ANSWER, "pilot/main.py")
    expected = version_of(folder, "pilot/main.py", target="pilot.main:answer")
    assert [
        computed_version(folder, "pilot.main:answer"),
        reported_version(folder, "pilot.main:answer"),
    ] == [expected, expected]


def test_a_program_of_its_own_has_the_hash_of_its_file(write_module: WriteModule) -> None:
    folder = write_module("from theatre.construct_kit import serve_stdio\n" + ANSWER, "main.py")
    with (folder / "main.py").open("a") as file:
        file.write("if __name__ == '__main__':\n    serve_stdio(answer)\n")
    ended = subprocess.run(
        [KIT[0], folder / "main.py"],
        input=b"not an envelope\n",
        env=environment(None),
        capture_output=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert version_of(folder, "main.py", target="main:answer").encode() in ended.stdout


def test_one_byte_makes_another_version(write_module: WriteModule) -> None:
    folder = write_module(ANSWER)
    before = [computed_version(folder), reported_version(folder)]
    write_module(ANSWER.replace("1", "2"))
    after = [computed_version(folder), reported_version(folder)]
    assert len(set(before)) == len(set(after)) == 1
    assert before != after


def test_a_given_version_is_reported(write_module: WriteModule) -> None:
    with http_service(
        write_module(ANSWER), options=["--version", "abcdef0"], version="e" * 40
    ) as service:
        health = service.ask(b"", method="GET", path="/healthz")
    assert health.document["construct_version"] == "abcdef0"


def test_a_doctored_compilation_beside_the_source_is_not_looked_at(
    write_module: WriteModule,
) -> None:
    main = "from pilot.rules import RULE\ndef answer(_): return {'n': RULE}"
    folder = write_module(main, "pilot/main.py")
    rules = write_module("RULE = 1\n", "pilot/rules.py") / "pilot" / "rules.py"
    before = rules.stat()
    rules.write_text("RULE = 2\n", encoding="utf-8")
    os.utime(rules, ns=(before.st_atime_ns, before.st_mtime_ns))
    py_compile.compile(str(rules), doraise=True)
    rules.write_text("RULE = 1\n", encoding="utf-8")
    os.utime(rules, ns=(before.st_atime_ns, before.st_mtime_ns))

    plainly = subprocess.run(
        [sys.executable, "-c", "import pilot.rules; print(pilot.rules.RULE)"],
        cwd=folder,
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
    )
    said = talk(folder, encoded(question()), target="pilot.main:answer")
    assert plainly.stdout == "2\n", "the doctored compilation deceives nobody"
    assert said.answers[0]["output_data"] == {"n": 1}


def test_a_module_imports_what_lies_beside_it(write_module: WriteModule) -> None:
    folder = write_module("from rules import RULE\ndef answer(_): return {'n': RULE}")
    write_module("RULE = 5", "rules.py")
    assert talk(folder, encoded(question())).answers[0]["output_data"] == {"n": 5}


def test_any_object_that_can_be_called_will_do(write_module: WriteModule) -> None:
    folder = write_module(
        """
        class Counter:
            def __init__(self): self.calls = 0
            async def __call__(self, input_data):
                self.calls += 1
                return {"calls": self.calls}
        answer = Counter()
        """
    )
    said = talk(folder, *[encoded(question())] * 2)
    assert [document["output_data"] for document in said.answers] == [{"calls": 1}, {"calls": 2}]


ANOTHER = "expected module {module} in {folder}, got another of that name ("

NOT_FOUND = {
    "no such module": ("absent:answer", "expected module absent in {folder}, got none"),
    "no such submodule": ("pilot.no:answer", "expected module pilot.no in {folder}, got none"),
    "no such name": ("pilot:absent", "expected a callable absent in pilot, got NoneType"),
    "not callable": ("pilot:NUMBER", "expected a callable NUMBER in pilot, got int"),
    "no name": ("pilot", "expected module:name, got 'pilot'"),
    "a path": ("../pilot.py:answer", "expected module:name, got '../pilot.py:answer'"),
    "Python's own": ("json:dumps", ANOTHER.replace("{module}", "json")),
    "built in": ("math:floor", ANOTHER.replace("{module}", "math")),
}
BROKEN = {
    "raising": ("broken:answer", "got ZeroDivisionError: division by zero"),
    "garbled": ("garbled:answer", "got SyntaxError: invalid syntax"),
    "in want of another": ("needy:answer", "got ModuleNotFoundError: No module named 'nobody'"),
}


@pytest.fixture(scope="module")
def unusable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unusable")
    (folder / "pilot.py").write_text(ANSWER + "NUMBER = 5\n")
    (folder / "math.py").write_text(ANSWER)
    (folder / "json.py").write_text(ANSWER)
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "garbled.py").write_text("def\n")
    (folder / "needy.py").write_text("import nobody\n")
    return folder


@pytest.mark.parametrize(("target", "message"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_is_not_there_is_said_and_ends_the_server(
    unusable: Path, target: str, message: str
) -> None:
    ended = kit(unusable, "--stdio", target=target)
    assert (ended.returncode, ended.stdout) == (1, "")
    expected = f"error (callable-not-found): {message.format(folder=unusable)}"
    assert ended.stderr.startswith(expected)


@pytest.mark.parametrize(("target", "words"), BROKEN.values(), ids=BROKEN)
def test_a_module_that_cannot_be_imported_ends_the_server_with_its_traceback(
    unusable: Path, target: str, words: str
) -> None:
    ended = kit(unusable, "--stdio", target=target)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Traceback (most recent call last):\n")
    module = target.partition(":")[0]
    expected = f"error (callable-broken): expected to import {module}, {words}"
    assert ended.stderr.splitlines()[-1] == expected


def test_a_version_that_no_pin_can_name_ends_the_server(unusable: Path) -> None:
    ended = kit(unusable, "--stdio", "--version", "v1")
    assert ended.returncode == 1
    assert ended.stderr == (
        "error (construct-version-invalid): expected a construct version of 7 to 64 hex digits, "
        "as a pin has, got 'v1'\n"
    )


@pytest.mark.parametrize("options", [[], ["--stdio", "--port", "0"], ["--port", "http"]])
def test_exactly_one_transport_is_asked_for(unusable: Path, options: list[str]) -> None:
    assert kit(unusable, *options).returncode == 2
