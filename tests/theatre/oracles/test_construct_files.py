"""The version binds what runs: nothing else can run under it (docs/adr/0172)."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from theatre.engine.oracle_contract import Attempt, OracleAdapter, OracleInvocationRequest
from theatre.oracles import construct_files
from theatre.oracles.construct_files import ProgramSource, file_hash
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    RegisteredConstruct,
    construct_from_argv,
    construct_version,
    local_adapter_for,
)
from theatre.oracles.errors import ConstructFilesError
from theatre.oracles.served import served_adapter_for

RequestFor = Callable[..., OracleInvocationRequest]
NOW = datetime(2026, 11, 23, 2, 7, tzinfo=UTC)

HONEST = """
from theatre.construct_kit import serve_stdio

def answer(_):
    from lines import WHO
    return {"who": WHO, "from": __file__}

if __name__ == "__main__":
    serve_stdio(answer)
"""


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which private copies are made, of this test alone."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a construct of two listed files, and another program beside them."""
    pilot = tmp_path / "home" / "pilot"
    (pilot / "tools").mkdir(parents=True)
    (pilot / "main.py").write_text(HONEST)
    (pilot / "lines.py").write_text('WHO = "honest"\n')
    (pilot / "other.py").write_text(HONEST)
    (pilot / "tools" / "__init__.py").write_text("")
    (pilot / "linked.py").symlink_to(pilot / "main.py")
    (pilot.parent / "outside.py").write_text(HONEST)
    return pilot.parent


def registered(
    home: Path, argv: list[str], files: tuple[str, ...] = ("main.py", "lines.py")
) -> RegisteredConstruct:
    entry = ["[constructs.pilot]", f"argv = {json.dumps(argv)}", 'folder = "pilot"']
    lines = [*entry, f"files = {json.dumps(files)}"]
    lines += ["serves_http = true"] if "--socket" in argv else []
    (home / "constructs.toml").write_text("\n".join(lines), encoding="utf-8")
    return ConstructRegistry.load(home / "constructs.toml").find("pilot")


KIT = ["{python}", "-m", "theatre.construct_kit", "--stdio", "--folder"]
NOT_LISTED = (
    ", which is not in files; name a program of the machine as on PATH, and the running Python "
    "{python}"
)
UNBOUND = {
    "another program below the folder": (
        ["{python}", "{folder}/other.py"],
        "argv names {folder}/other.py" + NOT_LISTED,
    ),
    "relative to the folder": (["{python}", "other.py"], "argv names other.py" + NOT_LISTED),
    "by its absolute path": (
        ["{python}", "HOME/pilot/other.py"],
        "argv names HOME/pilot/other.py" + NOT_LISTED,
    ),
    "elsewhere, by a detour": (
        ["{python}", "{folder}/tools/../../outside.py"],
        "argv names {folder}/tools/../../outside.py" + NOT_LISTED,
    ),
    "as the value of an option": (
        ["{python}", "{folder}/main.py", "--with=HOME/outside.py"],
        "argv names --with=HOME/outside.py" + NOT_LISTED,
    ),
    "as the program itself": (["HOME/outside.py"], "argv names HOME/outside.py" + NOT_LISTED),
    "a folder elsewhere": (
        [*KIT, "HOME", "main:answer"],
        "argv names HOME, a folder outside HOME/pilot: what lies there is not in files",
    ),
    "the folder hidden in an argument": (
        ["{python}", "-c", "exec(open('HOME/pilot/other.py').read())"],
        "argv names exec(open('HOME/pilot/other.py').read()): write {folder} for HOME/pilot",
    ),
    "a callable of another module": (
        [*KIT, "{folder}", "other:answer"],
        "argv names the module other, but other.py is not in files",
    ),
    "a module that is run": (
        ["{python}", "-m", "tools"],
        "argv names the module tools, but tools/__init__.py is not in files",
    ),
    "a symbolic link": (
        ["{python}", "{folder}/linked.py"],
        "argv names {folder}/linked.py, a symbolic link: expected a plain file that is in files",
    ),
}


@pytest.mark.parametrize(("argv", "message"), UNBOUND.values(), ids=UNBOUND)
def test_an_argv_that_names_what_is_not_listed_is_refused_by_name(
    home: Path, argv: list[str], message: str
) -> None:
    with pytest.raises(ConstructFilesError) as raised:
        registered(home, [text.replace("HOME", str(home)) for text in argv])
    assert str(raised.value) == message.replace("HOME", str(home))


def test_a_listed_symbolic_link_is_refused_by_name(home: Path) -> None:
    message = f"expected plain files, got the symbolic link {home}/pilot/linked.py: "
    with pytest.raises(ConstructFilesError, match=message):
        registered(home, ["{python}", "{folder}/main.py"], ("main.py", "linked.py"))


LISTED = {
    "below the folder": ["{python}", "{folder}/main.py"],
    "by its absolute path": ["{python}", "HOME/pilot/main.py"],
    "by another way to the folder": ["{python}", "HOME/door/main.py"],
    "by a callable": [*KIT, "{folder}", "main:answer"],
}


