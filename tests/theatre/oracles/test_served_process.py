"""Nothing of a served construct stays behind, and its port is its own."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.oracles.loopback import honest, serving
from tests.theatre.oracles.served_scripts import SERVING, served_adapter
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.errors import AdapterClosedError, ConstructUnreachableError
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.served_process import ClaimedPort, ServedProcess, claim_port

pytestmark = pytest.mark.usefixtures("unisolated")

RequestFor = Callable[..., OracleInvocationRequest]
WriteScript = Callable[[str], Path]
IsGone = Callable[[int], bool]

NAMES_ITSELF = """
serve(lambda request: envelope(request, output_data={"pids": [os.getpid()]}))
"""
# `sleep` in a session of its own, started by a child that ends at once: nobody's child any more.
DAEMON = """
def daemon():
    script = "sleep 1000 <&- >&- 2>&- & echo $!"
    command = ["setsid", "/bin/sh", "-c", script]
    return int(subprocess.run(command, stdout=subprocess.PIPE).stdout)
"""
HAS_A_DAEMON = (
    DAEMON
    + """
def respond(request):
    if request["input_data"]["seq"] == 2: os._exit(1)
    return envelope(request, output_data={"pids": [os.getpid(), daemon()]})
serve(respond)
"""
)
FORKS_BEFORE_IT_FAILS = (
    DAEMON
    + """
with open(NOTE, "w") as file: file.write(str(daemon()))
sys.exit("no")
"""
)


def pids(attempt: Attempt) -> list[int]:
    output = cast("JsonObject", attempt.response.output_data)
    return cast("list[int]", output["pids"])


def test_closing_ends_the_program_and_its_daemon(
    write_script: WriteScript, request_for: RequestFor, is_gone: IsGone
) -> None:
    async def session() -> list[int]:
        adapter = served_adapter(write_script, HAS_A_DAEMON)
        attempt = await adapter.invoke(request_for(1))
        await adapter.aclose()
        return pids(attempt)

    assert [is_gone(pid) for pid in asyncio.run(session())] == [True, True]


def test_a_daemon_that_outlived_the_program_is_ended_with_it(
    write_script: WriteScript, request_for: RequestFor, is_gone: IsGone
) -> None:
    async def session() -> tuple[list[bool], list[int]]:
        adapter = served_adapter(write_script, HAS_A_DAEMON)
        first = await adapter.invoke(request_for(1))
        await adapter.invoke(request_for(2))
        ended = [is_gone(pid) for pid in pids(first)]
        third = await adapter.invoke(request_for(3))
        await adapter.aclose()
        return ended, pids(third)

    ended, later = asyncio.run(session())
    assert ended == [True, True]
    assert [is_gone(pid) for pid in later] == [True, True]


def test_a_failed_start_leaves_nothing(
    write_script: WriteScript, request_for: RequestFor, is_gone: IsGone, tmp_path: Path
) -> None:
    note = tmp_path / "pid"

    async def session() -> Attempt:
        adapter = served_adapter(write_script, f"NOTE = {str(note)!r}\n{FORKS_BEFORE_IT_FAILS}")
        attempt = await adapter.invoke(request_for())
        ended.append(is_gone(int(note.read_text())))
        await adapter.aclose()
        return attempt

    ended: list[bool] = []
    assert asyncio.run(session()).reason == "unreachable"
    assert ended == [True]


def test_a_program_may_end_by_itself_when_it_is_closed(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    body = f"""
    def leave(*_):
        open({str(tmp_path / "farewell")!r}, "w").close()
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    serve(lambda request: envelope(request))
    """

    async def session() -> None:
        adapter = served_adapter(write_script, body)
        await adapter.invoke(request_for())
        await adapter.aclose()

    asyncio.run(session())
    assert (tmp_path / "farewell").exists()


def test_a_program_that_ignores_the_request_to_end_is_killed(
    write_script: WriteScript, request_for: RequestFor, is_gone: IsGone
) -> None:
    async def session() -> list[int]:
        body = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" + NAMES_ITSELF
        adapter = served_adapter(write_script, body)
        attempt = await adapter.invoke(request_for())
        await adapter.aclose()
        return pids(attempt)

    assert [is_gone(pid) for pid in asyncio.run(session())] == [True]


def test_a_closed_adapter_closes_again_and_takes_no_call(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    async def session() -> None:
        adapter = served_adapter(write_script, NAMES_ITSELF)
        await adapter.invoke(request_for())
        await adapter.aclose()
        await adapter.aclose()
        with pytest.raises(AdapterClosedError, match="The adapter is closed"):
            await adapter.invoke(request_for())
        with pytest.raises(AdapterClosedError, match="The adapter is closed"):
            await adapter.check_reachable()

    asyncio.run(session())


def test_an_adapter_that_was_never_used_closes() -> None:
    async def session() -> None:
        await served_adapter(lambda _: Path("nowhere"), NAMES_ITSELF).aclose()

    asyncio.run(session())


def test_closing_ends_a_call_that_is_under_way(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    body = f"""
    def respond(request):
        open({str(asked)!r}, "w").close()
        threading.Event().wait()
    serve(respond)
    """

    async def session() -> Attempt:
        adapter = served_adapter(write_script, body)
        call = asyncio.create_task(adapter.invoke(request_for()))
        await asyncio.to_thread(asked.read_bytes)
        await adapter.aclose()
        return await call

    attempt = asyncio.run(session())
    assert (attempt.response.status.value, attempt.reason) == ("error", "disconnected")


def test_a_call_cancelled_while_the_program_starts_leaves_none(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)

    async def session() -> None:
        adapter = served_adapter(write_script, f"open({str(started)!r}, 'w').close()\nhang()")
        call = asyncio.create_task(adapter.invoke(request_for()))
        await asyncio.to_thread(started.read_bytes)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(session())


def test_a_cancelled_call_leaves_the_program_to_the_next(
    write_script: WriteScript, request_for: RequestFor, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    body = f"""
    def respond(request):
        if request["input_data"]["seq"] == 2:
            open({str(asked)!r}, "w").close()
            threading.Event().wait()
        return envelope(request, output_data={{"pids": [os.getpid()]}})
    serve(respond)
    """

    async def session() -> tuple[Attempt, Attempt]:
        adapter = served_adapter(write_script, body)
        first = await adapter.invoke(request_for(1))
        call = asyncio.create_task(adapter.invoke(request_for(2)))
        await asyncio.to_thread(asked.read_bytes)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        third = await adapter.invoke(request_for(3))
        await adapter.aclose()
        return first, third

    first, third = asyncio.run(session())
    assert pids(first) == pids(third)


RUNNER = """
import asyncio
from pathlib import Path
from tests.theatre.oracles.served_scripts import served_adapter

