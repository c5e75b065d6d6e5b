"""What goes wrong in one of sixteen calls ends the run as itself; no answer that is in is lost."""

import asyncio
import errno
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.theatre.arrivals import (
    EPISODES,
    SIXTEEN,
    HeldAdapter,
    HeldJournal,
    answered_one_by_one,
    journalled,
    never,
    play,
    settle,
    sixteen,
    until,
)
from tests.theatre.runs import (
    WRONG,
    Answer,
    ScriptedAdapter,
    Stage,
    answer_as_asked,
    episodes,
    pilot_stage,
)
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import DatasetError, JournalError
from theatre.engine.models import GroundTruthEpisode, InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.engine.replay import RunJournal
from theatre.engine.replay.context import EpisodePair
from theatre.engine.replay.dispatch import Dispatcher
from theatre.engine.replay.episode import CalledEpisode
from theatre.engine.scoring import EpisodeAnswer, FailureStop
from theatre.files.run_journal import FileRunJournal

ANSWERS: dict[int, JsonObject] = {9: WRONG}


def journalled_now(stage: Stage) -> int:
    """Return how many whole lines the journal has, while somebody else holds it."""
    journal = stage.folder / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


class PowerCut(BaseException):
    """The process is about to be gone."""


def raising(errors: dict[int, BaseException]) -> Answer:
    """Return a construct that answers as asked, and breaks the engine at some episodes."""

    def answer(request: OracleInvocationRequest) -> JsonObject:
        error = errors.get(request.input_data["seq"])
        if error is not None:
            raise error
        return answer_as_asked(request)

    return answer


