"""One construct's child process: a running program that is asked one line at a time.

Nothing here knows envelopes: lines of bytes go in and come out (`theatre.oracles.local` gives
them their meaning). Nothing here has a deadline either; the caller bounds every wait.
"""

import array
import asyncio
import fcntl
import os
import subprocess
import tempfile
import termios
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from theatre.oracles import process_tree
from theatre.oracles.construct_files import remove_folder
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.isolation.means import Isolator, Reach
from theatre.oracles.limited_process import ProcessLimits, allow_cpu_for_one_call, start_limited
from theatre.oracles.process_tree import CHUNK_BYTES, ComplaintPipe, is_ready, read_now, ready

# A construct's program while it runs: started under limits, watched, ended whole.
#
# Nothing here has its own deadline but the end; the caller bounds every other wait.


SLOW_DEATH_SECONDS = 10.0
"""How long the last thread of a process may take that the system is ending on a busy machine."""
_PATIENCE_SECONDS = 5.0
_MOMENT_SECONDS = 0.005
"""A program whose threads all slept for so long waits for input, as far as can be seen."""
_SIGNALLED = 128


class RunningProgram:
    """A process of its own with pipes for stdin, stdout and stderr; stderr is drained.

    `end` and then `close` it in every case.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        limits: ProcessLimits,
        reach: Reach,
        complaint_limit: int,
        listener: int | None = None,
    ) -> None:
        """Start `argv` in its own empty folder, which is also its HOME and TMPDIR.

        It can read and write nothing else but what `reach` says. Raises
        ConstructUnreachableError where the system starts no process.
        """
        self._argv = argv
        self._limits = limits
        folder = tempfile.mkdtemp(prefix="echelon-construct-")
        self._remove_folder = weakref.finalize(self, remove_folder, Path(folder))
        try:
            self._started = start_limited(
                argv,
                folder=folder,
                environment=environment,
                limits=limits,
                reach=reach,
                listener=listener,
            )
        except ConstructUnreachableError:
            self._remove_folder()
            raise
        self._popen = self._started.process
        self._pid = self._popen.pid
        self._pidfd = process_tree.open_pidfd(self._popen.pid)
        self._stdin, self._stdout = self._started.stdin, self._started.stdout
        for pipe in (self._stdin, self._stdout, self._started.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._complaints = ComplaintPipe(self._started.stderr.fileno(), limit=complaint_limit)
        self._family_ended = False

    async def wait_for_launch(self) -> None:
        """Return when the program runs under its limits.

        Raises ConstructUnreachableError where it could not be executed.
        """
        await ready(readers=[self._started.status])
        problem = os.read(self._started.status, CHUNK_BYTES)
        if problem:
            raise ConstructUnreachableError(
                f"expected to start {list(self._argv)!r:.300}, "
                f"got: {problem.decode('utf-8', 'replace')}"
            )
        self._pid = self._started.program_pid()

    def has_ended(self) -> bool:
        """Return whether the process has ended, without waiting."""
        if self._pidfd is None:
            return self._popen.poll() is not None
        return is_ready(self._pidfd)

    def is_dying(self) -> bool:
        """Return whether the system is ending the process, or has; False where it does not tell."""
        return process_tree.is_dying(self._pid)

    async def wait_for_exit(self, seconds: float) -> bool:
        """Wait for the process to end by itself; say whether it did. For one caller at a time."""
        try:
            async with asyncio.timeout(seconds):
                if self._pidfd is None:
                    await asyncio.to_thread(self._popen.wait, seconds)
                else:
                    await ready(readers=[self._pidfd])
        except (TimeoutError, subprocess.TimeoutExpired):
            return False
        return True

    async def wait_until_idle(self) -> bool:
        """Wait until the program waits for something, or has ended; return whether it has ended.

        Returns at once where the system does not tell.
        """
        before = None
        while process_tree.TELLS_WHO_SLEEPS:
            if await self.wait_for_exit(_MOMENT_SECONDS):
                return True
            now = process_tree.time_when_asleep(self._pid)
            if now is not None and now == before:
                return False
            before = now
        return self.has_ended()

    def complaints(self) -> str:
        """Return what it wrote on stderr since the last time, cut in front."""
        return self._complaints.take()

    async def end(self) -> int | None:
        """End the process with all that it started; return its exit code.

        None where the system did not let go of it within five seconds.
        """
        if not self._family_ended:
            process_tree.kill_group(self._popen.pid)
            await self.wait_for_exit(_PATIENCE_SECONDS)
            self._popen.poll()
            process_tree.forget_leader(self._popen.pid)
            self._family_ended = True
        await process_tree.end_strays()
        return self._exit_code()

    def close(self) -> None:
        """Let go of descriptors and folder, after `end`."""
        self._complaints.stop()
        self._started.close_pipes()
        for descriptor in self._exit_descriptors():
            os.close(descriptor)
        self._remove_folder()

    def _exit_code(self) -> int | None:
        code: int | None = self._popen.returncode
        # As in a shell: it ended for a signal of which only the number got out of the namespaces.
        if self._started.means is not Isolator.NAMESPACES or code is None:
            return code
        return _SIGNALLED - code if code > _SIGNALLED else code

    def _exit_descriptors(self) -> list[int]:
        return [] if self._pidfd is None else [self._pidfd]


_CLOSED_OUTPUT_GRACE_SECONDS = 0.5
_END_OF_INPUT_GRACE_SECONDS = 0.5


class AskedProgram(RunningProgram):
    """A program that is asked once: all of its stdin, then all of its stdout."""

    async def answer(self, question: bytes, *, limit: int) -> bytes:
        """Send `question`, close its stdin, and return what it prints until it ends.

        Of more than `limit` bytes, a few more than that are returned.
        """
        allow_cpu_for_one_call(self._pid, self._limits)
        unsent, output = memoryview(question), bytearray()
        while True:
            try:
                while unsent:
                    unsent = unsent[os.write(self._stdin.fileno(), unsent[:CHUNK_BYTES]) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                unsent = memoryview(b"")
            if not unsent and not self._stdin.closed:
                self._stdin.close()
            chunk = read_now(self._stdout.fileno())
            output += chunk or b""
            if chunk == b"" or len(output) > limit:
                break
            if chunk is None:
                writers = [self._stdin.fileno()] if unsent else []
                await ready(readers=[self._stdout.fileno()], writers=writers)
        # A program that has closed its stdout may still be about to say how it ended.
        if len(output) <= limit:
            await self.wait_for_exit(SLOW_DEATH_SECONDS)
        return bytes(output)


class Reply(NamedTuple):
    """What a process made of one line.

    While it lives, `data` is its line without the line feed, or more than the limit where it
    sent no line feed in time. When `ended`, `data` is the unfinished line, `exit_code` as in
    `subprocess` (None: it lived on with a closed stdout, and was ended), and `between_calls`
    says that the process had answered before and read nothing of this line: it ended after
    its last answer.
    """

    data: bytes
    ended: bool = False
    exit_code: int | None = None
    between_calls: bool = False


class ChildProcess(RunningProgram):
    """A program that speaks on stdin and stdout. Not for concurrent use."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        limits: ProcessLimits,
        reach: Reach,
        line_limit: int,
        complaint_limit: int,
    ) -> None:
        """Start `argv` as `RunningProgram`; a line is read up to `line_limit` bytes."""
        super().__init__(
            argv,
            environment=environment,
            limits=limits,
            reach=reach,
            complaint_limit=complaint_limit,
        )
        self._line_limit = line_limit
        self._output = bytearray()
        self._searched = 0
        self._end_of_output = False
        self._unsent = memoryview(b"")
        self._reads_no_more = False
        self._answers = 0

    async def exchange(self, line: bytes) -> Reply:
        """Send `line` (with its line feed) and return the next line, or how the process ended.

        Output that came before the call is part of the reply: look at `unsolicited` first.
        """
        allow_cpu_for_one_call(self._pid, self._limits)
        self._unsent = memoryview(line)
        while True:
            self._push()
            self._pull()
            reply = self._next_line()
            if reply is not None:
                self._answers += 1
                return reply
            if self._end_of_output or self.has_ended():
                return await self._last_words(line)
            await ready(
                readers=[self._stdout.fileno(), *self._exit_descriptors()],
                writers=[self._stdin.fileno()] if self._unsent and not self._reads_no_more else [],
            )

    async def send(self, line: bytes) -> None:
        """Write `line` (with its line feed) while someone else may `receive`."""
        self._unsent = memoryview(line)
        self._push()
        while self._unsent and not self._reads_no_more:
            await ready(writers=[self._stdin.fileno()])
            self._push()

    async def receive(self) -> bytes | None:
        """Return the next line, whatever asked for it; None at the end of the output."""
        while True:
            self._pull()
            reply = self._next_line()
            if reply is not None:
                return reply.data
            if self._end_of_output:
                return None
            await ready(readers=[self._stdout.fileno()])

    def read_unsolicited(self) -> bytes:
        """Return output that no call has taken."""
        self._pull()
        return bytes(self._output)

    def wrote_all(self) -> bool:
        """Return whether the last line was sent to its end."""
        return not self._unsent

    async def stop_gently(self) -> None:
        """Close its stdin and give it half a second to end by itself."""
        self._stdin.close()
        await self.wait_for_exit(_END_OF_INPUT_GRACE_SECONDS)

    def _push(self) -> None:
        try:
            while self._unsent:
                sent = os.write(self._stdin.fileno(), self._unsent[:CHUNK_BYTES])
                self._unsent = self._unsent[sent:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._reads_no_more = True

    def _pull(self) -> bool:
        """Take over what stdout holds now; say whether there was anything."""
        chunk = read_now(self._stdout.fileno())
        if chunk == b"":
            self._end_of_output = True
        self._output += chunk or b""
        return bool(chunk)

    def _next_line(self) -> Reply | None:
        position = self._output.find(b"\n", self._searched)
        self._searched = len(self._output)
        if position < 0 and len(self._output) <= self._line_limit:
            return None
        end = position if position >= 0 else len(self._output)
        data = bytes(self._output[:end])
        del self._output[: end + 1]
        self._searched = 0
        return Reply(data=data)

    async def _last_words(self, line: bytes) -> Reply:
        # The exit code of a process that is just ending should be its own, not our signal,
        # however busy the machine is.
        ends_by_itself = await self.wait_for_exit(_CLOSED_OUTPUT_GRACE_SECONDS) or (
            self.is_dying() and await self.wait_for_exit(SLOW_DEATH_SECONDS)
        )
        exit_code = await self.end()
        while self._pull():
            reply = self._next_line()
            if reply is not None:
                return reply
        unfinished = bytes(self._output)
        self._output.clear()
        untouched = self._unread_input() >= len(line) - len(self._unsent)
        return Reply(
            data=unfinished,
            ended=True,
            exit_code=exit_code if ends_by_itself else None,
            between_calls=bool(self._answers) and untouched and not unfinished,
        )

    def _unread_input(self) -> int:
        """Return how many bytes of its stdin are unread."""
        unread = array.array("i", [0])
        try:
            fcntl.ioctl(self._stdin.fileno(), termios.FIONREAD, unread)
        except OSError:
            return 0
        return unread[0]
