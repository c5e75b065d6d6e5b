"""Isolation, tried: a thief takes nothing, an honest construct works, and the canary says which."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.echelon_process import REPOSITORY
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import (
    NOT_ISOLATED,
    REMOTE,
    Attempt,
    Isolation,
    OracleInvocationRequest,
    weakest_isolation,
)
from theatre.oracles.construct_registry import ConstructRegistry, local_adapter_for
from theatre.oracles.isolation import allowed_paths
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.kernel_rules import landlock_abi
from theatre.oracles.isolation.means import PYTHON_ALONE, REFUSED, Reach, bubblewrap
from theatre.oracles.served import served_adapter_for

RequestFor = Callable[..., OracleInvocationRequest]

ROBBED = Path(__file__).with_name("robbed_run.py")
SECRET = "the-answer-is-42"  # noqa: S105 - of a run that is made to be robbed
MEANS = {"namespaces": "", "landlock": "namespaces"}
"""Means → what has to be refused for it to be taken."""
NO_MEANS = "namespaces,landlock,other-user"
OPEN_TO_ALL = {
    *("store", "journal", "trail", "dataset", "copy of another", "folder of another"),
    *("ground truth", "templates", "registry", "write journal", "write dataset", "write store"),
    *("tcp", "udp", "unix", "datagram", "abstract", "kill", "limit"),
}
"""What the thief takes where nothing isolates, whoever runs it."""
OPEN_TO_ROOT = {"environ", "mem", "vm", "cwd", "fd", "root", "passwords", "capabilities"}
"""What it takes besides from a run of root's: ordinary users are stopped by `close_memory`."""
TRANSPORTS = ("stdin", "served", "callable")

