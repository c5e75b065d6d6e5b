"""A construct that serves HTTP and is started by the runner: how it is asked, and when it dies."""

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest

from tests.theatre.oracles.loopback import honest, serving
from tests.theatre.oracles.served_scripts import VERSION, served_adapter
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.served import ServedOracleAdapter

pytestmark = pytest.mark.usefixtures("unisolated")

RequestFor = Callable[..., OracleInvocationRequest]
WriteScript = Callable[[str], Path]
T = TypeVar("T")

ECHOES = """
serve(lambda request: envelope(request))
"""
NAMES_ITSELF = """
serve(lambda request: envelope(request, output_data={"pid": os.getpid(), "port": PORT}))
"""
# Answers but for the second call, in which it dies.
DIES_AT_THE_SECOND = """
def respond(request):
    if request["input_data"]["seq"] == 2:
        print("farewell", flush=True)
        print("cruel world", file=sys.stderr, flush=True)
        os._exit(3)
    return envelope(request, output_data={"pid": os.getpid(), "port": PORT})
serve(respond)
"""
LAST_WORDS = "farewell\ncruel world\n[the program ended: exit code 3]\n"


def note(starts: Path) -> str:
    """Return code that notes a start in a file."""
    return f"with open({str(starts)!r}, 'a') as file: file.write('start\\n')\n"


def output(attempt: Attempt) -> JsonObject:
    return cast("JsonObject", attempt.response.output_data)


def outcomes(attempts: list[Attempt]) -> list[tuple[str, str | None]]:
    return [(attempt.response.status.value, attempt.reason) for attempt in attempts]


def session(adapter: ServedOracleAdapter, work: Callable[[ServedOracleAdapter], Awaitable[T]]) -> T:
    async def run() -> T:
        try:
            return await work(adapter)
        finally:
            await adapter.aclose()

    return asyncio.run(run())


def ask(adapter: ServedOracleAdapter, *requests: OracleInvocationRequest) -> list[Attempt]:
    """Put requests to a construct one after the other, and close."""

    async def work(adapter: ServedOracleAdapter) -> list[Attempt]:
        return [await adapter.invoke(request) for request in requests]

    return session(adapter, work)


def ask_at_once(adapter: ServedOracleAdapter, *requests: OracleInvocationRequest) -> list[Attempt]:
    """Put requests to a construct at the same time, and close."""

    async def work(adapter: ServedOracleAdapter) -> list[Attempt]:
        return await asyncio.gather(*(adapter.invoke(request) for request in requests))

    return session(adapter, work)


def start_problem(adapter: ServedOracleAdapter) -> str:
    """Return what a start says that must fail."""

    async def work(adapter: ServedOracleAdapter) -> str:
        with pytest.raises(ConstructUnreachableError) as caught:
            await adapter.check_reachable()
        return str(caught.value)

    return session(adapter, work)


