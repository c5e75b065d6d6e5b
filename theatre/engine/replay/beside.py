"""Long work in a thread, so that the event loop keeps running.

The loop renews the lease of the run: a settlement that blocked it would lose the run to another
worker again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from theatre.engine.errors import RunStoppedError

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def run_in_thread(work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """Return what `work` returns; when cancelled, wait for its end and then be cancelled.

    A thread cannot be stopped, so its output must not be removed while it still writes.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    cancelled: asyncio.CancelledError | None = None
    while not thread.done():
        try:
            await asyncio.wait([thread])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        return thread.result()
    finally:
        # This replaces what the work raised: the caller that cancelled must see its cancellation.
        if cancelled is not None:
            raise cancelled


def cancellation_check() -> Callable[[], None]:
    """Return a function that raises RunStoppedError once the calling task is cancelled.

    Long work in a thread calls it from time to time, so that a cancelled caller need not wait.
    """
    caller = asyncio.current_task()

    def raise_if_cancelled() -> None:
        if caller is not None and caller.cancelling():
            raise RunStoppedError("expected to settle the run to its end, got asked to stop before")

    return raise_if_cancelled
