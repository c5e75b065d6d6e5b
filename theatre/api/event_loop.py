"""Asynchronous work from a function that is not."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def complete(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end and return its result, also under an event loop (a notebook's).

    There it runs in a thread of its own, for which that loop waits.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
