"""`local@1`: a construct as a child process, one JSON envelope a line (docs/contract/construct.md).

A process boundary keeps a construct's faults away from the run; what else it can reach is bounded
by `theatre.oracles.isolation`.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from theatre.engine.clock import Clock
from theatre.engine.errors import TheatreError
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_DETAIL,
    Attempt,
    Isolation,
    OracleInvocationRequest,
    clean_detail,
    read_answer,
)
from theatre.oracles.child_process import ChildProcess, Reply
from theatre.oracles.construct_files import BoundProgram, CurrentProgram
from theatre.oracles.errors import AdapterClosedError, ConstructUnreachableError
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.means import PYTHON_ALONE, Reach
from theatre.oracles.limited_process import ProcessLimits, construct_environment, describe_exit
from theatre.oracles.wire_forms import CallFailure, version_mismatch, wait_within

_MILLISECONDS = 1000
_MAX_COMPLAINT_BYTES = MAX_ERROR_DETAIL - 400
_START_SECONDS = 10.0
_NAMES_AN_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
"""As Python and Node.js begin that line; what Node.js prints last is its version."""
# After these the construct still stands where the protocol expects it: one answer to one call.
_IN_STEP = frozenset({None, "wrong-construct-id", "version-mismatch"})


class ProgramAdapter:
    """What the adapters have in common that start a construct's program themselves.

    `bind` makes the private copy that runs, and computes its version; it is called for every
    start of the process, in a thread, so that an edit between two starts shows as a
    `version-mismatch` and one after a start as nothing. The argv is executed as bound, never by a
    shell, in its own empty folder, isolated, without `network` unless it is allowed one.
    `monotonic` returns seconds and measures latency.
    """

    def __init__(
        self,
        bind: Callable[[], BoundProgram],
        *,
        limits: ProcessLimits,
        clock: Clock,
        monotonic: Callable[[], float],
        reach: Reach = PYTHON_ALONE,
    ) -> None:
        self._program = CurrentProgram(bind)
        self._limits = limits
        self._reach = reach
        self._clock = clock
        self._monotonic = monotonic
        self._closed = False

    @property
    def computed_version(self) -> str:
        """Return the version of the last start; before the first, of what that will run.

        Raises ConstructFilesError where the files cannot be read.
        """
        return self._program.version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return what a program started now can reach, as `canary.probe_isolation`."""
        return await asyncio.to_thread(probe_isolation, closed, self._reach)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise AdapterClosedError("The adapter is closed: aclose() was called before")