@pytest.mark.parametrize("argv", LISTED.values(), ids=LISTED)
def test_what_runs_is_the_copy_that_was_hashed(
    home: Path, argv: list[str], request_for: RequestFor
) -> None:
    (home / "door").symlink_to(home / "pilot")
    construct = registered(home, [text.replace("HOME", str(home)) for text in argv])
    pin = construct_version(construct)
    adapter = local_adapter_for(construct, clock=lambda: NOW, monotonic=time.monotonic)
    assert adapter.computed_version == pin
    (home / "pilot" / "main.py").write_text(HONEST.replace("WHO,", "'liar',"))
    (home / "pilot" / "lines.py").write_text('WHO = "liar"\n')
    (attempt,) = asked(adapter, request_for(version=pin))
    output = attempt.response.output_data
    assert output is not None
    assert (attempt.reason, output["who"]) == (None, "honest")
    assert not Path(str(output["from"])).is_relative_to(home)


def test_a_served_program_runs_from_the_copy_too(home: Path, request_for: RequestFor) -> None:
    serve = ["{python}", "-m", "theatre.construct_kit", "--socket", "--folder"]
    construct = registered(home, [*serve, "{folder}", "main:answer"])
    pin = construct_version(construct)
    adapter = served_adapter_for(construct, clock=lambda: NOW, monotonic=time.monotonic)
    assert adapter.computed_version == pin
    (home / "pilot" / "lines.py").write_text('WHO = "liar"\n')
    (attempt,) = asked(adapter, request_for(version=pin))
    assert attempt.response.output_data is not None
    assert (attempt.reason, attempt.response.output_data["who"]) == (None, "honest")


def test_the_argv_of_a_template_runs_from_the_copy_too(home: Path, request_for: RequestFor) -> None:
    argv = json.dumps([sys.executable, str(home / "pilot" / "main.py"), "pilot/lines.py"])
    construct = construct_from_argv("pilot", argv, home)
    assert construct.argv == ("{python}", "{folder}/main.py", "{folder}/lines.py")
    adapter = local_adapter_for(construct, clock=lambda: NOW, monotonic=time.monotonic)
    pin = adapter.computed_version
    (home / "pilot" / "lines.py").write_text('WHO = "liar"\n')
    (attempt,) = asked(adapter, request_for(version=pin))
    assert attempt.response.output_data is not None
    assert attempt.response.output_data["who"] == "honest"


def test_the_argv_of_a_template_names_no_program_of_the_machine_by_its_path(home: Path) -> None:
    argv = json.dumps(["/bin/sh", "pilot/main.py"])
    with pytest.raises(ConstructFilesError, match="argv names /bin/sh, which is not in files"):
        construct_from_argv("pilot", argv, home)


def test_a_copy_is_the_owners_read_only_and_holds_listed_files_alone(
    home: Path, copies: Path
) -> None:
    (home / "pilot" / "main.py").chmod(0o777)
    source = ProgramSource(
        ["{folder}/main.py"], home / "pilot", ("main.py", "lines.py", "tools/*.py")
    )
    program = source.bind()
    (copy,) = copies.iterdir()
    modes = {
        path.relative_to(copy).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (copy, *copy.rglob("*"))
    }
    assert modes == {
        ".": 0o500,
        "main.py": 0o500,
        "lines.py": 0o400,
        "tools": 0o500,
        "tools/__init__.py": 0o400,
    }
    assert program.argv == (f"{copy}/main.py",)
    program.release()
    assert list(copies.iterdir()) == []


def test_a_copy_goes_with_its_adapter(home: Path, copies: Path, request_for: RequestFor) -> None:
    construct = registered(home, LISTED["below the folder"])
    adapter = local_adapter_for(construct, clock=lambda: NOW, monotonic=time.monotonic)
    asked(adapter, request_for(version=adapter.computed_version))
    assert list(copies.iterdir()) == []


HOLDS_A_COPY = """
import sys, tempfile
from pathlib import Path
from theatre.oracles.construct_files import ProgramSource
tempfile.tempdir = sys.argv[1]
program = ProgramSource(["sh"], Path(sys.argv[2]), ("main.py",)).bind()
print(program.version, flush=True)
sys.stdin.read()
"""


def test_the_copy_of_a_killed_run_goes_at_the_next_start_and_no_other(
    home: Path, copies: Path
) -> None:
    command = [sys.executable, "-c", HOLDS_A_COPY, str(copies), str(home / "pilot")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        (abandoned,) = copies.iterdir()
        source = ProgramSource(["sh"], home / "pilot", ("main.py",))
        while_it_lives = source.bind()
        assert abandoned in copies.iterdir()
        os.kill(killed.pid, signal.SIGKILL)
    after = source.bind()
    assert abandoned not in copies.iterdir()
    assert len(list(copies.iterdir())) == 2
    while_it_lives.release()
    after.release()


def test_a_large_file_is_linked_and_hashed_once(
    home: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(construct_files, "LARGE_BYTES", 20)
    hashed: list[str] = []

    def noted(path: Path) -> str:
        hashed.append(path.name)
        return original(path)

    original = file_hash
    monkeypatch.setattr("theatre.oracles.construct_files.file_hash", noted)
    source = ProgramSource(["sh"], home / "pilot", ("main.py", "lines.py"))
    first, second = source.bind(), source.bind()
    assert first.version == second.version == source.version()
    assert hashed == ["lines.py", "main.py", "lines.py", "lines.py", "main.py"]
    assert [path.samefile(home / "pilot" / "main.py") for path in copies.glob("*/main.py")] == [
        True,
        True,
    ]
    assert stat.S_IMODE((home / "pilot" / "main.py").stat().st_mode) & stat.S_IWUSR


def asked(adapter: OracleAdapter, *requests: OracleInvocationRequest) -> list[Attempt]:
    async def session() -> list[Attempt]:
        try:
            return [await adapter.invoke(request) for request in requests]
        finally:
            await adapter.aclose()

    return asyncio.run(session())
