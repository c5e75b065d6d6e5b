"""What a run recorded was changed: it ends as failed, naming the batch, and nobody is certified."""

import asyncio
import shutil
from pathlib import Path
from typing import cast

import pytest

from tests.theatre.files.journal_conformance import THEATRE_ID, result
from tests.theatre.forked_echelon import forked
from tests.theatre.journal_edits import EDITS, batch_of, entries_of
from tests.theatre.runs import ScriptedAdapter, episodes, pilot_stage, right
from tests.theatre.test_resume import BATCH, die_after
from tests.theatre.witnessed_theatre import WitnessedTheatre, witnessed_theatre
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import JournalChangedError
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.engine.replay.trail_batches import TrailBatches
from theatre.files.run_journal import EPISODES as JOURNAL
from theatre.files.run_journal import TRAIL, FileRunJournal

CHANGED = 25
"""The number of the episode whose line is changed."""


class PowerCut(BaseException):
    """The process is about to be gone."""


def is_refused(resolution: JsonObject, where: str) -> None:
    assert (resolution["outcome"], resolution["outcome_reason"]) == ("failed", "journal-corrupt")
    detail = str(resolution["error_detail"])
    assert detail.startswith(f"expected {where} as it was recorded, got ")
    assert detail.endswith("nothing can be certified from it; run it anew")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> WitnessedTheatre:
    theatre = witnessed_theatre(tmp_path_factory.mktemp("killed") / "theatre")
    die_after(theatre, 40, theatre.template)
    return theatre


@pytest.mark.parametrize("edit", EDITS)
def test_a_killed_run_whose_journal_was_changed_is_never_certified(
    killed: WitnessedTheatre, tmp_path: Path, edit: str
) -> None:
    home = tmp_path / "home"
    shutil.copytree(killed.home, home)
    folder = home / "theatres" / killed.theatre_id
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(b"".join(EDITS[edit](lines, CHANGED - 1)))
    where = batch_of(killed.trail(), CHANGED)
    calls = killed.calls()

    answer = forked("theatre", "run", killed.theatre_id, *BATCH, "--json", home=home)

    assert answer.code == 1
    assert (answer.document["state"], answer.document["bundle_path"]) == ("RESOLVED", None)
    is_refused(answer.document, where)
    trail = entries_of((folder / TRAIL).read_bytes())
    is_refused(cast("JsonObject", trail[-1]["detail"]), where)
    assert not list(home.rglob("certificate.json"))
    assert killed.calls() == calls
    if edit == "missing":
        shown = forked("theatre", "show", killed.theatre_id, home=home).stdout
        assert "outcome   failed (journal-corrupt)\n" in shown
        assert f"because   expected {where} as it was recorded, got no episode 25: " in shown


@pytest.mark.parametrize("edit", EDITS)
def test_a_journal_that_is_changed_during_the_run_is_not_settled(tmp_path: Path, edit: str) -> None:
    stage = pilot_stage(tmp_path, episodes(6))

    def change(request: OracleInvocationRequest) -> JsonObject:
        if request.input_data["seq"] == 6:
            journal = stage.folder / JOURNAL
            lines = journal.read_bytes().splitlines(keepends=True)
            journal.write_bytes(b"".join(EDITS[edit](lines, 1)))
        return right(request)

    finished = stage.run(ScriptedAdapter(change), batch_size=2)

    # Where lines have moved, the batches before the changed line cannot be read, either.
    where = batch_of(finished.trail, 1)
    is_refused(finished.resolution, where)
    assert not list(tmp_path.rglob("certificate.json"))


def test_a_trail_that_names_less_than_the_journal_has_is_gone_on_from(tmp_path: Path) -> None:
    """Lines that no batch names are nobody's evidence: they are cut, and asked for again."""
    stage = pilot_stage(tmp_path, episodes(4))
    asked: list[int] = []

    def stop(request: OracleInvocationRequest) -> JsonObject:
        asked.append(request.input_data["seq"])
        if len(asked) == 3:
            raise PowerCut
        return right(request)

    with pytest.raises(PowerCut):
        stage.run(ScriptedAdapter(stop), batch_size=1)
    journal = stage.folder / JOURNAL
    invented = journal.read_bytes().splitlines(keepends=True)[-1].replace(b"pilot-2", b"pilot-3")
    with journal.open("ab") as handle:
        handle.write(invented.replace(b'"seq":2', b'"seq":3'))
    finished = stage.run(ScriptedAdapter(stop), batch_size=1)
    assert finished.resolution["outcome"] == "certified"
    assert asked == [1, 2, 3, 3, 4]


def test_an_episode_that_no_batch_names_is_not_taken(tmp_path: Path) -> None:
    """As in rows, where nothing is cut: both are written in one transaction."""

    async def read() -> None:
        journal = FileRunJournal(tmp_path, THEATRE_ID)
        await journal.append([result(3)], [])
        batches = await TrailBatches.read(journal, THEATRE_ID)
        [one async for one in batches.results(journal)]

    with pytest.raises(JournalChangedError, match="expected episode 3 in a batch"):
        asyncio.run(read())
