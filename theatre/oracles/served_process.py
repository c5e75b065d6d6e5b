"""A construct's program that serves HTTP on a port of this machine, until it dies or is ended.

Nothing here knows HTTP: a program that accepts a connection is up.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from theatre.engine.oracle_contract import MAX_ERROR_DETAIL
from theatre.oracles.child_process import SLOW_DEATH_SECONDS, RunningProgram
from theatre.oracles.construct_registry import PORT
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits, describe_exit
from theatre.oracles.process_tree import ComplaintPipe

LOOPBACK = "127.0.0.1"
_LAST_WORDS_BYTES = (MAX_ERROR_DETAIL - 400) // 2
_POLL_SECONDS = 0.01
_DEATH_GRACE_SECONDS = 0.5
_TERMINATION_GRACE_SECONDS = 0.5
# As many as an engine connects at once.
_BACKLOG = 128
# Where `struct tcp_info` has, for a socket that listens, its connections that wait.
_UNACKED = 24


class ServedProcess(RunningProgram):
    """A program that serves a port of 127.0.0.1. Its stdin is open and silent.

    Where `{port}` is in `argv` it opens the port itself; else it is handed the socket, which
    listens already. `place` is closed once the program serves, or has ended.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        place: "ClaimedPort",
        environment: Mapping[str, str],
        limits: ProcessLimits,
        reach: Reach,
    ) -> None:
        """Start `argv`, with the port for each `{port}` in it, as `RunningProgram`."""
        self._place = place
        self._is_knocked = False
        super().__init__(
            [argument.replace(PORT, str(place.port)) for argument in argv],
            environment=environment,
            limits=limits,
            reach=reach,
            complaint_limit=_LAST_WORDS_BYTES,
            listener=None if place.listener is None else place.listener.fileno(),
        )
        self._port = place.port
        self._prints = ComplaintPipe(self._stdout.fileno(), limit=_LAST_WORDS_BYTES)
        self._obituary: str | None = None
        self._over = asyncio.Event()
        # A separate descriptor: two waiters on the same one would disturb each other.
        self._watched = [os.dup(descriptor) for descriptor in self._exit_descriptors()]
        for descriptor in self._watched:
            asyncio.get_running_loop().add_reader(descriptor, self._note_end)

    @property
    def exit_report(self) -> str | None:
        """Return the end of what it printed and how it ended; None before `end`."""
        return self._obituary

    async def wait_until_serving(self, *, within_seconds: float) -> None:
        """Return when the port accepts connections and the process is alive.

        Raises ConstructUnreachableError, with the end of what the program printed, where it
        cannot be executed, ends, or does not get so far in time.
        """
        wanted = f"expected {list(self._argv)!r:.300} to serve {LOOPBACK}:{self._port}"
        try:
            async with asyncio.timeout(within_seconds):
                await self.wait_for_launch()
                while not await self._accepts_connections():
                    if await self.wait_for_exit(_POLL_SECONDS):
                        break
        except TimeoutError as error:
            raise ConstructUnreachableError(
                f"{wanted} within {within_seconds:g} s, got no connection; it printed:\n"
                f"{self._last_words() or '[nothing]'}".rstrip("\n")
            ) from error
        # From now on the socket closes with the program, and calls learn of its death.
        self._place.close()
        # The port may have been taken by another program; then this process is about to die.
        if self.has_ended():
            await self.end()
            raise ConstructUnreachableError(
                f"{wanted}, got its end; it printed:\n{self._obituary}".rstrip("\n")
            )

    async def _accepts_connections(self) -> bool:
        listener = self._place.listener
        if listener is None:
            return await _accepts_connections(self._port)
        # The system connects to a socket that listens: the program serves once it took that over.
        self._is_knocked = self._is_knocked or await _accepts_connections(self._port)
        return self._is_knocked and _waiting_connections(listener) == 0

    async def wait_for_sudden_exit(self) -> bool:
        """Return whether the process ends, or is dying, within half a second. Any task may ask.

        A dying process loses its connections first, and on a busy machine its last thread long
        after: that is waited for, ten seconds at most. `end` it then: it is as good as dead.
        """
        if await self._over_within(_DEATH_GRACE_SECONDS):
            return True
        dying = self.is_dying()
        if dying:
            await self._over_within(SLOW_DEATH_SECONDS)
        return dying

    async def end(self) -> int | None:
        """End the process as `RunningProgram`, and write its exit_report."""
        exit_code = await super().end()
        if self._obituary is None:
            ending = describe_exit(exit_code, self._limits)
            self._obituary = f"{self._last_words()}[the program ended: {ending}]\n"
        return exit_code

    async def stop_gently(self) -> None:
        """Ask it to end (SIGTERM), and give it half a second."""
        if not self.has_ended():
            os.kill(self._pid, signal.SIGTERM)
        await self.wait_for_exit(_TERMINATION_GRACE_SECONDS)

    def close(self) -> None:
        """Let go of descriptors and folder, after `end`."""
        self._note_end()
        self._place.close()
        self._prints.stop()
        super().close()

    async def _over_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return self._over.is_set()

    def _note_end(self) -> None:
        for descriptor in self._watched:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()
        self._over.set()

    def _last_words(self) -> str:
        return "".join(
            words if words.endswith("\n") else f"{words}\n"
            for words in (self._prints.take(), self.complaints())
            if words
        )


class ClaimedPort(NamedTuple):
    """A port of 127.0.0.1 for a program, and the socket that listens there already, if one does."""

    port: int
    listener: socket.socket | None

    def close(self) -> None:
        """Let go of this side's copy of the socket."""
        if self.listener is not None:
            self.listener.close()


def claim_port(port: int, *, listens: bool) -> ClaimedPort:
    """Return a place at `port`, or for 0 any, on which no program of this machine listens now.

    Raises ConstructUnreachableError where one does.
    """
    claim = socket.socket()
    # As servers do: what is left of closed connections is no obstacle.
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        claim.bind((LOOPBACK, port))
        if listens:
            claim.listen(_BACKLOG)
    except OSError as error:
        claim.close()
        raise ConstructUnreachableError(
            f"expected {LOOPBACK}:{port} to be free again, got: {error}"
        ) from error
    place = ClaimedPort(port=int(claim.getsockname()[1]), listener=claim if listens else None)
    if not listens:
        claim.close()
    return place


def is_taken(port: int) -> bool:
    """Return whether a program on this machine has `port`."""
    try:
        claim_port(port, listens=False)
    except ConstructUnreachableError:
        return True
    return False


def _waiting_connections(listener: socket.socket) -> int:
    """Return how many connections no program has accepted yet; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    facts = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKED + 4)
    return int.from_bytes(facts[_UNACKED : _UNACKED + 4], sys.byteorder)


async def _accepts_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    here, there = (writer.get_extra_info(name) for name in ("sockname", "peername"))
    writer.close()
    # Where nothing listens, a connection may by chance leave from that port and meet itself.
    return bool(here != there)
