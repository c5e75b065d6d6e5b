"""One theatre run by several, one after another or at once: asked to stop, overtaken at sealing."""

import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.theatre.arrivals import SIXTEEN, journalled
from tests.theatre.runs import ScriptedAdapter, Stage, checked, episodes, pilot_stage
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import AlreadySealedError, BundleError, RunStoppedError
from theatre.engine.evidence_bundle import EvidenceBundleBuilder, bundle_name, file_stamps
from theatre.engine.replay import RunContext
from theatre.files.run_journal import FileRunJournal

EPISODES = 6
THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"


def sealed(builder: EvidenceBundleBuilder) -> Path:
    return builder.seal(file_stamps(builder.draft))


def stopping_when(is_stopping: Callable[[], bool]) -> Callable[[RunContext], RunContext]:
    return lambda around: replace(around, is_stopping=is_stopping)


@pytest.mark.parametrize("calls", [1, 3, EPISODES])
def test_a_run_that_is_asked_to_stop_has_recorded_what_it_called_and_goes_on_from_there(
    tmp_path: Path, calls: int
) -> None:
    stage = pilot_stage(tmp_path, episodes(EPISODES))
    adapter = ScriptedAdapter()
    asked_to_stop = stopping_when(lambda: len(adapter.asked) >= calls)
    with pytest.raises(RunStoppedError):
        stage.run(adapter, around=asked_to_stop)
    assert journalled(stage) == list(range(1, calls + 1))
    assert stage.state == "ACTIVE"
    finished = stage.run(adapter)
    assert finished.resolution["outcome"] == "certified"
    assert len(adapter.asked) == EPISODES


def test_calls_that_are_out_when_a_run_is_to_stop_are_waited_for(tmp_path: Path) -> None:
    stage = pilot_stage(tmp_path, episodes(EPISODES), changes=SIXTEEN)
    adapter = ScriptedAdapter()
    told = iter([False, False, False, True])
    with pytest.raises(RunStoppedError):
        stage.run(adapter, around=stopping_when(lambda: next(told, True)))
    assert journalled(stage) == [1, 2, 3]


class OvertakenJournal:
    """Has another attempt seal its bundle when this one has read the chain to seal its own."""

    def __init__(self, journal: FileRunJournal, *, sealed: Path, place: Path) -> None:
        self.recorded = journal.recorded
        self.append = journal.append
        self.note = journal.note
        self.results = journal.results
        self._trail = journal.trail
        self._sealed, self._place = sealed, place

    async def trail(self) -> AsyncIterator[JsonObject]:
        last: JsonObject = {}
        async for entry in self._trail():
            last = entry
            yield entry
        if last["event_type"] == "step_completed" and not self._place.exists():
            shutil.copytree(self._sealed, self._place)


def a_stage(folder: Path) -> Stage:
    return pilot_stage(folder, episodes(EPISODES))


def test_a_bundle_that_another_attempt_has_sealed_meanwhile_is_taken(tmp_path: Path) -> None:
    quicker = a_stage(tmp_path / "quicker").run(ScriptedAdapter())
    stage = a_stage(tmp_path / "slower")
    place = stage.folder / bundle_name(stage.theatre_id)
    finished = stage.run(
        ScriptedAdapter(),
        journal=lambda journal: OvertakenJournal(journal, sealed=quicker.bundle, place=place),
    )
    assert finished.resolution == quicker.resolution
    assert checked(finished.bundle).consistent
    assert [path.name for path in stage.folder.glob(".*partial")] == []


def test_of_two_attempts_the_first_to_seal_is_first(tmp_path: Path) -> None:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path, attempt=2) as slower:
        slower.write_lines("who", [b"slower"])
        with EvidenceBundleBuilder(THEATRE_ID, tmp_path / "elsewhere", attempt=3) as quicker:
            quicker.write_lines("who", [b"quicker"])
            sealed(quicker).rename(tmp_path / bundle_name(THEATRE_ID))
        with pytest.raises(AlreadySealedError, match="expected no bundle evidence_bundle_"):
            sealed(slower)
    assert (tmp_path / bundle_name(THEATRE_ID) / "who").read_bytes() == b"quicker"


@pytest.mark.parametrize("path", ["another", "scores/another", "more/another"])
def test_an_attempt_whose_draft_a_later_one_has_removed_writes_and_seals_no_more(
    tmp_path: Path, path: str
) -> None:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path, attempt=2) as earlier:
        earlier.write_lines("scores/one", [b"earlier"])
        with EvidenceBundleBuilder(THEATRE_ID, tmp_path, attempt=3) as later:
            later.write_lines("scores/one", [b"later"])
            with pytest.raises(BundleError, match=f"expected to write {path}, got No such file"):
                earlier.write_lines(path, [b"earlier"])
            with pytest.raises(BundleError, match="expected to seal the bundle, got No such file"):
                sealed(earlier)
            assert (sealed(later) / "scores" / "one").read_bytes() == b"later"
    assert [path.name for path in tmp_path.iterdir()] == [bundle_name(THEATRE_ID)]
