"""What takes its time while a run is settled is not done in the thread of the event loop."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Self

import pytest

from tests.theatre.runs import ScriptedAdapter, episodes, pilot_stage, right
from theatre.engine.replay.context import run_in_thread
from theatre.engine.scoring import Aggregator

SLOW: dict[CodeType | Callable[..., object], str] = {
    os.fsync: "fsync",
    Aggregator.add.__code__: "add",
    Aggregator.finish.__code__: "finish",
}


class Observer:
    """Notes which of the slow functions are called in an event loop's thread, and which beside."""

    def __init__(self) -> None:
        self.in_loop: set[str] = set()
        self.beside: set[str] = set()

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        threading.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        called = {"call": frame.f_code, "c_call": argument}.get(event)
        name = SLOW.get(called) if callable(called) or isinstance(called, CodeType) else None
        if name is not None:
            (self.in_loop if in_a_loop() else self.beside).add(name)


def in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_a_run_is_settled_beside_the_loop(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(120, {}))
    with Observer() as seen:
        finished = stage.run(ScriptedAdapter(right))
    assert finished.bundle.is_dir()
    assert seen.in_loop == set()
    assert seen.beside == {"fsync", "add", "finish"}


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_what_was_begun_ends_before_a_cancellation_comes_through(ends: str) -> None:
    begun, raise_if_cancelled = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        assert raise_if_cancelled.wait(60)
        done.append("work")
        if ends == "badly":
            raise ZeroDivisionError

    async def scene() -> None:
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        assert not task.done()
        task.cancel()
        raise_if_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["work"]

    asyncio.run(scene())


def test_work_comes_back_with_what_it_returns_or_raises() -> None:
    async def scene() -> None:
        assert await run_in_thread(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(divmod, 7, 0)

    asyncio.run(scene())