def test_many_calls_are_answered_by_one_process(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    attempts = ask(served_adapter(write_script, NAMES_ITSELF), *map(request_for, range(1, 51)))
    assert outcomes(attempts) == [("success", None)] * 50
    assert [output(attempt) for attempt in attempts] == [output(attempts[0])] * 50


def test_sixteen_calls_are_under_way_at_once(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    body = """
    all_here = threading.Barrier(16)
    def respond(request):
        all_here.wait()
        return envelope(request)
    serve(respond)
    """
    attempts = ask_at_once(served_adapter(write_script, body), *map(request_for, range(16)))
    assert [output(attempt) for attempt in attempts] == [{"echo": {"seq": n}} for n in range(16)]


def test_a_program_that_is_started_beforehand_takes_the_first_call(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"

    async def work(adapter: ServedOracleAdapter) -> Attempt:
        await adapter.check_reachable()
        await adapter.check_reachable()
        return await adapter.invoke(request_for())

    attempt = session(served_adapter(write_script, note(starts) + ECHOES), work)
    assert outcomes([attempt]) == [("success", None)]
    assert starts.read_text() == "start\n"


def test_what_it_prints_does_not_stop_it(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    body = """
    def respond(request):
        for stream in (sys.stdout, sys.stderr):
            stream.write("x" * 2_000_000)
            stream.flush()
        return envelope(request)
    serve(respond)
    """
    attempts = ask(served_adapter(write_script, body), request_for(1), request_for(2))
    assert outcomes(attempts) == [("success", None)] * 2
    assert [attempt.stderr for attempt in attempts] == [None, None]


def test_the_call_that_met_its_death_is_recorded_and_the_next_one_starts_it_again(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    adapter = served_adapter(write_script, DIES_AT_THE_SECOND)
    first, second, third = ask(adapter, *map(request_for, (1, 2, 3)))
    assert outcomes([first, second, third]) == [
        ("success", None),
        ("error", "disconnected"),
        ("success", None),
    ]
    assert (first.stderr, second.stderr, third.stderr) == (None, LAST_WORDS, None)
    assert second.response.error_detail == (
        f"expected an answer from http://127.0.0.1:{output(first)['port']}, "
        "got: the end of the connection"
    )
    assert output(first)["pid"] != output(third)["pid"]


def test_all_calls_that_met_its_death_have_its_last_words_and_it_starts_once_more(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    body = """
all_here = threading.Barrier(4)
def respond(request):
    if request["input_data"]["seq"] < 4:
        all_here.wait()
        os._exit(3)
    return envelope(request)
serve(respond)
"""

    async def work(adapter: ServedOracleAdapter) -> list[Attempt]:
        doomed = [adapter.invoke(request_for(seq)) for seq in range(4)]
        attempts = await asyncio.gather(*doomed)
        after = await asyncio.gather(*(adapter.invoke(request_for(seq)) for seq in range(4, 8)))
        return [*attempts, *after]

    attempts = session(served_adapter(write_script, note(starts) + body), work)
    assert outcomes(attempts) == [("error", "disconnected")] * 4 + [("success", None)] * 4
    words = "[the program ended: exit code 3]\n"
    assert [attempt.stderr for attempt in attempts] == [words] * 4 + [None] * 4
    assert starts.read_text() == "start\n" * 2


def test_a_death_that_takes_its_time_is_waited_for(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    # As on a busy machine: the first thread is dead, the sockets are closed, the last thread lives.
    body = """
    import ctypes
    dies = threading.Event()
    def respond(request):
        if request["input_data"]["seq"] == 2:
            dies.set()
            while "Z" not in open("/proc/self/stat").read().rpartition(")")[2]: time.sleep(0.01)
            os.closerange(3, 1024)
            time.sleep(1.5)
            os._exit(3)
        return envelope(request)
    threading.Thread(target=serve, args=[respond]).start()
    dies.wait()
    ctypes.CDLL(None).pthread_exit(None)
    """
    attempts = ask(served_adapter(write_script, body), *map(request_for, (1, 2, 3)))
    assert outcomes(attempts) == [("success", None), ("error", "disconnected"), ("success", None)]
    assert attempts[1].stderr == "[the program ended: exit code 3]\n"


def test_a_lost_connection_is_no_death_while_the_program_listens(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    body = """
def respond(request):
    if request["input_data"]["seq"] == 2: raise ConnectionAbortedError
    return envelope(request)
serve(respond)
"""
    adapter = served_adapter(write_script, note(starts) + body)
    attempts = ask(adapter, *map(request_for, (1, 2, 3)))
    assert outcomes(attempts) == [("success", None), ("error", "disconnected"), ("success", None)]
    assert starts.read_text() == "start\n"


def test_a_death_between_two_calls_costs_neither_though_the_port_is_lost(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    async def work(adapter: ServedOracleAdapter) -> list[Attempt]:
        first = await adapter.invoke(request_for(1))
        pid = cast("int", output(first)["pid"])
        death = os.pidfd_open(pid)
        os.kill(pid, 9)
        await asyncio.to_thread(os.waitid, os.P_PIDFD, death, os.WEXITED | os.WNOWAIT)
        os.close(death)
        with serving(honest, port=cast("int", output(first)["port"])):
            return [first, await adapter.invoke(request_for(2))]

    first, second = session(served_adapter(write_script, NAMES_ITSELF), work)
    assert outcomes([first, second]) == [("success", None)] * 2
    assert output(first)["port"] != output(second)["port"]
    assert output(first)["pid"] != output(second)["pid"]


ENDS_AT_ONCE = """
print("reading my settings")
sys.exit("no settings here")
"""


def test_a_program_that_ends_at_once_is_unreachable_and_says_why(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    problem = start_problem(served_adapter(write_script, ENDS_AT_ONCE))
    wanted, _, printed = problem.partition("\n")
    assert wanted.startswith(f"expected ['{sys.executable}', '")
    assert wanted.endswith(", got its end; it printed:")
    assert " to serve 127.0.0.1:" in wanted
    assert printed == ("reading my settings\nno settings here\n[the program ended: exit code 1]")
    (attempt,) = ask(served_adapter(write_script, ENDS_AT_ONCE), request_for())
    assert outcomes([attempt]) == [("error", "unreachable")]
    assert (attempt.response.error_detail or "").endswith(printed)


def test_a_port_that_never_opens_is_given_up(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    argv = ["/bin/sh", "-c", "echo warming up; exec sleep 1000 # {port}"]
    adapter = served_adapter(write_script, argv=argv, start_seconds=1.5)
    (attempt,) = ask(adapter, request_for())
    assert outcomes([attempt]) == [("error", "unreachable")]
    assert (attempt.response.error_detail or "").endswith(
        " within 1.5 s, got no connection; it printed:\nwarming up"
    )


def test_a_program_that_cannot_be_executed_is_unreachable(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    argv = ["/nowhere/at/all", "{port}"]
    problem = start_problem(served_adapter(write_script, argv=argv))
    assert problem.startswith("expected to start ['/nowhere/at/all', '")
    assert problem.endswith("No such file or directory")
    (attempt,) = ask(served_adapter(write_script, argv=argv), request_for())
    assert outcomes([attempt]) == [("error", "unreachable")]


def test_a_first_start_whose_port_somebody_was_quicker_to_take_gets_another(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    wanted, taken = tmp_path / "wanted", tmp_path / "taken"
    for pipe in (wanted, taken):
        os.mkfifo(pipe)
    body = f"""
if os.path.exists({str(wanted)!r}):
    open({str(wanted)!r}, "w").write(str(PORT))
    open({str(taken)!r}).read()
    sys.exit("another has it")
"""

    async def work(adapter: ServedOracleAdapter) -> tuple[int, Attempt]:
        call = asyncio.create_task(adapter.invoke(request_for()))
        port = int(await asyncio.to_thread(wanted.read_text))
        wanted.unlink()
        # Bound, and nobody listens: the adapter must not take this for its program.
        with socket.socket() as thief:
            thief.bind(("127.0.0.1", port))
            await asyncio.to_thread(taken.write_text, "")
            return port, await call

    lost, attempt = session(served_adapter(write_script, body + NAMES_ITSELF), work)
    assert outcomes([attempt]) == [("success", None)]
    assert output(attempt)["port"] != lost


def test_calls_that_wait_for_a_start_share_its_failure(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    adapter = served_adapter(write_script, note(starts) + ENDS_AT_ONCE)
    attempts = ask_at_once(adapter, *map(request_for, range(8)))
    assert outcomes(attempts) == [("error", "unreachable")] * 8
    assert starts.read_text() == "start\n"


def test_a_program_that_failed_to_start_is_tried_again_by_the_next_call(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    body = f"if not os.path.exists({str(ready)!r}): sys.exit(1)"

    async def work(adapter: ServedOracleAdapter) -> list[Attempt]:
        first = await adapter.invoke(request_for(1))
        ready.touch()
        return [first, await adapter.invoke(request_for(2))]

    attempts = session(served_adapter(write_script, body + ECHOES), work)
    assert outcomes(attempts) == [("error", "unreachable"), ("success", None)]


def test_the_start_is_no_part_of_the_time_of_a_call(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    adapter = served_adapter(write_script, "time.sleep(3.2)" + ECHOES)
    (attempt,) = ask(adapter, request_for(timeout_seconds=3.0))
    assert outcomes([attempt]) == [("success", None)]


def test_a_timeout_ends_the_call_and_not_the_program(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    body = """
    def respond(request):
        if request["input_data"]["seq"] == 2: threading.Event().wait()
        return envelope(request, output_data={"pid": os.getpid()})
    serve(respond)
    """
    requests = [request_for(1), request_for(2, timeout_seconds=0.2), request_for(3)]
    first, second, third = ask(served_adapter(write_script, body), *requests)
    assert outcomes([first, second, third]) == [
        ("success", None),
        ("timeout", "timeout"),
        ("success", None),
    ]
    assert output(first) == output(third)


def test_an_edit_between_two_starts_is_a_version_mismatch_whatever_the_construct_echoes(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    body = f"""
    def respond(request):
        with open({str(heard)!r}, "a") as file: file.write(request["episode_id"] + "\\n")
        if request["input_data"]["seq"] == 2: os._exit(0)
        return envelope(request, construct_version=request["construct_version"])
    serve(respond)
    """
    adapter = served_adapter(write_script, body, versions=(VERSION, "0dd" * 3))
    assert adapter.computed_version == VERSION
    attempts = ask(adapter, *map(request_for, (1, 2, 3)))
    assert outcomes(attempts) == [
        ("success", None),
        ("error", "disconnected"),
        ("error", "version-mismatch"),
    ]
    assert attempts[2].response.construct_version == "0dd0dd0dd"
    assert attempts[2].response.error_detail == (
        f"expected construct_version {VERSION} (pinned), got 0dd0dd0dd (computed)"
    )
    assert adapter.computed_version == "0dd0dd0dd"
    assert heard.read_text() == "episode-1\nepisode-2\n"


def test_the_environment_holds_its_version_and_nothing_of_the_runner_but_path(
    write_script: WriteScript, request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHELON_PLANTED_TOKEN", "do not tell")
    body = """
    seen = {**os.environ, "cwd": os.getcwd(), "files": os.listdir()}
    serve(lambda request: envelope(request, output_data=seen))
    """
    (attempt,) = ask(served_adapter(write_script, body), request_for())
    folder = output(attempt)["HOME"]
    assert output(attempt) == {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MALLOC_ARENA_MAX": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ECHELON_CONSTRUCT_VERSION": VERSION,
        "cwd": folder,
        "files": [],
    }
    assert not Path(cast("str", folder)).exists()


def test_the_program_runs_under_its_limits(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    body = """
    import resource
    limits = [resource.getrlimit(kind)[0] for kind in
              (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)]
    serve(lambda request: envelope(request, output_data={"limits": limits}))
    """
    limits = ProcessLimits(memory_mb=256, open_files=64)
    (attempt,) = ask(served_adapter(write_script, body, limits=limits), request_for())
    assert output(attempt) == {"limits": [256 * 1024 * 1024, 64, 0]}
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64, "or this proves nothing"


def test_a_construct_that_answers_nonsense_is_an_error_with_what_it_sent(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    adapter = served_adapter(write_script, "serve(lambda request: [])")
    (attempt,) = ask(adapter, request_for())
    assert (attempt.response.status, attempt.reason, attempt.raw) == (
        InvocationStatus.ERROR,
        "not-envelope",
        "[]",
    )
