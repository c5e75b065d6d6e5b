"""Batches: full or old enough, never cut off, never written twice, never with a gap."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from theatre.engine.models import EpisodeOutcome, EpisodeResult, InvocationRecord, InvocationStatus
from theatre.engine.replay.recording import BatchWriter

NEVER = 3600.0


def result(seq: int) -> EpisodeResult:
    return EpisodeResult(
        seq=seq,
        episode_id=f"e{seq}",
        status=InvocationStatus.SUCCESS,
        outcome=EpisodeOutcome.SCORED,
        scores={},
        facts={},
        record=InvocationRecord({}),
    )


class HandClock:
    """A sleep that ends when the test says so."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._sleepers: list[asyncio.Event] = []

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        sleeper = asyncio.Event()
        self._sleepers.append(sleeper)
        await sleeper.wait()

    async def ring(self) -> None:
        """Let everybody who sleeps now wake up, and do what they do then."""
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            sleeper.set()
        await settle()


async def settle() -> None:
    """Let every task run until it waits for something that does not happen by itself."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass
class Disk:
    """Where batches go. A write begins, waits while `stuck`, and fails where it is told to."""

    written: list[list[int]] = field(default_factory=list)
    begun: int = 0
    stuck: bool = False
    failing: bool = False
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    async def flush(self, results: Sequence[EpisodeResult]) -> None:
        self.begun += 1
        while self.stuck:
            await self._freed.wait()
        if self.failing:
            raise OSError(28, "No space left on device")
        self.written.append([one.seq for one in results])

    def free(self) -> None:
        self.stuck = False
        self._freed.set()

    @property
    def recorded(self) -> list[int]:
        return [seq for batch in self.written for seq in batch]


Scene = Callable[[Disk, HandClock], Awaitable[None]]


def play(scene: Scene) -> Disk:
    """Play a scene in a loop of its own; no task may be left over in it."""

    async def stage() -> Disk:
        disk = Disk()
        await asyncio.wait_for(scene(disk, HandClock()), timeout=60)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return disk

    return asyncio.run(stage())


def test_a_full_batch_is_written_at_once_and_the_rest_on_leaving() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async with BatchWriter(disk.flush, size=3, max_age=NEVER, sleep=clock.sleep) as writer:
            for seq in range(1, 9):
                await writer.put(result(seq))
            assert disk.written == [[1, 2, 3], [4, 5, 6]]

    assert play(scene).written == [[1, 2, 3], [4, 5, 6], [7, 8]]


def test_nothing_is_written_where_nothing_was_put() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async with BatchWriter(disk.flush, size=3, max_age=NEVER, sleep=clock.sleep):
            pass
        assert (disk.begun, clock.asked) == (0, [])

    assert play(scene).written == []


def test_a_batch_that_is_old_enough_is_written_though_it_is_not_full() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async with BatchWriter(disk.flush, size=100, max_age=1.5, sleep=clock.sleep) as writer:
            await writer.put(result(1))
            await writer.put(result(2))
            await settle()
            assert (disk.written, clock.asked) == ([], [1.5])
            await clock.ring()
            assert disk.written == [[1, 2]]
            await writer.put(result(3))
            await settle()
            assert (disk.written, clock.asked) == ([[1, 2]], [1.5, 1.5])
            await clock.ring()
            assert disk.written == [[1, 2], [3]]
            await clock.ring()

    assert play(scene).written == [[1, 2], [3]]


def test_a_timer_that_rings_after_a_full_batch_writes_what_came_since() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async with BatchWriter(disk.flush, size=2, max_age=1, sleep=clock.sleep) as writer:
            for seq in (1, 2, 3):
                await writer.put(result(seq))
            await settle()
            assert clock.asked == [1]
            await clock.ring()
            assert disk.written == [[1, 2], [3]]

    assert play(scene).written == [[1, 2], [3]]


def test_an_error_in_the_run_still_writes_what_was_answered() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async def run() -> None:
            async with BatchWriter(disk.flush, size=9, max_age=NEVER, sleep=clock.sleep) as writer:
                await writer.put(result(1))
                await writer.put(result(2))
                raise LookupError("the run failed")

        with pytest.raises(LookupError, match="the run failed"):
            await run()

    assert play(scene).written == [[1, 2]]


def test_a_cancelled_run_still_writes_what_was_answered() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async def run() -> None:
            async with BatchWriter(disk.flush, size=9, max_age=NEVER, sleep=clock.sleep) as writer:
                await writer.put(result(1))
                await asyncio.Event().wait()

        task = asyncio.create_task(run())
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert play(scene).written == [[1]]


async def put_all(disk: Disk, clock: HandClock, *, count: int, size: int) -> None:
    async with BatchWriter(disk.flush, size=size, max_age=1, sleep=clock.sleep) as writer:
        for seq in range(1, count + 1):
            await writer.put(result(seq))


def test_a_write_that_began_ends_however_often_the_run_is_cancelled() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        disk.stuck = True
        task = asyncio.create_task(put_all(disk, clock, count=5, size=2))
        for _ in range(3):
            await settle()
            task.cancel()
        await settle()
        assert (task.done(), disk.begun, disk.written) == (False, 1, [])
        disk.free()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert play(scene).written == [[1, 2]]


def test_leaving_is_not_cut_short_by_a_second_cancellation() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        ready = asyncio.Event()

        async def run() -> None:
            async with BatchWriter(disk.flush, size=9, max_age=1, sleep=clock.sleep) as writer:
                await writer.put(result(1))
                await settle()
                disk.stuck = True
                await clock.ring()
                ready.set()
                await writer.put(result(2))

        task = asyncio.create_task(run())
        await ready.wait()
        await settle()
        for _ in range(4):
            task.cancel()
            await settle()
        assert (task.done(), disk.begun, disk.written) == (False, 1, [])
        disk.free()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert play(scene).written == [[1], [2]]


def test_whoever_puts_while_a_batch_is_being_written_waits_for_its_end() -> None:
    """Else callers would go on to their next results, and ever more of them be in memory only."""

    async def scene(disk: Disk, clock: HandClock) -> None:
        disk.stuck = True
        async with BatchWriter(disk.flush, size=2, max_age=NEVER, sleep=clock.sleep) as writer:
            await writer.put(result(1))
            puts = [asyncio.create_task(writer.put(result(seq))) for seq in (2, 3, 4, 5)]
            await settle()
            seen = ([put.done() for put in puts], disk.begun)
            disk.free()
            await asyncio.gather(*puts)
            assert (seen, disk.written) == (([False] * 4, 1), [[1, 2], [3, 4, 5]])

    assert play(scene).written == [[1, 2], [3, 4, 5]]


def test_a_write_in_the_background_is_waited_for_as_well() -> None:
    async def scene(disk: Disk, clock: HandClock) -> None:
        async with BatchWriter(disk.flush, size=9, max_age=1, sleep=clock.sleep) as writer:
            await writer.put(result(1))
            await settle()
            disk.stuck = True
            await clock.ring()
            put = asyncio.create_task(writer.put(result(2)))
            await settle()
            seen = (put.done(), disk.begun)
            disk.free()
            await put
            assert seen == (False, 1)

    assert play(scene).written == [[1], [2]]


def failing_run(
    body: Callable[[BatchWriter[EpisodeResult], Disk, HandClock], Awaitable[None]], size: int
) -> Disk:
    """Play a run that must end with the disk's own error."""

    async def scene(disk: Disk, clock: HandClock) -> None:
        async def run() -> None:
            async with BatchWriter(disk.flush, size=size, max_age=1, sleep=clock.sleep) as writer:
                await body(writer, disk, clock)

        with pytest.raises(OSError, match="No space left"):
            await run()

    return play(scene)


