"""One construct's child process: started under limits, asked one line at a time, ended whole.

Nothing here knows envelopes: lines of bytes go in and come out (`theatre.oracles.local` gives
them their meaning). Nothing here has a deadline either; the caller bounds every wait.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import subprocess
import tempfile
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, cast

from theatre.oracles import process_tree
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.limited_process import (
    ProcessLimits,
    allow_cpu_for_one_call,
    start_limited,
)
from theatre.oracles.pipes import CHUNK_BYTES, ComplaintPipe, is_ready, read_now, ready

_PATIENCE_SECONDS = 5.0
_CLOSED_OUTPUT_GRACE_SECONDS = 0.5
_END_OF_INPUT_GRACE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
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


class ChildProcess:
    """A running construct. Not for concurrent use; `end` and then `close` it in every case."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        limits: ProcessLimits,
        line_limit: int,
        complaint_limit: int,
    ) -> None:
        """Start `argv` in an empty folder of its own, which is also its HOME and TMPDIR.

        Raises ConstructUnreachableError where the system starts no process.
        """
        self._argv = argv
        self._limits = limits
        self._line_limit = line_limit
        # What an ended construct made unremovable must not fail the run.
        self._folder = tempfile.TemporaryDirectory(
            prefix="echelon-construct-", ignore_cleanup_errors=True
        )
        try:
            self._popen, self._status = start_limited(
                argv, folder=self._folder.name, environment=environment, limits=limits
            )
        except ConstructUnreachableError:
            self._folder.cleanup()
            raise
        self._pidfd = process_tree.open_pidfd(self._popen.pid)
        self._stdin = cast("IO[bytes]", self._popen.stdin)
        self._stdout = cast("IO[bytes]", self._popen.stdout)
        self._stderr = cast("IO[bytes]", self._popen.stderr)
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._complaints = ComplaintPipe(self._stderr.fileno(), limit=complaint_limit)
        self._output = bytearray()
        self._searched = 0
        self._end_of_output = False
        self._unsent = memoryview(b"")
        self._reads_no_more = False
        self._answers = 0
        self._family_ended = False

    async def launched(self) -> None:
        """Return when the program runs under its limits.

        Raises ConstructUnreachableError where it could not be executed.
        """
        await ready(readers=[self._status])
        problem = os.read(self._status, CHUNK_BYTES)
        if problem:
            raise ConstructUnreachableError(
                f"expected to start {list(self._argv)!r:.300}, "
                f"got: {problem.decode('utf-8', 'replace')}"
            )

    async def exchange(self, line: bytes) -> Reply:
        """Send `line` (with its line feed) and return the next line, or how the process ended.

        Output that came before the call is part of the reply: look at `unsolicited` first.
        """
        allow_cpu_for_one_call(self._popen.pid, self._limits)
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

    def unsolicited(self) -> bytes:
        """Return output that no call has taken."""
        self._pull()
        return bytes(self._output)

    def took_all(self) -> bool:
        """Say whether the last line was sent to its end."""
        return not self._unsent

    def has_ended(self) -> bool:
        """Say whether the process has ended, without waiting."""
        if self._pidfd is None:
            return self._popen.poll() is not None
        return is_ready(self._pidfd)

    def complaints(self) -> str:
        """Return what it wrote on stderr since the last time, cut in front."""
        return self._complaints.take()

    async def dismiss(self) -> None:
        """Close its stdin and give it half a second to end by itself."""
        self._stdin.close()
        await self._ends_within(_END_OF_INPUT_GRACE_SECONDS)

    async def end(self) -> int | None:
        """End the process with all that it started; return its exit code.

        None where the system did not let go of it within five seconds.
        """
        if not self._family_ended:
            process_tree.kill_group(self._popen.pid)
            await self._ends_within(_PATIENCE_SECONDS)
            self._popen.poll()
            process_tree.forget_leader(self._popen.pid)
            self._family_ended = True
        await process_tree.end_strays()
        return self._popen.returncode

    def close(self) -> None:
        """Let go of descriptors and folder, after `end`."""
        self._complaints.stop()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()
        os.close(self._status)
        for descriptor in self._exit_descriptors():
            os.close(descriptor)
        self._folder.cleanup()

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
        # The exit code of a process that is just ending should be its own, not our signal.
        ends_by_itself = await self._ends_within(_CLOSED_OUTPUT_GRACE_SECONDS)
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
        """Return how many bytes of its stdin nobody has read."""
        unread = array.array("i", [0])
        try:
            fcntl.ioctl(self._stdin.fileno(), termios.FIONREAD, unread)
        except OSError:
            return 0
        return unread[0]

    def _exit_descriptors(self) -> list[int]:
        return [] if self._pidfd is None else [self._pidfd]

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                if self._pidfd is None:
                    await asyncio.to_thread(self._popen.wait, seconds)
                else:
                    await ready(readers=[self._pidfd])
        except (TimeoutError, subprocess.TimeoutExpired):
            return False
        return True
