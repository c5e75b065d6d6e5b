"""What every `RunJournal` must do, whatever it writes to.

A test class for an implementation derives from `JournalConformance` and says in `opened` how a
journal of a theatre is opened. Opening it a second time stands for a process that starts again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from theatre.engine.audit_chain import AuditEvent, entry_hash, verify_chain
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import JournalError, StateConflictError
from theatre.engine.models import (
    EpisodeOutcome,
    EpisodeResult,
    InvocationRecord,
    InvocationStatus,
    Scored,
    Verdict,
    sequence_ranges,
)
from theatre.engine.replay import RunJournal

THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
OTHER_THEATRE_ID = "7d1f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a22"
MORE_THAN_A_RUN_KEEPS_IN_MEMORY = 2_500

CREATED = AuditEvent(
    event_type="created", to_state="DRAFT", detail={}, at="2026-11-21T12:00:00.000000Z"
)
COMMITTED = AuditEvent(
    event_type="committed",
    from_state="DRAFT",
    to_state="COMMITTED",
    detail={"commitment_hash": "ab" * 32},
    at="2026-11-21T12:00:01.000000Z",
)
ACTIVATED = AuditEvent(
    event_type="activated",
    from_state="COMMITTED",
    to_state="ACTIVE",
    detail={"episodes": 3},
    at="2026-11-21T12:00:02.000000Z",
)


def remark(number: int) -> AuditEvent:
    return AuditEvent(
        event_type="remark", detail={"number": number}, at="2026-11-21T12:00:03.000000Z"
    )


def naming(*sequences: int) -> AuditEvent:
    """The event without which nobody takes episodes for recorded when a journal is opened anew."""
    return AuditEvent(
        event_type="episodes_recorded",
        detail={"seqs": [[first, last] for first, last in sequence_ranges(sorted(sequences))]},
        at="2026-11-21T12:00:03.000000Z",
    )


def result(seq: int) -> EpisodeResult:
    """An episode whose record holds all that JSON can hold; each second one failed."""
    failed = seq % 2 == 0
    return EpisodeResult(
        seq=seq,
        episode_id=f"épisode \u2028 {seq}",
        status=InvocationStatus.ERROR if failed else InvocationStatus.SUCCESS,
        outcome=EpisodeOutcome.MISSING if failed else EpisodeOutcome.SCORED,
        scores={"a": Verdict.MISSING if failed else Scored(seq), "b": Verdict.NOT_APPLICABLE},
        facts={"adapters": {"a": "http@1"}, "confidence": 0.25, "differs": False},
        record=InvocationRecord(
            {
                "seq": seq,
                "calls": [{"text": 'line\nfeed, \U0001f600, "quotes"', "none": None, "yes": True}],
                "numbers": [0, -1, 0.1, 1e-7, 1e21],
            }
        ),
    )


class JournalConformance:
    """Derive, implement `opened`, and the tests below run against that journal."""

    def opened(self, theatre_id: str) -> AbstractAsyncContextManager[RunJournal]:
        """Open the journal of a theatre; the same id gives the same durable content."""
        raise TypeError(f"expected a class that says how to open {theatre_id}, got the base class")

    @pytest.fixture
    def play(self) -> Callable[..., None]:
        """Run scenes one after another, each with the journal opened anew."""

        def run(*scenes: Callable[[RunJournal], Awaitable[None]]) -> None:
            async def all_scenes() -> None:
                for scene in scenes:
                    async with self.opened(THEATRE_ID) as journal:
                        await scene(journal)

            asyncio.run(all_scenes())

        return run

    def test_a_new_journal_holds_nothing(self, play: Callable[..., None]) -> None:
        async def scene(journal: RunJournal) -> None:
            assert await content(journal) == ([], [])
            assert len(await journal.recorded()) == 0
            assert 1 not in await journal.recorded()

        play(scene)

    def test_what_was_appended_comes_back_whole_and_in_dataset_order(
        self, play: Callable[..., None]
    ) -> None:
        async def write(journal: RunJournal) -> None:
            await journal.append([result(9), result(2)], [naming(2, 9), remark(1)])
            await journal.append([result(4)], [naming(4)])
            await journal.append([result(1)], [naming(1), remark(2)])
            await check(journal)

        async def check(journal: RunJournal) -> None:
            results, entries = await content(journal)
            assert results == [result(seq) for seq in (1, 2, 4, 9)]
            written = [naming(2, 9), remark(1), naming(4), naming(1), remark(2)]
            assert [entry["detail"] for entry in entries] == [event.detail for event in written]
            verify_chain(entries, theatre_id=THEATRE_ID)

        play(write, check)

    def test_says_exactly_which_episodes_are_recorded(self, play: Callable[..., None]) -> None:
        async def write(journal: RunJournal) -> None:
            await journal.append([result(3), result(7)], [naming(3, 7)])
            await check(journal)

        async def check(journal: RunJournal) -> None:
            recorded = await journal.recorded()
            assert [seq for seq in range(-1, 12) if seq in recorded] == [3, 7]
            assert len(recorded) == 2

        play(write, check)

    def test_a_batch_may_be_events_alone(self, play: Callable[..., None]) -> None:
        async def write(journal: RunJournal) -> None:
            await journal.append([], [remark(1)])
            await journal.append([], [])

        async def check(journal: RunJournal) -> None:
            results, entries = await content(journal)
            assert (results, len(entries)) == ([], 1)

        play(write, check)

    @pytest.mark.parametrize(
        "batch", [[2], [3, 2, 4], [5, 5]], ids=["alone", "among new ones", "twice in one batch"]
    )
    def test_an_episode_is_recorded_once_or_not_at_all(
        self, play: Callable[..., None], batch: Sequence[int]
    ) -> None:
        async def write(journal: RunJournal) -> None:
            await journal.append([result(2)], [naming(2)])
            await refused(journal)

        async def refused(journal: RunJournal) -> None:
            before = await content(journal)
            with pytest.raises(JournalError, match=r"expected episode [25] once"):
                await journal.append([result(seq) for seq in batch], [remark(2)])
            assert await content(journal) == before
            assert len(await journal.recorded()) == 1

        async def goes_on(journal: RunJournal) -> None:
            await journal.append([result(6)], [remark(3)])
            results, entries = await content(journal)
            assert results == [result(2), result(6)]
            assert len(entries) == 2

        play(write, refused, goes_on)

    def test_a_number_that_no_episode_can_have_is_refused(self, play: Callable[..., None]) -> None:
        async def scene(journal: RunJournal) -> None:
            for seq in (0, -1):
                with pytest.raises(JournalError, match="expected the sequence number"):
                    await journal.append([result(seq)], [])
            assert await content(journal) == ([], [])

        play(scene)

    def test_a_note_returns_the_entry_that_it_made_durable(self, play: Callable[..., None]) -> None:
        async def write(journal: RunJournal) -> None:
            for event in (CREATED, COMMITTED, remark(1)):
                entry = await journal.note(event)
                assert entry["entry_hash"] == entry_hash(entry)
                assert (await content(journal))[1][-1] == entry

        async def check(journal: RunJournal) -> None:
            entries = (await content(journal))[1]
            head = verify_chain(entries, theatre_id=THEATRE_ID)
            assert (head.length, head.entry_hash) == (3, entries[-1]["entry_hash"])
            assert [(e["from_state"], e["to_state"]) for e in entries] == [
                (None, "DRAFT"),
                ("DRAFT", "COMMITTED"),
                (None, None),
            ]

        play(write, check)

    def test_a_transition_is_made_only_from_the_state_that_it_names(
        self, play: Callable[..., None]
    ) -> None:
        async def write(journal: RunJournal) -> None:
            await refuses(journal, COMMITTED, got="None")
            await journal.note(CREATED)
            await refuses(journal, ACTIVATED, got="DRAFT")
            await journal.note(COMMITTED)
            await journal.note(remark(1))

        async def again(journal: RunJournal) -> None:
            await refuses(journal, COMMITTED, got="COMMITTED")
            await refuses(journal, CREATED, got="COMMITTED")
            await journal.note(ACTIVATED)
            await refuses(journal, ACTIVATED, got="ACTIVE")

        async def refuses(journal: RunJournal, event: AuditEvent, *, got: str) -> None:
            before = await content(journal)
            with pytest.raises(StateConflictError) as caught:
                await journal.note(event)
            assert str(caught.value) == (
                f"expected theatre {THEATRE_ID} in {event.from_state}, got {got}"
            )
            assert await content(journal) == before

        play(write, again)

    def test_results_are_those_recorded_when_the_iteration_began(
        self, play: Callable[..., None]
    ) -> None:
        async def scene(journal: RunJournal) -> None:
            await journal.append([result(5), result(8)], [])
            running = journal.results()
            seen = [await anext(running)]
            await journal.append([result(2), result(6)], [])
            seen += [one async for one in running]
            assert seen == [result(5), result(8)]
            assert (await content(journal))[0] == [result(seq) for seq in (2, 5, 6, 8)]

        play(scene)

    def test_theatres_share_nothing(self, play: Callable[..., None]) -> None:
        async def write(journal: RunJournal) -> None:
            await journal.append([result(1)], [CREATED, naming(1)])
            async with self.opened(OTHER_THEATRE_ID) as other:
                assert await content(other) == ([], [])
                await other.append([result(1), result(2)], [CREATED, naming(1, 2)])

        async def check(journal: RunJournal) -> None:
            results, entries = await content(journal)
            assert results == [result(1)]
            verify_chain(entries, theatre_id=THEATRE_ID)

        play(write, check)

    def test_a_long_run_comes_back_complete(self, play: Callable[..., None]) -> None:
        numbers = list(range(1, MORE_THAN_A_RUN_KEEPS_IN_MEMORY + 1))

        async def write(journal: RunJournal) -> None:
            for begin in range(0, len(numbers), 100):
                batch = [result(seq) for seq in reversed(numbers[begin : begin + 100])]
                await journal.append(batch, [naming(*(one.seq for one in batch))])

        async def check(journal: RunJournal) -> None:
            assert [one.seq async for one in journal.results()] == numbers
            assert len(await journal.recorded()) == len(numbers)
            assert len([entry async for entry in journal.trail()]) == len(numbers) // 100

        play(write, check)

    def test_a_write_that_is_cancelled_is_over_before_the_cancellation_is_heard(self) -> None:
        batch = [result(seq) for seq in range(1, MORE_THAN_A_RUN_KEEPS_IN_MEMORY)]

        async def cancel() -> object:
            async with self.opened(THEATRE_ID) as journal:
                named = naming(*(one.seq for one in batch))
                writing = asyncio.create_task(journal.append(batch, [named]))
                await asyncio.sleep(0)
                writing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await writing
                return await content(journal)

        async def look() -> object:
            async with self.opened(THEATRE_ID) as journal:
                return await content(journal)

        # Threads that are still writing have ended when the first event loop is closed.
        assert asyncio.run(cancel()) == asyncio.run(look())


async def content(journal: RunJournal) -> tuple[list[EpisodeResult], list[JsonObject]]:
    """Everything that a journal holds."""
    return ([one async for one in journal.results()], [entry async for entry in journal.trail()])
