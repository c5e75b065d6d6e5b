"""`constructs.toml`: what it may say, and what a construct's version is."""

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    RegisteredConstruct,
    RemoteConstruct,
    construct_from_argv,
    construct_version,
    local_adapter_for,
    read_accepted_templates,
)
from theatre.oracles.errors import (
    ConstructFilesError,
    ConstructRegistryError,
    ConstructTransportError,
    UnknownConstructError,
)
from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.served import served_adapter_for

RequestFor = Callable[..., OracleInvocationRequest]

NOW = datetime(2026, 11, 21, 2, 7, tzinfo=UTC)

MINIMAL = """
[constructs.pilot]
argv = ["{python}", "{folder}/main.py"]
folder = "pilot"
files = ["*.py"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a construct of three files, of which two are Python."""
    pilot = tmp_path / "pilot"
    (pilot / "rules").mkdir(parents=True)
    (pilot / "main.py").write_text("import rules\n")
    (pilot / "rules" / "first rule.py").write_text("RULE = 2\n")
    (pilot / "notes.txt").write_text("unrelated\n")
    return tmp_path


def load(home: Path, text: str) -> ConstructRegistry:
    (home / "constructs.toml").write_text(text, encoding="utf-8")
    return ConstructRegistry.load(home / "constructs.toml")


def test_a_minimal_entry_gets_the_default_limits(home: Path) -> None:
    assert load(home, MINIMAL).find("pilot") == RegisteredConstruct(
        construct_id="pilot",
        argv=("{python}", "{folder}/main.py"),
        folder=home / "pilot",
        files=("*.py",),
        author=None,
        limits=ProcessLimits(memory_mb=2048, cpu_seconds=None, open_files=None),
    )


def test_a_full_entry_is_read_whole(home: Path) -> None:
    text = """
    [constructs.pilot]
    argv = ["serve", "--rules={folder}/rules"]
    folder = "pilot"
    files = ["main.py", "rules/*.py"]
    author = "The Pilot Works"
    memory_mb = 512
    cpu_seconds = 10
    open_files = 64
    """
    assert load(home, text).find("pilot") == RegisteredConstruct(
        construct_id="pilot",
        argv=("serve", "--rules={folder}/rules"),
        folder=home / "pilot",
        files=("main.py", "rules/*.py"),
        author="The Pilot Works",
        limits=ProcessLimits(memory_mb=512, cpu_seconds=10, open_files=64),
    )


REMOTE = """
[constructs.observer]
url = "https://construct.example/invoke"
"""


def test_a_construct_may_be_registered_by_its_url(home: Path) -> None:
    full = 'headers_env = {Authorization = "OBSERVER_TOKEN"}\nauthor = "A. Author"\n'
    registry = load(home, MINIMAL + REMOTE + full)
    assert registry.find_registered("observer") == RemoteConstruct(
        construct_id="observer",
        url="https://construct.example/invoke",
        headers_env={"Authorization": "OBSERVER_TOKEN"},
        author="A. Author",
    )
    assert registry.find("pilot") == registry.find_registered("pilot")


def test_a_minimal_remote_entry_has_no_headers(home: Path) -> None:
    assert load(home, REMOTE).find_registered("observer") == RemoteConstruct(
        construct_id="observer", url="https://construct.example/invoke"
    )


SERVED = """
[constructs.service]
argv = ["{python}", "{folder}/main.py", "--port={port}"]
folder = "pilot"
files = ["*.py"]
serves_http = true
network = true
"""
HANDED = SERVED.replace(', "--port={port}"', "").replace("network = true\n", "")


def test_a_program_with_a_port_in_its_argv_serves_http(home: Path) -> None:
    assert load(home, SERVED).find("service") == RegisteredConstruct(
        construct_id="service",
        argv=("{python}", "{folder}/main.py", "--port={port}"),
        folder=home / "pilot",
        files=("*.py",),
        start_seconds=10.0,
        network=True,
    )


def test_a_program_that_is_handed_its_socket_serves_http_without_a_network(home: Path) -> None:
    assert load(home, HANDED).find("service") == RegisteredConstruct(
        construct_id="service",
        argv=("{python}", "{folder}/main.py"),
        folder=home / "pilot",
        files=("*.py",),
        start_seconds=10.0,
        network=False,
    )


@pytest.mark.parametrize(("written", "seconds"), [("60", 60.0), ("0.5", 0.5)])
def test_a_program_that_serves_http_may_take_longer_to_start(
    home: Path, written: str, seconds: float
) -> None:
    registry = load(home, f"{SERVED}start_seconds = {written}\n")
    assert registry.find("service").start_seconds == seconds