async def run():
    adapter = served_adapter(lambda _: Path({script!r}))
    await adapter.check_reachable()
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(run())
"""


def test_the_program_ends_with_a_runner_that_was_killed(
    write_script: WriteScript, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    body = f"open({str(note)!r}, 'w').write(str(os.getpid()))\n{NAMES_ITSELF}"
    script = write_script(SERVING + body)
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER.format(script=str(script)))
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path]),
    }
    command = [sys.executable, str(runner)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        construct = os.pidfd_open(int(note.read_text()))
        process.send_signal(signal.SIGKILL)
    ended, _, _ = select.select([construct], [], [], 60)
    # As a child subreaper, this process may have become the one to reap it.
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, construct, os.WEXITED | os.WNOHANG)
    os.close(construct)
    assert ended


def test_a_port_is_free_for_a_program_or_refused_by_name() -> None:
    place = claim_port(0, listens=False)
    assert claim_port(place.port, listens=False) == place
    with serving(honest) as server:
        message = rf"expected 127.0.0.1:{server.port} to be free again, got: .*in use"
        with pytest.raises(ConstructUnreachableError, match=message):
            claim_port(server.port, listens=True)


def test_a_server_that_took_the_port_is_not_taken_for_the_program_that_died_of_it() -> None:
    async def session(port: int) -> None:
        process = ServedProcess(
            ["/bin/sh", "-c", "echo port {port} is in use; exit 98"],
            place=ClaimedPort(port=port, listener=None),
            environment={"PATH": os.environ["PATH"]},
            limits=ProcessLimits(),
            reach=Reach(network=True),
        )
        try:
            await process.wait_for_launch()
            assert await process.wait_for_exit(60)
            await process.wait_until_serving(within_seconds=30)
        finally:
            await process.end()
            process.close()

    with serving(honest) as server:
        with pytest.raises(ConstructUnreachableError) as caught:
            asyncio.run(session(server.port))
        assert str(caught.value).endswith(
            f"got its end; it printed:\nport {server.port} is in use\n"
            "[the program ended: exit code 98]"
        )
        assert server.received == []


def test_nobody_listens_on_the_port_of_a_program_that_was_closed(
    write_script: WriteScript, request_for: RequestFor
) -> None:
    async def session() -> int:
        body = "serve(lambda request: envelope(request, output_data={'port': PORT}))"
        adapter = served_adapter(write_script, body)
        attempt = await adapter.invoke(request_for())
        await adapter.aclose()
        return cast("int", (attempt.response.output_data or {})["port"])

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", asyncio.run(session())))