class LocalOracleAdapter(ProgramAdapter):
    """Runs a construct's program and asks it one question at a time.

    Reasons in addition to those of `read_answer`: `timeout`, `crashed` (ended before an answer),
    `unreachable` (could not be started).
    """

    pin = "local@1"

    def __init__(
        self,
        bind: Callable[[], BoundProgram],
        *,
        limits: ProcessLimits,
        clock: Clock,
        monotonic: Callable[[], float],
        reach: Reach = PYTHON_ALONE,
    ) -> None:
        """Start nothing yet."""
        super().__init__(bind, limits=limits, clock=clock, monotonic=monotonic, reach=reach)
        self._one_at_a_time = asyncio.Lock()
        self._process: ChildProcess | None = None
        self._remarks: list[str] = []

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try; calls made at the same time wait for each other, each its full time.

        Raises AdapterClosedError after `aclose`; nothing for what the construct does.
        """
        async with self._one_at_a_time:
            self._refuse_if_closed()
            try:
                return await self._attempt(request)
            except asyncio.CancelledError:
                await self._stop()
                raise

    async def check_reachable(self) -> None:
        """Start the process now, unless it runs.

        Raises ConstructUnreachableError where it cannot be executed, and ConstructFilesError
        where its files cannot be read.
        """
        async with self._one_at_a_time:
            self._refuse_if_closed()
            if self._process is None:
                try:
                    await self._require_ready(await self._start())
                except BaseException:
                    await self._stop()
                    raise

    async def _require_ready(self, process: ChildProcess) -> None:
        """Raise ConstructUnreachableError for a program that ends before it was asked anything.

        Else each call would find out anew, and fail. It has read nothing of a question, so it
        cannot choose by one. A program that is not done with its start after a while is not
        waited for.
        """
        has_ended = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                has_ended = await process.wait_until_idle()
        if has_ended:
            ended = describe_exit(await process.end(), self._limits)
            raise await self._not_ready("a program that waits for questions on stdin", ended)

    async def _not_ready(self, expected: str, ended: str) -> ConstructUnreachableError:
        """Stop the process; return what is to be raised for one that cannot be asked."""
        await self._stop()
        said = [line.strip() for line in self._take_complaints().splitlines() if line.strip()]
        named = [line for line in said if _NAMES_AN_ERROR.match(line)]
        printed = f"; it printed: {(named or said)[-1]}" if said else ""
        return ConstructUnreachableError(
            f"expected {expected}, got: {ended}{printed}; nothing was asked yet: correct it, or "
            "install what it imports, and run it again"
        )

    async def aclose(self) -> None:
        """End the process with all that it started, and remove its folder."""
        async with self._one_at_a_time:
            self._closed = True
            if self._process is not None:
                await self._process.stop_gently()
            await self._stop()

    async def _attempt(self, request: OracleInvocationRequest) -> Attempt:
        started = self._monotonic()
        outcome = await wait_within(
            self._exchange(request), seconds=request.metadata.timeout_seconds
        )
        latency_ms = round((self._monotonic() - started) * _MILLISECONDS)
        attempt = self._judge(outcome, request, latency_ms)
        took_whole_question = self._process is None or self._process.wrote_all()
        if attempt.reason in _IN_STEP and took_whole_question:
            self._keep_complaints()
        else:
            await self._stop()
        return replace(attempt, stderr=self._take_complaints() or None)

    def _take_complaints(self) -> str:
        """Return what was printed on stderr since the last time, cut and cleaned."""
        remarks = "".join(self._remarks)
        self._remarks.clear()
        return clean_detail(remarks)

    async def _exchange(self, request: OracleInvocationRequest) -> Reply | CallFailure:
        # ASCII, so that no line-reading library finds a line break inside the envelope.
        line = json.dumps(request.as_document(), allow_nan=False).encode("ascii") + b"\n"
        try:
            await self._leave_unusable_process()
            outcome = await self._ask(line, request)
            if isinstance(outcome, Reply) and outcome.between_calls:
                await self._stop()
                outcome = await self._ask(line, request)
        except TheatreError as error:
            return CallFailure(reason="unreachable", detail=str(error))
        return outcome

    async def _ask(self, line: bytes, request: OracleInvocationRequest) -> Reply | CallFailure:
        process = self._process or await self._start()
        if self.computed_version != request.construct_version:
            return version_mismatch(request, self.computed_version)
        return await process.exchange(line)

    def _judge(
        self, outcome: Reply | CallFailure, request: OracleInvocationRequest, latency_ms: int
    ) -> Attempt:
        responded_at = self._clock()
        if isinstance(outcome, Reply):
            attempt = read_answer(
                outcome.data, request, latency_ms=latency_ms, responded_at=responded_at
            )
            cut_short = outcome.ended and not (outcome.data and outcome.exit_code == 0)
            if attempt.reason is None or not cut_short:
                return attempt
            ending = "it closed its stdout and was ended"
            if outcome.exit_code is not None:
                ending = describe_exit(outcome.exit_code, self._limits)
            outcome = CallFailure(
                reason="crashed",
                detail=f"expected an answer line, got the end of the process: {ending}",
                raw=outcome.data or None,
            )
        return outcome.as_attempt(request, latency_ms=latency_ms, responded_at=responded_at)

    async def _start(self) -> ChildProcess:
        program = await self._program.bound()
        self._process = ChildProcess(
            program.argv,
            environment=construct_environment(program.version),
            limits=self._limits,
            reach=self._reach._replace(reading=program.reading),
            line_limit=MAX_ANSWER_BYTES,
            complaint_limit=_MAX_COMPLAINT_BYTES,
        )
        await self._process.wait_for_launch()
        return self._process

    async def _leave_unusable_process(self) -> None:
        """Stop a process that ended, or that printed something without a question."""
        if self._process is None:
            return
        unsolicited = self._process.read_unsolicited()
        if unsolicited:
            self._remarks.append(
                f"[restarted before this call: {len(unsolicited)} bytes or more of output "
                f"answered no call; they begin {unsolicited[:40]!r}]\n"
            )
        if unsolicited or self._process.has_ended():
            await self._stop()

    async def _stop(self) -> None:
        """End the process, if there is one, and keep what it complained of to the last."""
        if self._process is not None:
            await self._process.end()
            self._keep_complaints()
            self._process.close()
            self._process = None
        self._program.release()

    def _keep_complaints(self) -> None:
        if self._process is not None:
            self._remarks.append(self._process.complaints())
