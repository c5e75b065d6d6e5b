"""One event loop for every call of an async construct, whatever thread the call came in by."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable
from concurrent.futures import Future

_PATIENCE_SECONDS = 2.0


class EventLoopThread:
    """Runs awaitables in its own thread, so that what they share stays on one loop.

    A client session that a construct opens in its first call is still usable in its second.
    The thread starts with the first awaitable. It ends with the process, which cancels what is
    still under way.
    """

    def __init__(self) -> None:
        self._start = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Wait for an awaitable and return its result, or raise what it raised."""
        outcome = _result_or_ending(awaitable)
        result, ending = asyncio.run_coroutine_threadsafe(outcome, self._running_loop()).result()
        if ending is not None:
            raise ending
        return result

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._start:
            if self._loop is None:
                self._loop = _started_loop()
            return self._loop


def _started_loop() -> asyncio.AbstractEventLoop:
    started: Future[asyncio.AbstractEventLoop] = Future()
    ending = asyncio.Event()

    def run() -> None:
        with asyncio.Runner() as runner:
            started.set_result(runner.get_loop())
            runner.run(ending.wait())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    loop = started.result()

    def end() -> None:
        loop.call_soon_threadsafe(ending.set)
        thread.join(_PATIENCE_SECONDS)

    atexit.register(end)
    return loop


async def _result_or_ending(awaitable: Awaitable[object]) -> tuple[object, BaseException | None]:
    """Hand over an exception that would end the loop's thread, and leave the caller waiting."""
    try:
        return await awaitable, None
    except (SystemExit, KeyboardInterrupt) as ending:
        return None, ending