def test_a_failing_write_surfaces_where_the_batch_became_full() -> None:
    async def body(writer: BatchWriter[EpisodeResult], disk: Disk, _: HandClock) -> None:
        await writer.put(result(1))
        disk.failing = True
        await writer.put(result(2))
        pytest.fail("the second put must raise")

    disk = failing_run(body, size=2)
    assert (disk.begun, disk.written) == (1, [])


def test_a_failing_write_surfaces_on_leaving() -> None:
    async def body(writer: BatchWriter[EpisodeResult], disk: Disk, _: HandClock) -> None:
        await writer.put(result(1))
        disk.failing = True

    disk = failing_run(body, size=9)
    assert (disk.begun, disk.written) == (1, [])


def test_a_write_that_fails_in_the_background_surfaces_and_leaves_no_gap_behind_it() -> None:
    async def body(writer: BatchWriter[EpisodeResult], disk: Disk, clock: HandClock) -> None:
        await writer.put(result(1))
        await settle()
        disk.failing = True
        await clock.ring()
        disk.failing = False
        await writer.put(result(2))
        pytest.fail("the second put must raise")

    disk = failing_run(body, size=2)
    assert (disk.begun, disk.written) == (1, [])


def test_a_write_that_fails_in_the_background_surfaces_also_if_nothing_is_put_any_more() -> None:
    async def body(writer: BatchWriter[EpisodeResult], disk: Disk, clock: HandClock) -> None:
        await writer.put(result(1))
        await settle()
        disk.failing = True
        await clock.ring()
        disk.failing = False

    disk = failing_run(body, size=9)
    assert (disk.begun, disk.written) == (1, [])


