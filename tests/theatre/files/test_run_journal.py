"""The file journal keeps what a RunJournal must, through crashes, full disks and bad bytes."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.files.journal_conformance import (
    COMMITTED,
    CREATED,
    THEATRE_ID,
    JournalConformance,
    content,
    naming,
    remark,
    result,
)
from theatre.engine.canonical_json import canonical_line
from theatre.engine.errors import ChainBrokenError, JournalError
from theatre.engine.models import EpisodeResult
from theatre.engine.replay.recording import read_sequences
from theatre.files.run_journal import (
    EPISODES,
    TRAIL,
    EpisodeIndex,
    FileRunJournal,
    count_episodes,
    read_trail,
)

RECORDED = (4, 1, 3)
BYTES_AN_EPISODE_OF_INDEX = 8


class TestFileRunJournal(JournalConformance):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.home = tmp_path

    @contextlib.asynccontextmanager
    async def opened(self, theatre_id: str) -> AsyncIterator[FileRunJournal]:
        folder = self.home / theatre_id
        folder.mkdir(exist_ok=True)
        yield FileRunJournal(folder, theatre_id)


def written(folder: Path) -> tuple[bytes, bytes]:
    """Write three episodes in two batches, with their events; return both files."""

    async def write() -> None:
        journal = FileRunJournal(folder, THEATRE_ID)
        await journal.note(CREATED)
        await journal.note(COMMITTED)
        await journal.append([result(RECORDED[0])], [naming(RECORDED[0])])
        later = RECORDED[1:]
        await journal.append([result(seq) for seq in later], [naming(*later), remark(2)])

    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(write())
    return (folder / EPISODES).read_bytes(), (folder / TRAIL).read_bytes()


def whole_lines(data: bytes) -> list[bytes]:
    return data[: data.rfind(b"\n") + 1].splitlines(keepends=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    return written(tmp_path_factory.mktemp("sound"))


def test_each_line_is_canonical_and_ends_with_a_line_feed(sound: tuple[bytes, bytes]) -> None:
    episodes, trail = sound
    assert whole_lines(episodes) == [canonical_line(result(seq).as_document()) for seq in RECORDED]
    assert b"".join(whole_lines(trail)) == trail
    assert whole_lines(trail) == [
        canonical_line(json.loads(line)) for line in trail.splitlines(keepends=True)
    ]


@settings(deadline=None)
@given(data=st.data())
def test_a_torn_last_line_is_cut_and_reported_wherever_the_crash_came(
    sound: tuple[bytes, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    episodes, trail = sound
    kept_episodes = episodes[: data.draw(st.integers(0, len(episodes)), "episodes cut at")]
    kept_trail = trail[: data.draw(st.integers(0, len(trail)), "trail cut at")]
    folder = tmp_path_factory.mktemp("torn")
    (folder / EPISODES).write_bytes(kept_episodes)
    (folder / TRAIL).write_bytes(kept_trail)

    before = (count_episodes(folder), list(read_trail(folder, THEATRE_ID)))
    journal = FileRunJournal(folder, THEATRE_ID)
    results, entries = asyncio.run(content(journal))

    whole_trail = whole_lines(kept_trail)
    named = sum(len(one) for line in whole_trail for one in read_sequences(json.loads(line)))
    recorded = whole_lines(kept_episodes)[:named]
    assert results == sorted(
        (EpisodeResult.from_line(line) for line in recorded), key=lambda one: one.seq
    )
    assert entries == [json.loads(line) for line in whole_trail]
    assert before == (len(whole_lines(kept_episodes)), entries)
    left = {TRAIL: b"".join(whole_trail), EPISODES: b"".join(recorded)}
    torn = {TRAIL: kept_trail, EPISODES: kept_episodes}
    assert journal.torn == tuple(name for name in left if left[name] != torn[name])
    assert {name: (folder / name).read_bytes() for name in left} == left


def test_the_bytes_of_a_recorded_invocation_are_given_back(tmp_path: Path) -> None:
    written(tmp_path)
    results, _ = asyncio.run(content(FileRunJournal(tmp_path, THEATRE_ID)))
    assert [one.record.line for one in results] == [
        canonical_line(result(seq).record.document) for seq in sorted(RECORDED)
    ]


def test_an_episode_whose_line_was_torn_is_recorded_again(tmp_path: Path) -> None:
    episodes, _ = written(tmp_path)
    (tmp_path / EPISODES).write_bytes(episodes[:-1])
    journal = FileRunJournal(tmp_path, THEATRE_ID)
    assert RECORDED[-1] not in asyncio.run(journal.recorded())
    asyncio.run(journal.append([result(RECORDED[-1])], []))
    assert (tmp_path / EPISODES).read_bytes() == episodes


def test_a_torn_line_longer_than_a_block_is_cut(tmp_path: Path) -> None:
    episodes, _ = written(tmp_path)
    (tmp_path / EPISODES).write_bytes(episodes + b'"' + b"x" * 300_000)
    assert FileRunJournal(tmp_path, THEATRE_ID).torn == (EPISODES,)
    assert (tmp_path / EPISODES).read_bytes() == episodes


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    (tmp_path / TRAIL).write_bytes(b'{"seq": 0')
    journal = FileRunJournal(tmp_path, THEATRE_ID)
    assert (journal.torn, journal.state) == ((TRAIL,), None)
    assert (tmp_path / TRAIL).read_bytes() == b""


BAD_LINES = [b"{}x\n", b"\n", b"[]\n", b"{}\n", b'{"seq":1,"seq":1}\n', b'{"n":NaN}\n', b"\xff\n"]


@pytest.mark.parametrize("bad", BAD_LINES[:-1])
def test_a_corrupt_line_of_the_trail_is_refused_by_file_and_number(
    tmp_path: Path, bad: bytes
) -> None:
    _, trail = written(tmp_path)
    lines = whole_lines(trail)
    (tmp_path / TRAIL).write_bytes(b"".join([lines[0], bad, *lines[2:]]))
    with pytest.raises((JournalError, ChainBrokenError), match=r"^(audit_trail\.jsonl, )?line 2: "):
        FileRunJournal(tmp_path, THEATRE_ID)


@pytest.mark.parametrize(
    "spelt",
    [
        *(lambda _, bad=bad: bad for bad in BAD_LINES),
        lambda line: line.replace(b'"seq":1,', b'"seq":true,'),
        lambda line: line.replace(b'"seq":1,', b'"seq":0,'),
        lambda line: line.replace(b'"seq":1,', b'"seq":900719925474099,'),
        lambda line: line.replace(b'"seq":1,', b'"seq":3,'),
        lambda line: line.replace(b'"status":"success"', b'"status":"splendid"'),
        lambda line: line.replace(b'"a":1,', b'"a":"splendid",'),
    ],
)
def test_a_line_that_no_run_has_written_is_no_episode(
    tmp_path: Path, spelt: Callable[[bytes], bytes]
) -> None:
    """That the trail names it all the same is for the engine to see (`TrailBatches`)."""
    episodes, _ = written(tmp_path)
    first, second, third = whole_lines(episodes)
    assert spelt(second) != second
    (tmp_path / EPISODES).write_bytes(first + spelt(second) + third)
    journal = FileRunJournal(tmp_path, THEATRE_ID)
    assert [seq for seq in range(9) if seq in asyncio.run(journal.recorded())] == [3, 4]
    assert journal.torn == ()


@pytest.mark.parametrize("change", ["edited", "removed", "swapped", "of another theatre"])
def test_a_chain_that_was_changed_by_hand_is_refused(tmp_path: Path, change: str) -> None:
    _, trail = written(tmp_path)
    lines = trail.splitlines(keepends=True)
    variants = {
        "edited": [lines[0], lines[1].replace(b"abab", b"cdcd"), *lines[2:]],
        "removed": [lines[0], *lines[2:]],
        "swapped": [lines[0], lines[2], lines[1], *lines[3:]],
        "of another theatre": lines,
    }
    (tmp_path / TRAIL).write_bytes(b"".join(variants[change]))
    theatre_id = THEATRE_ID.replace("7a11", "7a12") if "theatre" in change else THEATRE_ID
    with pytest.raises(ChainBrokenError):
        FileRunJournal(tmp_path, theatre_id)
    with pytest.raises(ChainBrokenError):
        list(read_trail(tmp_path, theatre_id))


def test_state_and_commitment_are_what_the_chain_says(tmp_path: Path) -> None:
    journal = FileRunJournal(tmp_path, THEATRE_ID)
    assert (journal.state, journal.commitment_hash) == (None, None)
    written(tmp_path)
    journal = FileRunJournal(tmp_path, THEATRE_ID)
    assert (journal.state, journal.commitment_hash) == ("COMMITTED", "ab" * 32)


def test_a_reader_sees_nothing_where_nothing_was_written(tmp_path: Path) -> None:
    assert count_episodes(tmp_path) == 0
    assert list(read_trail(tmp_path, THEATRE_ID)) == []


def test_the_index_takes_eight_bytes_an_episode() -> None:
    many = 20_000
    tracemalloc.start()
    index = EpisodeIndex()
    for seq in range(1, many + 1):
        index.put(seq, seq * 1000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(index) == many
    # An array that grew by appending holds up to an eighth more than it needs.
    assert used < many * BYTES_AN_EPISODE_OF_INDEX * 9 / 8 + 4096


def test_the_index_gives_offsets_in_dataset_order_without_the_gaps() -> None:
    index = EpisodeIndex()
    for seq, offset in ((7, 0), (2, 30), (5, 60)):
        index.put(seq, offset)
    assert list(index.places()) == [(2, 30), (5, 60), (7, 0)]
    assert [seq for seq in range(-1, 10) if seq in index] == [2, 5, 7]
    assert "2" not in index


# A limit on the size of files stands for the full disk: one file can grow by `room` bytes more.
FULL_DISK = textwrap.dedent(
    """
    import asyncio, json, resource, sys
    from pathlib import Path
    from tests.theatre.files.journal_conformance import THEATRE_ID, content, naming, remark, result
    from theatre.files.run_journal import EPISODES, TRAIL, FileRunJournal

    async def seen(folder, full_file, room):
        journal = FileRunJournal(folder, THEATRE_ID)
        await journal.append([result(1)], [naming(1)])
        before = await content(journal)
        sizes = [(folder / name).stat().st_size for name in (EPISODES, TRAIL)]
        limit = (folder / full_file).stat().st_size + room
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        big = 200 if full_file == TRAIL else 0
        try:
            await journal.append(
                [result(seq) for seq in (2, 3)],
                [naming(2, 3), *(remark(n) for n in range(2, 4 + big))],
            )
        except OSError as error:
            failure_outcome = error.strerror
        else:
            failure_outcome = None
        after = [(folder / name).stat().st_size for name in (EPISODES, TRAIL)]
        unchanged = before == await content(journal) and len(await journal.recorded()) == 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        await journal.append([result(seq) for seq in (2, 3)], [naming(2, 3)])
        reopened = FileRunJournal(folder, THEATRE_ID)
        same = await content(reopened) == await content(journal)
        seqs = [one.seq async for one in reopened.results()]
        return [failure_outcome, sizes == after, unchanged, same, seqs, reopened.torn]

    for place in json.load(sys.stdin):
        print(json.dumps(asyncio.run(seen(Path(place[0]), *place[1:]))))
    """
)


def test_a_full_disk_is_an_error_and_the_journal_goes_on_once_there_is_room(tmp_path: Path) -> None:
    cases = [(name, room) for name in (EPISODES, TRAIL) for room in (0, 1, 100, 400)]
    places = [(str(tmp_path / str(n)), *case) for n, case in enumerate(cases)]
    for folder, *_ in places:
        Path(folder).mkdir()
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK],
        input=json.dumps(places).encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert child.stderr == b""
    expected = ["File too large", True, True, True, [1, 2, 3], []]
    ended = [json.loads(line) for line in child.stdout.splitlines()]
    assert dict(zip(cases, ended, strict=True)) == dict.fromkeys(cases, expected)


def test_episodes_without_the_event_that_names_them_are_cut(tmp_path: Path) -> None:
    """The order of effects: records first. Until the trail names them, they are under no digest."""
    episodes, trail = written(tmp_path)
    (tmp_path / TRAIL).write_bytes(b"".join(whole_lines(trail)[:3]))
    journal = FileRunJournal(tmp_path, THEATRE_ID)
    results, _ = asyncio.run(content(journal))
    assert ([one.seq for one in results], journal.torn) == ([RECORDED[0]], (EPISODES,))
    assert (tmp_path / EPISODES).read_bytes() == whole_lines(episodes)[0]
