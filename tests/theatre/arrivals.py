"""Answers that come in when the test says so: the order of arrival as a choice, not as luck."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.theatre.runs import (
    Answer,
    Finished,
    ScriptedAdapter,
    Stage,
    episodes,
    pilot_stage,
    right,
)
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import EpisodeResult
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.engine.replay import RecordedSequences, RunJournal
from theatre.files.theatre_store import FileTheatreStore

T = TypeVar("T")
Choice = Callable[[Sequence[int]], int]
"""Picks the next episode to be answered from those that are out, in ascending order."""


EPISODES = 24
SIXTEEN: Mapping[str, JsonValue] = {"/execution_policy/max_concurrency": 16}


def play(scene: Callable[[], Awaitable[T]]) -> T:
    """Play a scene in a loop of its own; no task may be left over in it."""

    async def stage() -> T:
        outcome = await asyncio.wait_for(scene(), timeout=60)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return outcome

    return asyncio.run(stage())


def sixteen(folder: Path, answers: Mapping[int, JsonObject]) -> Stage:
    """Return a theatre of EPISODES that commits sixteen calls at a time."""
    return pilot_stage(folder, episodes(EPISODES, answers), changes=SIXTEEN)


def journalled(stage: Stage) -> list[int]:
    """Return the episodes that the journal holds."""

    async def read() -> list[int]:
        with FileTheatreStore(stage.folder.parents[1]).hold(stage.theatre_id) as held:
            return [result.seq async for result in held.journal.results()]

    return asyncio.run(read())


async def settle() -> None:
    """Let every task run until it waits for something that does not happen by itself."""
    for _ in range(50):
        await asyncio.sleep(0)


async def until(look: Callable[[], bool]) -> None:
    """Let every task run until `look` sees what it waits for; `play` bounds the time."""
    while not look():
        await settle()


async def never(_: float) -> None:
    """Sleep without end: a batch that is not full is written on leaving only."""
    await asyncio.Event().wait()


class HeldAdapter(ScriptedAdapter):
    """Holds each answer back until it is let in; knows who was called, and who is out.

    `given_up` are the episodes whose calls were cancelled.
    """

    def __init__(self, answer: Answer = right) -> None:
        super().__init__(answer)
        self.called: list[int] = []
        self.given_up: list[int] = []
        self.most_out = 0
        self._gates: dict[int, asyncio.Event] = {}
        self._somebody = asyncio.Event()

    @property
    def out(self) -> list[int]:
        """Return the episodes that wait for their answer."""
        return sorted(self._gates)

    @property
    def answered(self) -> list[int]:
        """Return the episodes whose answers were let in, in that order."""
        return [request.input_data["seq"] for request in self.asked]

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        seq = request.input_data["seq"]
        self.called.append(seq)
        self._gates[seq] = gate = asyncio.Event()
        self._somebody.set()
        self.most_out = max(self.most_out, len(self._gates))
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.given_up.append(seq)
            raise
        finally:
            del self._gates[seq]
            if not self._gates:
                self._somebody.clear()
        return await super().invoke(request)

    def let_in(self, *seqs: int) -> None:
        """Let answers in; what they cause happens when the caller next waits."""
        for seq in seqs:
            self._gates[seq].set()

    async def somebody_is_out(self) -> None:
        """Wait for a call."""
        await self._somebody.wait()


async def answered_one_by_one(
    run: asyncio.Task[Finished], construct: HeldAdapter, choose: Choice
) -> Finished:
    """Let one answer in after the other, each time all calls are out that may be."""
    while True:
        call = asyncio.ensure_future(construct.somebody_is_out())
        await asyncio.wait({run, call}, return_when=asyncio.FIRST_COMPLETED)
        call.cancel()
        if run.done():
            return await run
        await settle()
        if construct.out:
            construct.let_in(choose(construct.out))
            await settle()


class HeldJournal:
    """The run's own journal, whose next batch waits until it is let through."""

    def __init__(self, journal: RunJournal) -> None:
        self.waiting = 0
        self.durable = 0
        self._journal = journal
        self._gate = asyncio.Event()

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        self.waiting = len(results)
        await self._gate.wait()
        self._gate.clear()
        self.waiting = 0
        await self._journal.append(results, events)
        self.durable += len(results)

    def let_through(self) -> None:
        """Let the batch be written that waits, or that comes next."""
        self._gate.set()

    async def recorded(self) -> RecordedSequences:
        return await self._journal.recorded()

    def results(self) -> AsyncIterator[EpisodeResult]:
        return self._journal.results()

    async def note(self, event: AuditEvent) -> JsonObject:
        return await self._journal.note(event)

    def trail(self) -> AsyncIterator[JsonObject]:
        return self._journal.trail()