def undisturbed(folder: Path) -> bytes:
    """Return the lines that a run comes to which nothing disturbs."""
    finished = sixteen(folder, ANSWERS).run(ScriptedAdapter(answer_as_asked))
    return (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()


def goes_on_to_the_same_end(stage: Stage, folder: Path) -> None:
    """Run again: what is recorded is not called again, and the results are the undisturbed ones."""
    kept = journalled(stage)
    construct = ScriptedAdapter(answer_as_asked)
    finished = stage.run(construct)
    called = [request.input_data["seq"] for request in construct.asked]
    assert sorted(called + kept) == list(range(1, EPISODES + 1))
    lines = (finished.bundle / "scores" / "per_episode.jsonl").read_bytes()
    assert lines == undisturbed(folder / "undisturbed")


@pytest.mark.parametrize("error", [LookupError("a bug"), PowerCut("now")], ids=["bug", "power cut"])
def test_an_error_in_one_call_ends_the_run_as_itself_and_keeps_what_is_in(
    tmp_path: Path, error: BaseException
) -> None:
    stage = sixteen(tmp_path / "run", ANSWERS)
    construct = HeldAdapter(raising({9: error}))

    async def scene() -> None:
        run = asyncio.create_task(stage.perform(construct, batch_size=100))
        await construct.somebody_is_out()
        await settle()
        assert construct.out == list(range(1, 17))
        construct.let_in(16, 2, 5)
        await settle()
        construct.let_in(4, 9)
        with pytest.raises(type(error)) as caught:
            await run
        assert caught.value is error

    play(scene)
    assert journalled(stage) == [2, 4, 5, 16]
    # Whose answer came in the same turn as the error had asked for its next episode by then.
    assert construct.called == list(range(1, 21))
    assert sorted(construct.given_up) == sorted({*range(1, 21)} - {2, 4, 5, 9, 16})
    assert (stage.state, construct.closed) == ("ACTIVE", True)
    goes_on_to_the_same_end(stage, tmp_path)


def test_of_two_errors_at_once_the_first_one_is_told(tmp_path: Path) -> None:
    stage = sixteen(tmp_path, ANSWERS)
    construct = HeldAdapter(raising({9: LookupError("the first"), 3: LookupError("the second")}))

    async def scene() -> None:
        run = asyncio.create_task(stage.perform(construct))
        await construct.somebody_is_out()
        await settle()
        construct.let_in(9, 3)
        with pytest.raises(LookupError, match=r"^the first$"):
            await run

    play(scene)
    assert (journalled(stage), stage.state) == ([], "ACTIVE")


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let the system itself refuse to write beyond `size` bytes of any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_ends_the_run_with_its_own_error_and_nothing_runs_on(
    tmp_path: Path,
) -> None:
    stage = pilot_stage(tmp_path, episodes(60), changes=SIXTEEN)
    construct = HeldAdapter()

    async def scene() -> None:
        # Batches of five: sixteen calls may be out.
        run = asyncio.create_task(
            stage.perform(
                construct, batch_size=20, around=lambda around: replace(around, sleep=never)
            )
        )
        await construct.somebody_is_out()
        await settle()
        construct.let_in(1, 2, 3, 4, 5)
        await until(lambda: journalled_now(stage) == 5 and len(construct.out) == 16)
        with no_file_larger_than((stage.folder / "journal.jsonl").stat().st_size):
            construct.let_in(6, 7, 8, 9, 10)
            with pytest.raises(OSError, match="File too large") as caught:
                await run
        assert (type(caught.value), caught.value.errno) == (OSError, errno.EFBIG)

    play(scene)
    assert (journalled(stage), stage.state) == ([1, 2, 3, 4, 5], "ACTIVE")
    # Four of the five answers made way for a call each; the fifth met the disk.
    assert {*range(1, 22)} <= {*construct.called} <= {*range(1, 26)}
    again = ScriptedAdapter()
    assert stage.run(again).resolution["outcome"] == "certified"
    assert [request.input_data["seq"] for request in again.asked] == list(range(6, 61))


class Vanishing(ScriptedAdapter):
    """Leaks a cancellation of its own making: nobody cancelled the call."""

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        if request.input_data["seq"] == 3:
            raise asyncio.CancelledError
        return await super().invoke(request)


@pytest.mark.parametrize("limit", [1, 16])
def test_a_call_that_vanishes_ends_the_run_before_it_settles(tmp_path: Path, limit: int) -> None:
    stage = sixteen(tmp_path / "run", ANSWERS)

    async def scene() -> None:
        with pytest.raises(JournalError) as caught:
            await stage.perform(Vanishing(answer_as_asked), concurrency_limit=limit)
        assert str(caught.value) == (
            "expected an answer or an error for episode 3, got neither: run the theatre again"
        )

    play(scene)
    assert stage.state == "ACTIVE"
    goes_on_to_the_same_end(stage, tmp_path)


def test_an_interrupted_run_keeps_every_answer_that_is_in(tmp_path: Path) -> None:
    stage = sixteen(tmp_path / "run", ANSWERS)
    construct = HeldAdapter(answer_as_asked)

    async def scene() -> None:
        run = asyncio.create_task(stage.perform(construct, batch_size=100))
        await construct.somebody_is_out()
        await settle()
        construct.let_in(7, 3, 16)
        await settle()
        construct.let_in(1, 12)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    play(scene)
    assert journalled(stage) == [1, 3, 7, 12, 16]
    # The two whose answers came in the same turn had asked for their next episodes by then.
    assert sorted(construct.given_up) == sorted({*range(1, 22)} - {1, 3, 7, 12, 16})
    assert (stage.state, construct.closed) == ("ACTIVE", True)
    goes_on_to_the_same_end(stage, tmp_path)


def test_an_interruption_waits_for_the_batch_that_is_being_written_and_for_the_rest(
    tmp_path: Path,
) -> None:
    """However often it comes: a batch that began is never cut off."""
    stage = sixteen(tmp_path / "run", ANSWERS)
    construct = HeldAdapter(answer_as_asked)
    journals: list[HeldJournal] = []

    def held(journal: FileRunJournal) -> RunJournal:
        journals.append(HeldJournal(journal))
        return journals[0]

    async def scene() -> None:
        run = asyncio.create_task(
            stage.perform(
                construct,
                batch_size=20,
                journal=held,
                around=lambda around: replace(around, sleep=never),
            )
        )
        await construct.somebody_is_out()
        await settle()
        construct.let_in(1, 2, 3, 4, 5)
        await until(lambda: journals[0].waiting == 5)
        construct.let_in(6, 7)
        await settle()
        for _ in range(3):
            run.cancel()
            await settle()
        assert (run.done(), journals[0].waiting, journalled_now(stage)) == (False, 5, 0)
        journals[0].let_through()
        await until(lambda: journals[0].waiting == 2)
        journals[0].let_through()
        with pytest.raises(asyncio.CancelledError):
            await run

    play(scene)
    assert journalled(stage) == [1, 2, 3, 4, 5, 6, 7]
    goes_on_to_the_same_end(stage, tmp_path)


def test_data_that_break_while_sixteen_calls_are_out_end_the_run_with_the_data_s_own_error(
    tmp_path: Path,
) -> None:
    stage = sixteen(tmp_path / "run", ANSWERS)
    construct = HeldAdapter(answer_as_asked)
    truth = tmp_path / "run" / "truth.jsonl"
    committed = truth.read_bytes()

    async def scene() -> None:
        run = asyncio.create_task(stage.perform(construct, batch_size=100))
        await construct.somebody_is_out()
        truth.write_bytes(committed + b"no episode\n")
        with pytest.raises(DatasetError, match=r"^line 25: expected JSON"):
            await answered_one_by_one(run, construct, lambda out: out[0])

    play(scene)
    assert journalled(stage) == list(range(1, 10))
    assert set(construct.given_up) == {*construct.called} - {*range(1, 10)}
    truth.write_bytes(committed)
    goes_on_to_the_same_end(stage, tmp_path)


def test_an_episode_that_is_still_read_when_the_run_ends_is_not_called() -> None:
    called: list[int] = []
    is_over = asyncio.Event()

    async def pairs() -> AsyncIterator[EpisodePair]:
        yield GroundTruthEpisode(seq=1, episode_id="a", input_data={}), None
        await is_over.wait()
        yield GroundTruthEpisode(seq=2, episode_id="b", input_data={}), None

    async def call(episode: GroundTruthEpisode) -> CalledEpisode:
        called.append(episode.seq)
        await settle()
        answer = EpisodeAnswer(status=InvocationStatus.ERROR, hops={})
        return CalledEpisode(episode=episode, answer=answer, record={})

    async def record(_: CalledEpisode) -> None:
        is_over.set()

    stop = FailureStop(total=2, threshold=Fraction(0))
    play(lambda: Dispatcher(limit=2, stop=stop, call=call, record=record).run(pairs()))
    assert called == [1]