def test_a_construct_is_reached_in_the_way_it_is_registered(home: Path) -> None:
    registry = load(home, MINIMAL + SERVED + REMOTE)
    with pytest.raises(ConstructTransportError, match="got one with a url: its adapter is http"):
        registry.find("observer")
    with pytest.raises(
        ConstructTransportError, match=r"got one that serves HTTP: its adapter is http"
    ):
        local_adapter_for(registry.find("service"), clock=lambda: NOW, monotonic=time.monotonic)
    with pytest.raises(
        ConstructTransportError, match="got one that speaks on stdin: its adapter is local"
    ):
        served_adapter_for(registry.find("pilot"), clock=lambda: NOW, monotonic=time.monotonic)
    with pytest.raises(UnknownConstructError, match=r"registered: observer, pilot, service"):
        registry.find_registered("pirate")


def test_an_unknown_construct_is_named_with_the_known_ones(home: Path) -> None:
    message = r"The construct is not registered: 'pirate' \(registered: pilot\)"
    with pytest.raises(UnknownConstructError, match=message):
        load(home, MINIMAL).find("pirate")


WRONG = {
    "not TOML": ("constructs = [", "expected TOML"),
    "empty": ("", "constructs: Field required"),
    "unknown table": (MINIMAL + "[other]\n", "other: Extra inputs are not permitted"),
    "unknown key": (MINIMAL + "memory = 5\n", "constructs.pilot.memory: Extra inputs"),
    "no argv": ("[constructs.p]\nfolder='.'\nfiles=['*']", "constructs.p.argv: Field required"),
    "argv as text": (
        MINIMAL.replace('["{python}", "{folder}/main.py"]', '"python main.py"'),
        "constructs.pilot.argv: Input should be a valid list, got 'python main.py'",
    ),
    "empty argv": (MINIMAL.replace('["{python}", "{folder}/main.py"]', "[]"), "at least 1 item"),
    "number in argv": (MINIMAL.replace('"{python}"', "3"), "argv.0: Input should be a valid str"),
    "no files": (MINIMAL.replace('["*.py"]', "[]"), "files: List should have at least 1 item"),
    "memory as text": (MINIMAL + 'memory_mb = "9"\n', "memory_mb: Input should be a valid int"),
    "memory as boolean": (MINIMAL + "memory_mb = true\n", "memory_mb: Input should be a valid"),
    "no memory": (MINIMAL + "memory_mb = 0\n", "memory_mb: Input should be greater than"),
    "no CPU time": (MINIMAL + "cpu_seconds = 0\n", "cpu_seconds: Input should be greater than"),
    "no open files": (MINIMAL + "open_files = -1\n", "open_files: Input should be greater"),
    "CPU time of a call of many": (
        SERVED + "cpu_seconds = 5\n",
        r"constructs.service.cpu_seconds: expected none for a program that serves HTTP, got 5",
    ),
    "time to start of one without a port": (
        MINIMAL + "start_seconds = 5\n",
        r"constructs.pilot.start_seconds: expected it only with serves_http, got 5",
    ),
    "a port without a network": (
        SERVED.replace("network = true", ""),
        r"constructs.service: expected serves_http = true and network = true for a program",
    ),
    "a port of a program on stdin": (
        SERVED.replace("serves_http = true", ""),
        r"constructs.service: expected serves_http = true and network = true for a program",
    ),
    "no time to start": (SERVED + "start_seconds = 0\n", "start_seconds: Input should be greater"),
    "endless time to start": (SERVED + "start_seconds = inf\n", "should be a finite number"),
    "no table": ("[constructs]\np = 3", "constructs.p: Input should be a valid dict"),
    "url and argv": (
        REMOTE + 'argv = ["python"]\n',
        "constructs.observer.argv: Extra inputs are not permitted",
    ),
    "empty url": ("[constructs.p]\nurl = ''", "constructs.p.url: String should have at least 1"),
    "header without variable": (
        REMOTE + "headers_env = {Authorization = 3}\n",
        "constructs.observer.headers_env.Authorization: Input should be a valid string, got 3",
    ),
    "missing folder": (MINIMAL.replace('"pilot"', '"plot"'), "expected a folder, got .*/plot"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_mistaken_registry_is_refused_with_the_place(home: Path, text: str, message: str) -> None:
    with pytest.raises(ConstructRegistryError, match=message):
        load(home, text)


def test_a_missing_registry_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConstructRegistryError, match=r"nowhere\.toml, got: No such file"):
        ConstructRegistry.load(tmp_path / "nowhere.toml")


WRONG_FILES = {
    "no match": ("*.rb", r"expected files that match '\*\.rb' in .*, got none"),
    "a folder alone": ("rules", "expected files that match 'rules'"),
    "parent": ("../*.py", r"expected a pattern for files below .*, got '\.\./\*\.py'"),
    "absolute": ("/etc/passwd", "expected a pattern for files below .*, got '/etc/passwd'"),
    "everything": ("**", r"expected a pattern for files below .*, got '\*\*'"),
    "empty": ("", "expected a pattern for files below .*, got ''"),
    "linked file": ("linked.py", "expected plain files, got the symbolic link .*/linked.py"),
    "linked folder": ("linked/*.py", "expected plain files, got the symbolic link .*/linked:"),
    "dangling link": ("dangl*", "expected plain files, got the symbolic link"),
    "line break": ("odd/*", "expected a file name in printable Unicode, got 'odd/a.nb'"),
}


@pytest.mark.parametrize(("pattern", "message"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_files_that_are_not_the_constructs_own_are_refused(
    home: Path, pattern: str, message: str
) -> None:
    (home / "outside.py").write_text("")
    (home / "pilot" / "linked.py").symlink_to(home / "outside.py")
    (home / "pilot" / "dangling.py").symlink_to(home / "nowhere.py")
    (home / "pilot" / "linked").symlink_to(home / "pilot" / "rules")
    (home / "pilot" / "odd").mkdir()
    (home / "pilot" / "odd" / "a\nb").write_text("")
    with pytest.raises(ConstructFilesError, match=message):
        load(home, MINIMAL.replace("*.py", pattern))


def plain_version(argv: list[str], files: dict[str, bytes]) -> str:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    text = json.dumps({"argv": argv, "files": hashes}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


PILOT_ARGV = ["{python}", "{folder}/main.py"]


def test_a_version_is_the_hash_of_argv_as_written_and_of_every_listed_file(home: Path) -> None:
    construct = load(home, MINIMAL.replace("*.py", "**/*.py")).find("pilot")
    files = {"main.py": b"import rules\n", "rules/first rule.py": b"RULE = 2\n"}
    assert construct_version(construct) == plain_version(PILOT_ARGV, files)
    with_option = load(home, MINIMAL.replace('main.py"]', 'main.py", "-v"]')).find("pilot")
    assert construct_version(with_option) == plain_version(
        [*PILOT_ARGV, "-v"], {"main.py": b"import rules\n"}
    )


def test_a_version_does_not_depend_on_where_the_folder_lies(home: Path, tmp_path: Path) -> None:
    before = construct_version(load(home, MINIMAL).find("pilot"))
    moved = tmp_path / "moved"
    moved.mkdir()
    (home / "pilot").rename(moved / "pilot")
    assert construct_version(load(moved, MINIMAL).find("pilot")) == before


def test_a_version_follows_listed_files_and_nothing_else(home: Path) -> None:
    construct = load(home, MINIMAL).find("pilot")
    before = construct_version(construct)
    (home / "pilot" / "notes.txt").write_text("changed\n")
    os.utime(home / "pilot" / "main.py", (0, 0))
    assert construct_version(construct) == before
    (home / "pilot" / "added.py").write_text("")
    with_file = construct_version(construct)
    (home / "pilot" / "added.py").rename(home / "pilot" / "renamed.py")
    renamed = construct_version(construct)
    (home / "pilot" / "main.py").write_text("import rules \n")
    changed = construct_version(construct)
    assert len({before, with_file, renamed, changed}) == 4


def test_files_matched_twice_count_once(home: Path) -> None:
    once = load(home, MINIMAL).find("pilot")
    twice = load(home, MINIMAL.replace('["*.py"]', '["*.py", "main.*"]')).find("pilot")
    assert construct_version(twice) == construct_version(once)


def test_an_argv_may_stand_in_for_an_entry(home: Path) -> None:
    registered = load(home, MINIMAL).find("pilot")
    spellings = [
        ["{python}", "pilot/main.py"],
        ["{python}", "{folder}/pilot/../pilot/main.py"],
        [sys.executable, str(home / "pilot" / "main.py")],
    ]
    constructs = [construct_from_argv("pilot", json.dumps(argv), home) for argv in spellings]
    expected = RegisteredConstruct(
        construct_id="pilot",
        argv=("{python}", "{folder}/main.py"),
        folder=home / "pilot",
        files=("main.py",),
    )
    assert constructs == [expected] * 3
    assert construct_version(expected) == construct_version(registered)


def test_the_version_of_an_argv_covers_each_file_that_it_names(home: Path) -> None:
    (home / "serve").write_text("#!/bin/sh\n")
    argv = ["./serve", "pilot/main.py", "--fast", "missing.txt", "pilot", "x" * 5000, "a\0b"]
    assert construct_from_argv("pilot", json.dumps(argv), home) == RegisteredConstruct(
        construct_id="pilot",
        argv=("{folder}/serve", "{folder}/pilot/main.py", *argv[2:]),
        folder=home,
        files=("pilot/main.py", "serve"),
    )


def test_an_argv_outside_the_folder_has_the_same_version(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    argv = json.dumps(["python3", str(home / "pilot" / "main.py")])
    inside = construct_from_argv("pilot", argv, home)
    outside = construct_from_argv("pilot", argv, elsewhere)
    assert outside == inside


def test_a_file_named_like_a_pattern_is_meant_literally(home: Path) -> None:
    (home / "[ab].py").write_text("one")
    (home / "a.py").write_text("other")
    construct = construct_from_argv("pilot", '["python3", "[ab].py"]', home)
    written = ["python3", "{folder}/[ab].py"]
    assert construct_version(construct) == plain_version(written, {"[ab].py": b"one"})


WRONG_ARGV = {
    "a command line": "python3 main.py",
    "text": '"python3 main.py"',
    "an object": '{"argv": ["python3"]}',
    "empty": "[]",
    "a number": '["python3", 3]',
    "deep": "[" * 100_000,
    "no file": '["python3", "-m", "pilot"]',
    "a program of the machine": '["/bin/sh"]',
    "the running Python": '["{python}"]',
}


@pytest.mark.parametrize("argv", WRONG_ARGV.values(), ids=WRONG_ARGV.keys())
def test_an_argv_without_a_file_to_pin_is_refused(home: Path, argv: str) -> None:
    with pytest.raises(ConstructRegistryError, match=r"expected an argv (as a JSON|that names)"):
        construct_from_argv("pilot", argv, home)


def test_an_argv_that_asks_for_a_port_is_refused(home: Path) -> None:
    with pytest.raises(ConstructRegistryError, match=r"speaks on stdin, got \{port\} in"):
        construct_from_argv("pilot", '["{python}", "pilot/main.py", "{port}"]', home)


def test_the_running_python_is_no_file_of_a_construct_wherever_it_is_installed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(home / "pilot" / "notes.txt"))
    construct = construct_from_argv("pilot", '["{python}", "pilot/main.py"]', home)
    assert construct.files == ("main.py",)


ANSWERS_ONCE = """
import json, os, sys
request = json.loads(sys.stdin.readline())
ids = {key: request[key] for key in ("invocation_id", "construct_id", "construct_version")}
print(json.dumps({**ids, "status": "success", "output_data": {}}))
"""


def test_an_edit_between_two_starts_is_a_version_mismatch_whatever_the_construct_echoes(
    home: Path, request_for: RequestFor
) -> None:
    main = home / "pilot" / "main.py"
    main.write_text(ANSWERS_ONCE)
    construct = load(home, MINIMAL).find("pilot")
    pin = construct_version(construct)

    versions: list[str] = []

    async def session() -> list[Attempt]:
        adapter = local_adapter_for(construct, clock=lambda: NOW, monotonic=time.monotonic)
        versions.append(adapter.computed_version)
        attempts = [await adapter.invoke(request_for(1, version=pin))]
        main.write_text(ANSWERS_ONCE + "# edited\n")
        versions.append(adapter.computed_version)
        attempts.append(await adapter.invoke(request_for(2, version=pin)))
        versions.append(adapter.computed_version)
        await adapter.aclose()
        return attempts

    first, second = asyncio.run(session())
    version = plain_version(PILOT_ARGV, {"main.py": (ANSWERS_ONCE + "# edited\n").encode()})
    assert versions == [pin, pin, version]
    assert (first.response.status, first.reason) == (InvocationStatus.SUCCESS, None)
    assert (second.response.status, second.reason) == (InvocationStatus.ERROR, "version-mismatch")
    assert second.response.construct_version == version
    assert second.response.error_detail == (
        f"expected construct_version {pin} (pinned), got {version} (computed)"
    )


def test_a_construct_whose_files_are_gone_is_unreachable(
    home: Path, request_for: RequestFor
) -> None:
    construct = load(home, MINIMAL).find("pilot")
    (home / "pilot" / "main.py").unlink()

    async def session() -> Attempt:
        adapter = local_adapter_for(construct, clock=lambda: NOW, monotonic=time.monotonic)
        attempt = await adapter.invoke(request_for())
        await adapter.aclose()
        return attempt

    attempt = asyncio.run(session())
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "unreachable")
    assert attempt.response.error_detail == (
        f"expected files that match '*.py' in {home / 'pilot'}, got none"
    )


def test_an_operator_lists_the_templates_whose_certificates_count(tmp_path: Path) -> None:
    path = tmp_path / "constructs.toml"
    path.write_text(f'[constructs]\n[accepted_templates]\nsums = "{"ab" * 32}"\n')
    assert read_accepted_templates(path) == {"sums": "ab" * 32}
    path.write_text("[constructs]\n")
    assert read_accepted_templates(path) == {}
    path.write_text('[constructs]\n[accepted_templates]\nsums = "product_sums_v1"\n')
    with pytest.raises(
        ConstructRegistryError, match=r"accepted_templates\.sums: expected a SHA-256"
    ):
        read_accepted_templates(path)
