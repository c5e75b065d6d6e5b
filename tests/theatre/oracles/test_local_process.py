"""How long a construct's process lives, and that nothing of it stays behind."""

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.errors import AdapterClosedError, ConstructUnreachableError
from theatre.oracles.local import LocalOracleAdapter
from theatre.oracles.process_tree import kill_group

pytestmark = pytest.mark.usefixtures("unisolated")

Ask = Callable[..., list[Attempt]]
AdapterOf = Callable[..., LocalOracleAdapter]
RequestFor = Callable[..., OracleInvocationRequest]
IsGone = Callable[[int], bool]

# Answers the first call with its process ids, and never the second.
HANGS_AT_THE_SECOND = """
for request in requests():
    if request["input_data"]["seq"] == 2: hang()
    answer(request, output_data={"pids": [os.getpid()]})
"""

# Starts `sleep` in a session of its own, by a child that ends at once: nobody's child any more.
DAEMON = """
def daemon(*options):
    script = "sleep 1000 <&- >&- 2>&- & echo $!"
    command = [*options, "setsid", "/bin/sh", "-c", script]
    return int(subprocess.run(command, stdout=subprocess.PIPE).stdout)
"""


def pids(attempt: Attempt) -> list[int]:
    output = cast("JsonObject", attempt.response.output_data)
    return cast("list[int]", output["pids"])


def statuses(attempts: list[Attempt]) -> list[tuple[InvocationStatus, str | None]]:
    return [(attempt.response.status, attempt.reason) for attempt in attempts]


def wait_until_reaped(pidfd: int) -> bool:
    """Wait for the end of a process whose parent is dead; False if it lives for a minute more."""
    ended, _, _ = select.select([pidfd], [], [], 60)
    # As a child subreaper, this process may have become the one to reap it.
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    os.close(pidfd)
    return bool(ended)


SUCCESS = (InvocationStatus.SUCCESS, None)
TIMEOUT = (InvocationStatus.TIMEOUT, "timeout")
CRASHED = (InvocationStatus.ERROR, "crashed")


def test_many_calls_are_answered_by_one_process(
    ask: Ask, request_for: RequestFor, is_gone: IsGone
) -> None:
    body = "for request in requests(): answer(request, output_data={'pids': [os.getpid()]})"
    attempts = ask(body, *(request_for(seq) for seq in range(1, 101)))
    assert statuses(attempts) == [SUCCESS] * 100
    assert {pid for attempt in attempts for pid in pids(attempt)} == set(pids(attempts[0]))
    assert is_gone(pids(attempts[0])[0])


def test_calls_made_at_the_same_time_wait_for_each_other(
    adapter_of: AdapterOf, request_for: RequestFor
) -> None:
    async def session() -> list[Attempt]:
        adapter = adapter_of("for request in requests(): answer(request)")
        calls = [adapter.invoke(request_for(seq)) for seq in range(1, 9)]
        attempts = await asyncio.gather(*calls)
        await adapter.aclose()
        return attempts

    attempts = asyncio.run(session())
    assert [attempt.response.output_data for attempt in attempts] == [
        {"echo": {"seq": seq}} for seq in range(1, 9)
    ]


