"""`http@1` over a program that the runner starts itself: one that is registered to serve HTTP.

The process is kept as `theatre.oracles.local` keeps its own, and asked as
`theatre.oracles.http` asks any service; the policy lets calls go to its port and nowhere else.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from theatre.engine.clock import Clock
from theatre.engine.errors import TheatreError
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest, clean_detail
from theatre.oracles.construct_files import BoundProgram
from theatre.oracles.construct_registry import PORT, RegisteredConstruct, source_of
from theatre.oracles.errors import (
    AdapterClosedError,
    ConstructTransportError,
    ConstructUnreachableError,
)
from theatre.oracles.http import HTTPOracleAdapter
from theatre.oracles.isolation.means import PYTHON_ALONE, Reach
from theatre.oracles.limited_process import ProcessLimits, construct_environment
from theatre.oracles.local import ProgramAdapter
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.served_process import (
    LOOPBACK,
    ClaimedPort,
    ServedProcess,
    claim_port,
    is_taken,
)
from theatre.oracles.wire_forms import CallFailure, version_mismatch

_MILLISECONDS = 1000
# After these the program may be dead.
_LOST = frozenset({"disconnected", "unreachable"})
_PORTS_TRIED = 3


class _Running(NamedTuple):
    """One start of the program, and the way to ask it."""

    process: ServedProcess
    version: str
    http: HTTPOracleAdapter


class ServedOracleAdapter(ProgramAdapter):
    """Starts a program that serves a port and asks it by HTTP, several calls at a time.

    As `ProgramAdapter`, but for `{port}` in the argv. Without it the program is handed the socket
    that listens; for one that opens its own, no port can be held, and a start takes another where
    one was lost, up to three. The process lives until `aclose`; where it died, the next call starts
    it again on any free port. The start, at most `start_seconds`, is no part of a call's time.

    More reasons than in `HTTPOracleAdapter`: `unreachable` where the program does not come
    up, with the end of what it printed. A call that met the death of the program has its last
    words as `stderr`.
    """

    pin = "http@1"

    def __init__(
        self,
        bind: Callable[[], BoundProgram],
        *,
        limits: ProcessLimits,
        start_seconds: float,
        clock: Clock,
        monotonic: Callable[[], float],
        reach: Reach = PYTHON_ALONE,
    ) -> None:
        """Start nothing yet."""
        super().__init__(bind, limits=limits, clock=clock, monotonic=monotonic, reach=reach)
        self._start_seconds = start_seconds
        self._changing = asyncio.Lock()
        self._running: _Running | None = None
        self._tries = 0
        self._problem: TheatreError | None = None

    async def check_reachable(self) -> None:
        """Start the program now, unless it runs.

        Raises ConstructUnreachableError, with the end of what it printed, where it does not
        come up, and ConstructFilesError where its files cannot be read.
        """
        await self._up()

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try; raises AdapterClosedError after `aclose`, and nothing for the program."""
        began = self._monotonic()
        try:
            running = await self._up()
        except AdapterClosedError:
            raise
        except TheatreError as error:
            outcome = CallFailure(reason="unreachable", detail=str(error))
        else:
            if running.version == request.construct_version:
                return await self._ask(running, request)
            outcome = version_mismatch(request, running.version)
        latency_ms = round((self._monotonic() - began) * _MILLISECONDS)
        return outcome.as_attempt(request, latency_ms=latency_ms, responded_at=self._clock())

    async def aclose(self) -> None:
        """End the program with all that it started; calls under way end as `disconnected`."""
        self._closed = True
        async with self._changing:
            if self._running is not None:
                await self._running.http.aclose()
                await self._running.process.stop_gently()
                await self._stop(self._running)
            self._program.release()

    async def _ask(self, running: _Running, request: OracleInvocationRequest) -> Attempt:
        attempt = await running.http.invoke(request)
        if attempt.reason in _LOST and await running.process.wait_for_sudden_exit():
            async with self._changing:
                if self._running is running:
                    await self._stop(running)
            return replace(attempt, stderr=clean_detail(running.process.exit_report or ""))
        return attempt

    async def _up(self) -> _Running:
        """Return the running program, started if need be; calls that wait share one start."""
        tries = self._tries
        async with self._changing:
            self._refuse_if_closed()
            if self._running is not None and self._running.process.has_ended():
                await self._stop(self._running)
            if self._running is None:
                if self._problem is not None and self._tries != tries:
                    raise self._problem
                self._problem = None
                try:
                    self._running = await self._start()
                except TheatreError as error:
                    self._problem = error
                    self._program.release()
                    raise
                finally:
                    self._tries += 1
            return self._running

    async def _start(self) -> _Running:
        program = await self._program.bound()
        opens_port = any(PORT in argument for argument in program.argv)
        for _ in range(_PORTS_TRIED - 1 if opens_port else 0):
            place = claim_port(0, listens=False)
            try:
                return await self._start_at(program, place)
            except ConstructUnreachableError:
                if not is_taken(place.port):
                    raise
        return await self._start_at(program, claim_port(0, listens=not opens_port))

    async def _start_at(self, program: BoundProgram, place: ClaimedPort) -> _Running:
        try:
            process = ServedProcess(
                program.argv,
                place=place,
                environment=construct_environment(program.version),
                limits=self._limits,
                reach=self._reach._replace(reading=program.reading),
            )
        except BaseException:
            place.close()
            raise
        try:
            await process.wait_until_serving(within_seconds=self._start_seconds)
        except BaseException:
            await process.end()
            process.close()
            raise
        http = HTTPOracleAdapter(
            f"http://{LOOPBACK}:{place.port}/",
            policy=OutboundPolicy(allow=(f"{LOOPBACK}:{place.port}",)),
            clock=self._clock,
            monotonic=self._monotonic,
        )
        return _Running(process=process, version=program.version, http=http)

    async def _stop(self, running: _Running) -> None:
        await running.http.aclose()
        await running.process.end()
        running.process.close()
        self._program.release()
        # Not before: who is cancelled here leaves the rest to the next.
        self._running = None


def served_adapter_for(
    construct: RegisteredConstruct, *, clock: Clock, monotonic: Callable[[], float]
) -> ServedOracleAdapter:
    """Return the adapter that starts and calls `construct`, its files bound again at each start.

    Raises ConstructTransportError for a program that does not serve HTTP.
    """
    if construct.start_seconds is None:
        raise ConstructTransportError(
            f"expected {construct.construct_id} with a url, or as a program that serves_http, got "
            "one that speaks on stdin: its adapter is local"
        )
    return ServedOracleAdapter(
        source_of(construct).bind,
        limits=construct.limits,
        start_seconds=construct.start_seconds,
        clock=clock,
        monotonic=monotonic,
        reach=construct.reach,
    )
