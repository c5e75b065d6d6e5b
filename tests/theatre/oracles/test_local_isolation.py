"""What a construct's process sees of the runner, and what it may use."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.limited_process import ProcessLimits

Ask = Callable[..., list[Attempt]]
RequestFor = Callable[..., OracleInvocationRequest]


def output(attempt: Attempt) -> JsonObject:
    return cast("JsonObject", attempt.response.output_data)


SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def test_the_environment_holds_nothing_of_the_runner(
    ask: Ask, request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHELON_PLANTED_TOKEN", "do not tell")
    body = "for request in requests(): answer(request, output_data=dict(os.environ))"
    seen = output(ask(body, request_for())[0])
    folder = seen["HOME"]
    assert seen == {
        "PATH": f"{Path(sys.executable).parent}:{SEARCHED}",
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ECHELON_CONSTRUCT_VERSION": request_for().construct_version,
    }


def test_the_working_folder_is_new_empty_and_removed(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        answer(request, output_data={"cwd": os.getcwd(), "home": os.environ["HOME"],
                                     "files": os.listdir()})
        os.makedirs("left/behind")
        os.chmod("left/behind", 0)
        os.chmod("left", 0)
        sys.exit()
    """
    first, second = (output(attempt) for attempt in ask(body, request_for(1), request_for(2)))
    assert first == {"cwd": first["home"], "home": first["home"], "files": []}
    assert second == {"cwd": second["home"], "home": second["home"], "files": []}
    folders = [Path(str(seen["cwd"])) for seen in (first, second)]
    assert folders[0] != folders[1]
    assert [folder.parent for folder in folders] == [Path(tempfile.gettempdir())] * 2
    assert [folder.exists() for folder in folders] == [False, False]


def test_only_the_three_standard_descriptors_are_open(ask: Ask, request_for: RequestFor) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)  # noqa: FBT003 - takes no keyword
    body = """
    links = {n: os.readlink(f"/proc/self/fd/{n}") for n in range(64)
             if os.path.lexists(f"/proc/self/fd/{n}")}
    for request in requests():
        answer(request, output_data={"open": sorted(links)})
    """
    seen = output(ask(body, request_for())[0])
    os.close(read)
    os.close(write)
    assert seen == {"open": [0, 1, 2]}


def test_the_process_leads_a_session_of_its_own(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        answer(request, output_data={"leads": os.getsid(0) == os.getpgid(0) == os.getpid()})
    """
    assert output(ask(body, request_for())[0]) == {"leads": True}


def test_signals_that_python_ignores_are_not_ignored_in_the_program(
    ask: Ask, request_for: RequestFor
) -> None:
    argv = ["/bin/sh", "-c", "grep SigIgn /proc/self/status >&2"]
    (attempt,) = ask("", request_for(), argv=argv)
    assert attempt.stderr is not None
    ignored = int(attempt.stderr.removeprefix("SigIgn:"), 16)
    inherited = [s for s in (signal.SIGPIPE, signal.SIGXFSZ) if ignored & 1 << (s - 1)]
    assert inherited == []


def test_memory_beyond_the_limit_cannot_be_had(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        block = bytearray(request["input_data"]["mb"] * 1024 * 1024)
        answer(request, output_data={"mb": len(block) >> 20})
    """
    requests = [request_for(1, input_data={"mb": 100}), request_for(2, input_data={"mb": 300})]
    modest, greedy = ask(body, *requests, limits=ProcessLimits(memory_mb=256))
    assert output(modest) == {"mb": 100}
    assert (greedy.response.status, greedy.reason) == (InvocationStatus.ERROR, "crashed")
    assert greedy.response.error_detail == (
        "expected an answer line, got the end of the process: exit code 1"
    )
    assert greedy.stderr is not None
    assert greedy.stderr.endswith("MemoryError\n")


BURN = """
def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass

for request in requests():
    burn(request["input_data"]["seconds"])
    answer(request)
"""


def test_the_cpu_limit_counts_each_call_for_itself(ask: Ask, request_for: RequestFor) -> None:
    # Together more than any one call may use, the first with the interpreter's start.
    requests = [request_for(seq, input_data={"seconds": 0.4}) for seq in range(1, 7)]
    attempts = ask(BURN, *requests, limits=ProcessLimits(cpu_seconds=1))
    assert [attempt.reason for attempt in attempts] == [None] * 6


def test_the_limit_is_set_by_the_clock_that_it_is_counted_by(
    ask: Ask, request_for: RequestFor
) -> None:
    """On a busy machine the exact time falls behind the counted one, call by call."""
    body = """
    import resource
    for request in requests():
        counted = time.clock_gettime(~os.getpid() << 3)
        answer(request, output_data={"room": resource.getrlimit(resource.RLIMIT_CPU)[0] - counted})
        start = time.process_time()
        while time.process_time() - start < 0.3:
            pass
    """
    attempts = ask(body, *map(request_for, range(1, 4)), limits=ProcessLimits(cpu_seconds=2))
    assert all(cast("float", output(attempt)["room"]) > 2 for attempt in attempts)


def test_a_call_beyond_the_cpu_limit_is_ended(ask: Ask, request_for: RequestFor) -> None:
    requests = [request_for(input_data={"seconds": 1000})]
    (attempt,) = ask(BURN, *requests, limits=ProcessLimits(cpu_seconds=1))
    assert (attempt.response.status, attempt.reason) == (InvocationStatus.ERROR, "crashed")
    assert attempt.response.error_detail == (
        "expected an answer line, got the end of the process: "
        "SIGXCPU (it used more than 1 s of CPU time in one call)"
    )


def test_open_files_beyond_the_limit_cannot_be_had(ask: Ask, request_for: RequestFor) -> None:
    body = """
    def open_many():
        files = []
        try:
            while True: files.append(open("/dev/null"))
        except OSError as error:
            return len(files), error.strerror
    for request in requests():
        answer(request, output_data={"got": open_many()})
    """
    attempts = ask(body, request_for(), limits=ProcessLimits(open_files=32))
    assert output(attempts[0]) == {"got": [29, "Too many open files"]}
