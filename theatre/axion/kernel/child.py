"""A process of the kernel, from outside: asked over its pipes, never waited for without end."""

import select
import subprocess
import sys
import time
from collections.abc import Sequence
from io import BufferedReader
from typing import BinaryIO, cast

from theatre.axion.common.errors import GateBrokenError, GateGoneError
from theatre.axion.kernel.frames import LENGTH_BYTES, frame, length_of

_CHUNK = 65536
_START_SECONDS = 60.0


class Child:
    """One module of the kernel in a separate process; its creator must call `close`.

    `argv` replaces the command, for processes that are no module of this package.
    """

    def __init__(self, module: str, *, argv: Sequence[str] | None = None) -> None:
        command = list(argv or (sys.executable, "-I", "-m", module))
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"LC_ALL": "C.UTF-8"}
        )
        self._stdin = cast("BinaryIO", self._process.stdin)
        self._stdout = cast("BufferedReader", self._process.stdout)
        self._received = bytearray()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def send(self, *messages: bytes) -> None:
        """Send messages; raises GateGoneError where the process is gone."""
        try:
            for message in messages:
                self._stdin.write(frame(message))
            self._stdin.flush()
        except OSError as error:
            raise GateGoneError(f"expected a running process, got {error}") from error

    def ask(self, *messages: bytes, seconds: float = _START_SECONDS) -> bytes:
        """Return the answer to `messages`; raises GateBrokenError where none comes in time.

        GateGoneError where the process ends instead.
        """
        self.send(*messages)
        if not self.answered(seconds):
            # A late answer would be read as the answer to the next question.
            self.kill()
            raise GateBrokenError(f"expected an answer within {seconds} s, got none")
        return self.take()

    def answered(self, seconds: float) -> bool:
        """Return whether a whole answer is in, waiting at most `seconds` for it.

        Raises GateGoneError where the process ended instead.
        """
        deadline = time.monotonic() + seconds
        while not self._is_whole():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
                return self._is_whole()
            data = self._stdout.read1(_CHUNK)
            if not data:
                raise GateGoneError("expected an answer, got the end of the process")
            self._received += data
        return True

    def take(self) -> bytes:
        """Return the answer that `answered` said is in."""
        end = LENGTH_BYTES + length_of(bytes(self._received[:LENGTH_BYTES]))
        answer = bytes(self._received[LENGTH_BYTES:end])
        del self._received[:end]
        return answer

    def kill(self) -> None:
        """End the process at once and wait for its end; harmless where it is gone."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and let go of its pipes."""
        self.kill()
        for stream in (self._stdin, self._stdout):
            try:
                stream.close()
            except BrokenPipeError:
                # What it was still to be sent is of no use to a process that is gone.
                continue

    def _is_whole(self) -> bool:
        if len(self._received) < LENGTH_BYTES:
            return False
        return len(self._received) - LENGTH_BYTES >= length_of(bytes(self._received[:LENGTH_BYTES]))