AS_IT_IS = "whoever runs the tests"
# Root's interpreter may lie where no other user comes. In a namespace of its own it has another
# name and no capability, to the kernel an ordinary user with files of its own; or it is root, and
# hands every capability on to the programs that it starts.
USERS = {
    AS_IT_IS: (),
    "ordinary user": ("--uid", "1000", "--gid", "1000"),
    "root with all": ("--uid", "0", "--gid", "0", "--cap-add", "ALL"),
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing isolates elsewhere")


def needs(means: str) -> None:
    """Skip where this machine has no such means at all."""
    if means == "namespaces" and bubblewrap() is None:
        pytest.skip("bubblewrap is not installed")
    if means == "landlock" and not landlock_abi():
        pytest.skip("the kernel has no Landlock")


def robbed(folder: Path, transport: str, refused: str, *, user: str = AS_IT_IS) -> dict[str, Any]:
    """Let a thief loose on a run of its own process; return what it took."""
    command = [sys.executable, str(ROBBED), str(folder), transport]
    if apart := USERS[user]:
        command = [str(bubblewrap()), "--unshare-user", *apart, "--dev-bind", "/", "/", *command]
    folder.mkdir()
    environment = {**os.environ, REFUSED: refused, "SECRET_OF_THE_RUN": SECRET}
    environment |= {"PYTHONPATH": str(REPOSITORY), "PATH": f"{os.environ['PATH']}:/{SECRET}"}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("means", MEANS)
def test_a_thief_takes_nothing(tmp_path: Path, means: str, transport: str, user: str) -> None:
    needs(means)
    if USERS[user]:
        needs("namespaces")
    assert robbed(tmp_path / "run", transport, MEANS[means], user=user) == {
        "taken": [],
        "tried": {"files": True, "processes": True, "network": True, "by": means},
        "heard": False,
        "changed": False,
    }


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_same_thief_takes_everything_where_nothing_isolates(
    tmp_path: Path, transport: str
) -> None:
    found = robbed(tmp_path / "run", transport, NO_MEANS)
    assert found["tried"] == NOT_ISOLATED.as_document()
    open_here = OPEN_TO_ALL | OPEN_TO_ROOT if os.geteuid() == 0 else OPEN_TO_ALL
    assert open_here - set(found["taken"]) == set()
    assert found["heard"] is True


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_memory_is_closed_to_the_construct_by_what_starts_it(
    tmp_path: Path, transport: str
) -> None:
    needs("namespaces")
    found = robbed(tmp_path / "run", transport, NO_MEANS, user="ordinary user")
    assert found["tried"] == NOT_ISOLATED.as_document()
    # The files of the namespace's owner, root's where root runs the tests, are this user's.
    assert set(found["taken"]) & OPEN_TO_ROOT <= {"passwords"}


@pytest.mark.parametrize("means", MEANS)
def test_a_network_that_the_operator_allows_is_open_and_said(tmp_path: Path, means: str) -> None:
    needs(means)
    assert robbed(tmp_path / "run", "networked", MEANS[means]) == {
        "taken": ["tcp", "udp"],
        "tried": {"files": True, "processes": True, "network": False, "by": means},
        "heard": True,
        "changed": False,
    }


HONEST = """
import json, os, socket, subprocess, sys, tempfile, threading
import numpy

def work():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/note", "w") as file:
            file.write("written")
    found = []
    thread = threading.Thread(target=found.append, args=(int(numpy.arange(5).sum()),))
    thread.start(); thread.join()
    child = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
    ours, theirs = socket.socketpair()
    ours.send(b"pair")
    return {"thread": found, "child": child.stdout, "pair": theirs.recv(4).decode(),
            "version": sys.version, "prefix": sys.prefix}

for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({
        "invocation_id": asked["invocation_id"], "construct_id": asked["construct_id"],
        "construct_version": os.environ["ECHELON_CONSTRUCT_VERSION"], "status": "success",
        "output_data": work()}), flush=True)
"""
REGISTRY = """
[constructs.pilot]
argv = ["{python}", "{folder}/honest.py"]
folder = "."
files = ["honest.py"]
"""


@pytest.mark.parametrize("means", MEANS)
def test_an_honest_construct_has_its_packages_threads_children_and_temporary_files(
    tmp_path: Path, means: str, request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(means)
    monkeypatch.setenv(REFUSED, MEANS[means])
    (tmp_path / "honest.py").write_text(HONEST)
    (tmp_path / "constructs.toml").write_text(REGISTRY)
    construct = ConstructRegistry.load(tmp_path / "constructs.toml").find("pilot")

    async def session() -> Attempt:
        adapter = local_adapter_for(
            construct, clock=lambda: datetime.now(UTC), monotonic=time.monotonic
        )
        try:
            return await adapter.invoke(
                request_for(version=adapter.computed_version, timeout_seconds=120)
            )
        finally:
            await adapter.aclose()

    attempt = asyncio.run(session())
    assert (attempt.response.output_data, attempt.stderr) == (
        {
            "thread": [10],
            "child": "42\n",
            "pair": "pair",
            "version": sys.version,
            "prefix": sys.prefix,
        },
        None,
    )


def test_the_canary_opens_what_is_open_and_names_no_means_that_held_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REFUSED, NO_MEANS)
    assert probe_isolation([tmp_path], PYTHON_ALONE) == NOT_ISOLATED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("means", MEANS)
def test_the_canary_gets_out_through_a_place_that_programs_can_read(
    tmp_path: Path, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(means)
    monkeypatch.setenv(REFUSED, MEANS[means])
    # As with a store that somebody put among the libraries of the machine.
    monkeypatch.setattr(allowed_paths, "SYSTEM", (*allowed_paths.SYSTEM, tmp_path))
    assert probe_isolation([tmp_path / "store"], PYTHON_ALONE) == Isolation(
        files=False, processes=True, network=True, by="none"
    )


PROGRAM = """
[constructs.{name}]
argv = ["{name}", "{{folder}}/honest.py"]
folder = "."
files = ["honest.py"]
{more}
"""


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("more", ["", "serves_http = true"], ids=["stdin", "served"])
def test_the_canary_sees_what_lies_round_the_program_of_a_construct(
    tmp_path: Path, more: str, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(means)
    monkeypatch.setenv(REFUSED, MEANS[means])
    for folder in ("among_data/bin", "among_data/data", "apart/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "honest.py").touch()

    async def tried(name: str) -> JsonObject:
        program = tmp_path / name / "bin" / name
        program.touch(mode=0o755)
        monkeypatch.setenv("PATH", str(program.parent))
        registry = tmp_path / "constructs.toml"
        registry.write_text(PROGRAM.format(name=name, more=more))
        open_adapter = served_adapter_for if more else local_adapter_for
        adapter = open_adapter(
            ConstructRegistry.load(registry).find(name),
            clock=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
        )
        try:
            found = await adapter.probe_isolation([tmp_path / "among_data" / "data"])
            return found.as_document()
        finally:
            await adapter.aclose()

    closed = {"files": True, "processes": True, "network": True, "by": means}
    assert asyncio.run(tried("apart")) == closed
    assert asyncio.run(tried("among_data")) == closed | {"files": False, "by": "none"}


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(
    "place", ["lib/python3.12/site-packages", "local/lib/python3/dist-packages"]
)
def test_ground_truth_that_another_interpreter_has_installed_is_hidden(
    tmp_path: Path, place: str, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(means)
    monkeypatch.setenv(REFUSED, MEANS[means])
    program = tmp_path / "bin" / "python"
    answers = tmp_path / place / "theatre" / "_resources" / "fixtures" / "ground_truth"
    for folder in (program.parent, answers):
        folder.mkdir(parents=True)
    program.touch(mode=0o755)
    assert probe_isolation([answers], Reach(program=str(program))).files


def test_the_construct_kit_imports_nothing_of_the_project_that_is_not_allowed() -> None:
    script = (
        "import json, sys; sys.argv = ['kit'];"
        "import theatre.construct_kit.__main__;"
        "print(json.dumps([m.__file__ for n, m in sys.modules.items()"
        " if n.split('.')[0] in ('theatre', 'backend')]))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    imported = [Path(file) for file in json.loads(ended.stdout)]
    allowed = allowed_paths.KIT
    assert [one for one in imported if not any(map(one.is_relative_to, allowed))] == []
    assert [one for one in allowed if not any(file.is_relative_to(one) for file in imported)] == []


def test_what_is_hidden_in_an_allowed_folder_is_on_no_list(tmp_path: Path) -> None:
    for name in ("site/package/_resources/gold", "site/package/code", "site/other", "bin"):
        (tmp_path / name).mkdir(parents=True)
    paths = allowed_paths.AllowedPaths(
        reading=(tmp_path, tmp_path / "site" / "package" / "code"),
        hidden=(tmp_path / "site" / "package",),
    )
    kit = tmp_path / "site" / "package" / "code"
    assert paths.visible() == (
        (tmp_path / "bin", tmp_path / "site" / "other", kit),
        (tmp_path, tmp_path / "site"),
    )
    assert paths.mounts() == [tmp_path, tmp_path / "site" / "package", kit]


FAST = Isolation(files=True, processes=True, network=True, by="namespaces")


def test_a_chain_is_isolated_as_its_weakest_construct_is() -> None:
    half = Isolation(files=True, processes=False, network=True, by="other-user")
    assert weakest_isolation([FAST]) == FAST
    assert weakest_isolation([FAST, REMOTE]) == Isolation(
        files=True, processes=True, network=False, by="namespaces"
    )
    assert weakest_isolation([FAST, half, REMOTE]) == Isolation(
        files=True, processes=False, network=False, by="other-user"
    )
    assert (FAST.holds, REMOTE.holds, half.holds) == (True, True, False)
