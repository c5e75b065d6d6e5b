"""A construct's program while it runs: started under limits, watched, ended whole.

Nothing here has its own deadline but the end; the caller bounds every other wait.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from theatre.oracles import process_tree
from theatre.oracles.bound_program import remove_folder
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.isolation.means import Isolator, Reach
from theatre.oracles.limited_process import ProcessLimits, start_limited
from theatre.oracles.pipes import CHUNK_BYTES, ComplaintPipe, is_ready, ready

SLOW_DEATH_SECONDS = 10.0
"""How long the last thread of a process may take that the system is ending on a busy machine."""
_PATIENCE_SECONDS = 5.0
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