def test_after_a_failed_write_a_run_that_goes_on_writes_nothing_more() -> None:
    async def body(writer: BatchWriter[EpisodeResult], disk: Disk, _: HandClock) -> None:
        disk.failing = True
        with pytest.raises(OSError, match="No space left"):
            await writer.put(result(1))
        disk.failing = False
        await writer.put(result(2))
        raise OSError(28, "No space left on device")

    disk = failing_run(body, size=1)
    assert (disk.begun, disk.written) == (1, [])


def test_a_timer_that_cannot_wait_surfaces_and_what_was_answered_is_written() -> None:
    async def broken_sleep(_: float) -> None:
        raise RuntimeError("no timers here")

    async def scene(disk: Disk, _: HandClock) -> None:
        async def run() -> None:
            async with BatchWriter(disk.flush, size=9, max_age=1, sleep=broken_sleep) as writer:
                await writer.put(result(1))
                await settle()
                await writer.put(result(2))

        with pytest.raises(RuntimeError, match="no timers here"):
            await run()

    assert play(scene).written == [[1, 2]]


ACTIONS = st.lists(st.sampled_from(["put", "ring", "cancel", "settle"]), max_size=30)
CALLERS = st.integers(min_value=1, max_value=4)


@settings(deadline=None, max_examples=drawn(200))
@given(ACTIONS, st.integers(min_value=1, max_value=4), CALLERS, st.booleans())
def test_what_was_put_is_written_once_and_in_order_whatever_happens(
    actions: list[str],
    size: int,
    callers: int,
    stuck: bool,  # noqa: FBT001  # drawn, not passed by a caller
) -> None:
    put: list[int] = []
    waiting: list[int] = []

    async def scene(disk: Disk, clock: HandClock) -> None:
        disk.stuck = stuck
        orders: asyncio.Queue[None] = asyncio.Queue()

        async def call(writer: BatchWriter[EpisodeResult]) -> None:
            while True:
                await orders.get()
                put.append(len(put) + 1)
                waiting.append(len(put) - len(disk.recorded))
                await writer.put(result(put[-1]))

        async def run() -> None:
            async with BatchWriter(disk.flush, size=size, max_age=1, sleep=clock.sleep) as writer:
                await asyncio.gather(*(call(writer) for _ in range(callers)))

        task = asyncio.create_task(run())
        await settle()
        for action in actions:
            if action == "put":
                orders.put_nowait(None)
            elif action == "ring":
                await clock.ring()
            elif action == "cancel":
                task.cancel()
            await settle()
        task.cancel()
        await settle()
        disk.free()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert play(scene).recorded == put
    assert max(waiting, default=0) <= size + callers - 1