def test_an_exit_after_each_answer_is_no_error(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        answer(request, output_data={"pids": [os.getpid()]})
        sys.exit(7)
    """
    attempts = ask(body, *(request_for(seq) for seq in range(1, 6)))
    assert statuses(attempts) == [SUCCESS] * 5
    assert len({pid for attempt in attempts for pid in pids(attempt)}) == 5


def test_an_exit_that_meets_the_next_question_is_no_error(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    request = json.loads(sys.stdin.readline())
    answer(request, output_data={"pids": [os.getpid()]})
    select.select([sys.stdin], [], [])
    """
    attempts = ask(body, *(request_for(seq) for seq in range(1, 4)))
    assert statuses(attempts) == [SUCCESS] * 3
    assert len({pid for attempt in attempts for pid in pids(attempt)}) == 3


def test_an_exit_after_reading_the_next_question_is_a_crash_and_not_asked_again(
    ask: Ask, request_for: RequestFor, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    body = f"""
    for request in requests():
        with open({str(heard)!r}, "a") as file: file.write(request["episode_id"] + "\\n")
        if request["input_data"]["seq"] == 2: sys.exit(0)
        answer(request)
    """
    attempts = ask(body, *(request_for(seq) for seq in range(1, 4)))
    assert statuses(attempts) == [SUCCESS, CRASHED, SUCCESS]
    assert heard.read_text() == "episode-1\nepisode-2\nepisode-3\n"


def test_a_death_that_takes_its_time_is_waited_for(ask: Ask, request_for: RequestFor) -> None:
    # As on a busy machine: the first thread is dead and the output closed, the last one lives.
    body = """
    import ctypes, threading
    def last_thread():
        while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.01)
        os.close(1)
        time.sleep(1.5)
        os._exit(3)
    sys.stdin.readline()
    threading.Thread(target=last_thread).start()
    ctypes.CDLL(None).pthread_exit(None)
    """
    (attempt,) = ask(body, request_for())
    assert statuses([attempt]) == [CRASHED]
    assert (attempt.response.error_detail or "").endswith("exit code 3")


def test_a_program_that_ends_before_any_answer_is_started_once_a_call(
    ask: Ask, request_for: RequestFor, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    body = f"""
    with open({str(starts)!r}, "a") as file: file.write("start\\n")
    select.select([sys.stdin], [], [])
    """
    assert statuses(ask(body, request_for(1), request_for(2))) == [CRASHED, CRASHED]
    assert starts.read_text() == "start\nstart\n"


def test_a_hanging_process_is_killed_and_the_next_call_gets_a_new_one(
    ask: Ask, request_for: RequestFor, is_gone: IsGone
) -> None:
    requests = [request_for(1), request_for(2, timeout_seconds=0.2), request_for(3)]
    attempts = ask(HANGS_AT_THE_SECOND, *requests)
    assert statuses(attempts) == [SUCCESS, TIMEOUT, SUCCESS]
    assert attempts[1].response.error_detail == "expected an answer within 0.2 s, got none"
    assert pids(attempts[0]) != pids(attempts[2])
    assert is_gone(pids(attempts[0])[0])


def test_a_slow_drip_does_not_move_the_deadline(ask: Ask, request_for: RequestFor) -> None:
    body = """
    for request in requests():
        while True:
            say("x")
            select.select([], [], [], 0.05)
    """
    assert statuses(ask(body, request_for(timeout_seconds=0.3))) == [TIMEOUT]


def test_a_process_that_reads_nothing_is_bounded_by_the_deadline(
    ask: Ask, request_for: RequestFor
) -> None:
    large = request_for(input_data={"text": "x" * 1_000_000}, timeout_seconds=0.3)
    assert statuses(ask("hang()", large)) == [TIMEOUT]


def test_a_closed_stdin_is_bounded_by_the_deadline(ask: Ask, request_for: RequestFor) -> None:
    large = request_for(input_data={"text": "x" * 1_000_000}, timeout_seconds=0.3)
    cpu_before = time.process_time()
    assert statuses(ask("os.close(0); hang()", large)) == [TIMEOUT]
    assert time.process_time() - cpu_before < 0.2, "the runner waited in a busy loop"


def test_an_answer_to_half_a_question_is_taken_and_the_process_replaced(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    head = os.read(0, 200).decode()
    start = head.index('"invocation_id": "') + 18
    request = {"invocation_id": head[start:start + 36], "construct_id": "pilot", "input_data": 0}
    answer(request, output_data={"pids": [os.getpid()]})
    hang()
    """
    text = {"text": "x" * 1_000_000}
    requests = [request_for(seq, input_data=text) for seq in (1, 2)]
    first, second = ask(body, *requests)
    assert statuses([first, second]) == [SUCCESS, SUCCESS]
    assert pids(first) != pids(second)


def test_output_that_answers_nothing_costs_the_process_and_is_recorded(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    for request in requests():
        line = json.dumps(envelope(request, output_data={"pids": [os.getpid()]}))
        say(line + "\\n" + ("done\\n" if request["input_data"]["seq"] == 1 else ""))
    """
    first, second, third = ask(body, request_for(1), request_for(2), request_for(3))
    assert statuses([first, second, third]) == [SUCCESS] * 3
    assert (first.stderr, third.stderr) == (None, None)
    assert second.stderr == (
        "[restarted before this call: 5 bytes or more of output answered no call; "
        "they begin b'done\\n']\n"
    )
    assert pids(first) != pids(second) == pids(third)


def test_a_process_out_of_step_does_not_answer_the_next_call(
    ask: Ask, request_for: RequestFor
) -> None:
    body = """
    for request in requests():
        if request["input_data"]["seq"] == 1: say("one moment, please\\n")
        answer(request)
    """
    attempts = ask(body, request_for(1), request_for(2))
    assert statuses(attempts) == [(InvocationStatus.ERROR, "not-json"), SUCCESS]


def test_a_daemon_of_a_killed_process_is_ended(
    ask: Ask, request_for: RequestFor, is_gone: IsGone
) -> None:
    body = (
        DAEMON
        + """
for request in requests():
    if request["input_data"]["seq"] == 2: hang()
    answer(request, output_data={"pids": [os.getpid(), daemon()]})
"""
    )
    first, second = ask(body, request_for(1), request_for(2, timeout_seconds=0.2))
    assert statuses([first, second]) == [SUCCESS, TIMEOUT]
    assert [is_gone(pid) for pid in pids(first)] == [True, True]


@pytest.mark.parametrize("options", ["", "'env', '-i',"], ids=["plain", "without environment"])
def test_a_daemon_that_outlived_its_process_is_ended(
    ask: Ask, request_for: RequestFor, is_gone: IsGone, options: str
) -> None:
    body = f"""
for request in requests():
    answer(request, output_data={{"pids": [daemon({options})]}})
    sys.exit()
"""
    first, second = ask(DAEMON + body, request_for(1), request_for(2))
    assert statuses([first, second]) == [SUCCESS, SUCCESS]
    assert [is_gone(pid) for pid in pids(first) + pids(second)] == [True, True]


def test_the_children_of_such_a_daemon_are_ended_too(
    ask: Ask, request_for: RequestFor, is_gone: IsGone
) -> None:
    body = """
    script = "sleep 1000 <&- >&- 2>&- & echo $! $$; exec <&- >&- 2>&-; wait"
    command = ["setsid", "/bin/sh", "-c", f"/bin/sh -c '{script}' &"]
    for request in requests():
        words = subprocess.run(command, stdout=subprocess.PIPE).stdout.split()
        answer(request, output_data={"pids": [int(word) for word in words]})
        sys.exit()
    """
    (attempt,) = ask(body, request_for())
    assert [is_gone(pid) for pid in pids(attempt)] == [True, True]


def test_a_grandchild_that_holds_stdout_does_not_hide_a_crash(
    ask: Ask, request_for: RequestFor, is_gone: IsGone, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    body = f"""
    for request in requests():
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        with open({str(note)!r}, "w") as file: file.write(str(child.pid))
        os._exit(4)
    """
    (attempt,) = ask(body, request_for())
    assert statuses([attempt]) == [CRASHED]
    assert attempt.response.error_detail == (
        "expected an answer line, got the end of the process: exit code 4"
    )
    assert is_gone(int(note.read_text()))


def test_the_whole_process_group_is_killed_at_once() -> None:
    script = "sleep 1000 >&- & echo $!; wait"
    with subprocess.Popen(
        ["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        member = os.pidfd_open(int(leader.stdout.readline()))
        kill_group(leader.pid)
        assert leader.wait() == -signal.SIGKILL
    assert wait_until_reaped(member)


def test_ending_one_construct_leaves_the_processes_of_another_alone(
    adapter_of: AdapterOf, request_for: RequestFor, is_gone: IsGone
) -> None:
    body = """
for request in requests():
    answer(request, output_data={"pids": [os.getpid(), daemon()]})
"""

    async def session() -> tuple[list[bool], list[bool]]:
        one, other = adapter_of(DAEMON + body), adapter_of(DAEMON + body)
        ended = pids(await one.invoke(request_for()))
        alive = pids(await other.invoke(request_for()))
        await one.aclose()
        states = [is_gone(pid) for pid in ended + alive]
        await other.aclose()
        return states, [is_gone(pid) for pid in alive]

    assert asyncio.run(session()) == ([True, True, False, False], [True, True])


def test_children_of_the_runner_that_are_no_constructs_are_left_alone(
    ask: Ask, request_for: RequestFor
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        ask("for request in requests(): answer(request); sys.exit()", request_for(1))
        assert bystander.poll() is None
        bystander.kill()


def test_a_cancelled_call_ends_the_process(
    adapter_of: AdapterOf, request_for: RequestFor, is_gone: IsGone
) -> None:
    async def session() -> list[bool]:
        adapter = adapter_of(HANGS_AT_THE_SECOND)
        first = pids(await adapter.invoke(request_for(1)))
        call = asyncio.create_task(adapter.invoke(request_for(2)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gone = [is_gone(pid) for pid in first]
        third = pids(await adapter.invoke(request_for(3)))
        await adapter.aclose()
        return [*gone, third == first]

    assert asyncio.run(session()) == [True, False]


def test_a_call_cancelled_while_the_process_starts_leaves_none(
    adapter_of: AdapterOf, request_for: RequestFor
) -> None:
    async def session() -> None:
        adapter = adapter_of("hang()")
        call = asyncio.create_task(adapter.invoke(request_for()))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(session())


def test_a_process_may_end_by_itself_when_it_is_dismissed(
    ask: Ask, request_for: RequestFor, tmp_path: Path
) -> None:
    body = f"""
    for request in requests(): answer(request)
    open({str(tmp_path / "farewell")!r}, "w").close()
    """
    ask(body, request_for())
    assert (tmp_path / "farewell").exists()


def test_a_closed_adapter_closes_again_and_takes_no_call(
    adapter_of: AdapterOf, request_for: RequestFor
) -> None:
    async def session() -> None:
        adapter = adapter_of("for request in requests(): answer(request)")
        await adapter.invoke(request_for())
        await adapter.aclose()
        await adapter.aclose()
        with pytest.raises(AdapterClosedError, match="The adapter is closed"):
            await adapter.invoke(request_for())

    asyncio.run(session())


def test_a_process_may_be_started_before_the_first_call(
    adapter_of: AdapterOf, request_for: RequestFor, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    body = f"""
    with open({str(starts)!r}, "a") as file: file.write("start\\n")
    for request in requests(): answer(request)
    """

    async def session() -> Attempt:
        adapter = adapter_of(body)
        await adapter.check_reachable()
        await adapter.check_reachable()
        attempt = await adapter.invoke(request_for())
        await adapter.aclose()
        with pytest.raises(AdapterClosedError, match="The adapter is closed"):
            await adapter.check_reachable()
        return attempt

    assert statuses([asyncio.run(session())]) == [SUCCESS]
    assert starts.read_text() == "start\n"


def test_a_start_that_fails_says_so_before_the_first_call(adapter_of: AdapterOf) -> None:
    async def session() -> None:
        adapter = adapter_of(argv=["/nowhere/at/all"])
        with pytest.raises(ConstructUnreachableError, match="No such file or directory"):
            await adapter.check_reachable()
        await adapter.aclose()

    asyncio.run(session())


def test_the_process_ends_with_a_runner_that_was_killed(
    write_script: Callable[[str], Path], tmp_path: Path
) -> None:
    script = write_script("print(os.getpid(), file=sys.stderr, flush=True); hang()")
    runner = tmp_path / "runner.py"
    runner.write_text(f"""
import asyncio, os, sys
from theatre.oracles.child_process import ChildProcess
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits
async def run():
    child = ChildProcess([sys.executable, {str(script)!r}], environment={{}}, reach=Reach(),
                         limits=ProcessLimits(), line_limit=9, complaint_limit=99)
    while not (pid := child.complaints()):
        await asyncio.sleep(0.01)
    print(pid, flush=True)
    await child.exchange(b"1")
asyncio.run(run())
""")
    command = [sys.executable, str(runner)]
    folder = {"TMPDIR": str(tmp_path)}
    environment = {**os.environ, **folder, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        construct = os.pidfd_open(int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
    assert wait_until_reaped(construct)


NOT_STARTED = {
    "missing program": (["/nowhere/at/all"], "No such file or directory"),
    "missing on PATH": (["no-such-program-anywhere"], "No such file or directory"),
    "folder": (["/"], "Permission denied"),
    "null character": (["a\0b"], "embedded null character in path"),
}


@pytest.mark.parametrize(("argv", "problem"), NOT_STARTED.values(), ids=NOT_STARTED.keys())
def test_a_program_that_cannot_be_started_is_unreachable(
    ask: Ask,
    request_for: RequestFor,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    problem: str,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (attempt,) = ask("", request_for(), argv=argv)
    assert statuses([attempt]) == [(InvocationStatus.ERROR, "unreachable")]
    assert attempt.response.error_detail is not None
    assert attempt.response.error_detail.startswith(f"expected to start {argv!r}, got: ")
    assert attempt.response.error_detail.endswith(problem)
