"""The file store: one writer at a time, readers that wait for nobody, ids that stay inside."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.runs import COIN
from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.commitment import CommitmentProtocol, CommitmentReceipt
from theatre.engine.errors import (
    ChainBrokenError,
    CommitmentError,
    JournalError,
    NotFoundError,
    StateConflictError,
    TheatreError,
)
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import Theatre
from theatre.files.run_journal import EPISODES, TRAIL
from theatre.files.theatre_store import FileTheatreStore

THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
OTHER_ID = "00000000-6f4a-4c39-9c0e-5d5b8f2f7a12"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TEMPLATE: JsonObject = {
    "theatre_id": "product_small_v1",
    "version_pins": {"constructs": {"pilot": "c0ffee0"}},
    "dataset_hashes": {"truth": "ab" * 32},
}
PATIENCE_SECONDS = 60


def receipt_of(theatre_id: str, template: JsonObject = TEMPLATE) -> CommitmentReceipt:
    return CommitmentProtocol.commit(
        theatre_id, template, coin=COIN, scorer_pins={}, scorer_kinds={}, committed_at=NOW
    )


def committed(home: Path, theatre_id: str = THEATRE_ID) -> FileTheatreStore:
    """A store with one committed theatre, written as the command line writes it."""
    store = FileTheatreStore(home)
    theatre, created = Theatre.create(theatre_id, TEMPLATE, at=NOW)
    store.create_folder(theatre_id, TEMPLATE, template_folder=home)
    receipt = receipt_of(theatre_id)
    with store.hold(theatre_id) as held:
        asyncio.run(held.journal.note(created))
        store.write_receipt(receipt, COIN)
        asyncio.run(held.journal.note(theatre.commit(receipt)[1]))
    return store


def test_a_held_theatre_is_what_was_written(tmp_path: Path) -> None:
    store = committed(tmp_path)
    with store.hold(THEATRE_ID) as held:
        assert held.theatre == Theatre(
            theatre_id=THEATRE_ID,
            template=TEMPLATE,
            state=TheatreState.COMMITTED,
            receipt=receipt_of(THEATRE_ID),
        )
        assert held.folder == tmp_path / "theatres" / THEATRE_ID
        assert held.template_folder == tmp_path
        assert held.journal.torn == ()


def test_a_view_is_what_was_written(tmp_path: Path) -> None:
    view = committed(tmp_path).view(THEATRE_ID)
    assert (view.theatre_id, view.template, view.state) == (THEATRE_ID, TEMPLATE, "COMMITTED")
    assert view.commitment_hash == CommitmentProtocol.hash_template(TEMPLATE)
    assert (view.recorded, view.resolution, view.template_folder) == (0, None, tmp_path)


@pytest.mark.parametrize("written", ["folder", "created", "receipt"])
def test_a_commit_that_died_half_way_leaves_a_draft(tmp_path: Path, written: str) -> None:
    store = FileTheatreStore(tmp_path)
    store.create_folder(THEATRE_ID, TEMPLATE, template_folder=tmp_path)
    if written != "folder":
        with store.hold(THEATRE_ID) as held:
            asyncio.run(held.journal.note(Theatre.create(THEATRE_ID, TEMPLATE, at=NOW)[1]))
    if written == "receipt":
        store.write_receipt(receipt_of(THEATRE_ID), COIN)
    with store.hold(THEATRE_ID) as held:
        assert (held.theatre.state, held.theatre.receipt) == (TheatreState.DRAFT, None)
    assert store.view(THEATRE_ID).state is TheatreState.DRAFT
    assert store.view(THEATRE_ID).commitment_hash is None


def test_a_folder_without_a_template_is_no_theatre(tmp_path: Path) -> None:
    folder = tmp_path / "theatres" / THEATRE_ID
    folder.mkdir(parents=True)
    (folder / "origin.json").write_bytes(canonical_line({"template_folder": str(tmp_path)}))
    store = FileTheatreStore(tmp_path)
    assert store.theatre_ids() == []
    with pytest.raises(NotFoundError):
        store.view(THEATRE_ID)


def test_an_id_is_given_to_one_theatre_only(tmp_path: Path) -> None:
    store = committed(tmp_path)
    with pytest.raises(FileExistsError):
        store.create_folder(THEATRE_ID, TEMPLATE, template_folder=tmp_path)


# The other process: takes the lock, says so, keeps it until its stdin closes.
HOLDER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from theatre.files.theatre_store import FileTheatreStore

    with FileTheatreStore(Path(sys.argv[1])).hold(sys.argv[2]):
        print("held", flush=True)
        sys.stdin.read()
    """
)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    committed(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path, THEATRE_ID],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_while_the_first_holds_the_theatre(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    store = FileTheatreStore(tmp_path)
    with (
        pytest.raises(StateConflictError, match="Another process is using theatre"),
        store.hold(THEATRE_ID),
    ):
        pass
    holder.communicate(timeout=PATIENCE_SECONDS)
    with store.hold(THEATRE_ID) as held:
        assert held.theatre.state is TheatreState.COMMITTED


def test_the_lock_of_a_killed_process_is_free(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait(PATIENCE_SECONDS)
    with FileTheatreStore(tmp_path).hold(THEATRE_ID) as held:
        assert held.theatre.theatre_id == THEATRE_ID


@pytest.mark.usefixtures("holder")
def test_a_reader_takes_no_lock_and_sees_whole_lines_only(tmp_path: Path) -> None:
    store = FileTheatreStore(tmp_path)
    folder = tmp_path / "theatres" / THEATRE_ID
    half = {EPISODES: b'{"seq":1}\n{"seq":2', TRAIL: (folder / TRAIL).read_bytes() + b'{"at":'}
    for name, data in half.items():
        (folder / name).write_bytes(data)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    view = store.view(THEATRE_ID)
    assert (view.state, view.recorded) == (TheatreState.COMMITTED, 1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert before.items() >= half.items()


@pytest.mark.parametrize(
    "theatre_id",
    [
        OTHER_ID,
        "",
        ".",
        "..",
        "../theatres/" + THEATRE_ID,
        "/etc",
        THEATRE_ID + "/..",
        THEATRE_ID + "\0",
        "x" * 5000,
        "None",
        "0b6f3f0e",
    ],
)
@pytest.mark.parametrize("ask", ["folder", "view", "hold"])
def test_an_unknown_or_malformed_id_is_not_found(tmp_path: Path, theatre_id: str, ask: str) -> None:
    store = committed(tmp_path)
    questions: dict[str, Callable[[], object]] = {
        "folder": lambda: store.folder(theatre_id),
        "view": lambda: store.view(theatre_id),
        "hold": lambda: store.hold(theatre_id).__enter__(),
    }
    with pytest.raises(NotFoundError) as caught:
        questions[ask]()
    assert str(caught.value) == (
        f"The theatre was not found in {tmp_path / 'theatres'}: {theatre_id[:300]}"
    )


@pytest.mark.parametrize("spelling", [THEATRE_ID.upper(), "{" + THEATRE_ID + "}"])
def test_another_spelling_of_an_id_means_the_same_theatre(tmp_path: Path, spelling: str) -> None:
    store = committed(tmp_path)
    assert store.view(spelling).theatre_id == THEATRE_ID
    with store.hold(spelling) as held:
        assert held.theatre.theatre_id == THEATRE_ID


def test_theatres_are_listed_oldest_first_and_nothing_else_is(tmp_path: Path) -> None:
    store = committed(tmp_path, THEATRE_ID)
    committed(tmp_path, OTHER_ID)
    root = tmp_path / "theatres"
    for age, theatre_id in ((50, OTHER_ID), (40, THEATRE_ID)):
        os.utime(root / theatre_id / "origin.json", (NOW.timestamp() - age,) * 2)
    (root / "notes.txt").write_text("mine")
    backup = root / f"{THEATRE_ID}.bak"
    backup.mkdir()
    (backup / "template.json").write_bytes(canonical_line(TEMPLATE))
    assert store.theatre_ids() == [OTHER_ID, THEATRE_ID]


def test_a_home_that_does_not_exist_yet_holds_no_theatres(tmp_path: Path) -> None:
    assert FileTheatreStore(tmp_path / "none").theatre_ids() == []


@pytest.mark.parametrize("other", ["of another template", "of another theatre", "forged"])
def test_a_receipt_that_the_chain_does_not_know_is_refused(tmp_path: Path, other: str) -> None:
    store = committed(tmp_path)
    receipts = {
        "of another template": receipt_of(THEATRE_ID, {**TEMPLATE, "theatre_id": "b"}),
        "of another theatre": receipt_of(OTHER_ID),
        "forged": receipt_of(THEATRE_ID),
    }
    document = receipts[other].as_document()
    if other == "forged":
        document = {**document, "template_snapshot": {**TEMPLATE, "theatre_id": "b"}}
    path = tmp_path / "theatres" / THEATRE_ID / "commitment_receipt.json"
    path.write_bytes(canonical_line(document))
    with pytest.raises(CommitmentError), store.hold(THEATRE_ID):
        pass
    path.write_bytes(canonical_line(receipt_of(THEATRE_ID).as_document()))
    with store.hold(THEATRE_ID) as held:
        assert held.theatre.state is TheatreState.COMMITTED


def test_the_template_counts_as_committed_not_as_it_lies_in_the_folder(tmp_path: Path) -> None:
    store = committed(tmp_path)
    edited = canonical_line({**TEMPLATE, "theatre_id": "edited"})
    (tmp_path / "theatres" / THEATRE_ID / "template.json").write_bytes(edited)
    with store.hold(THEATRE_ID) as held:
        assert held.theatre.template == TEMPLATE


@pytest.mark.parametrize(
    ("line", "error"),
    [(b"{}", ChainBrokenError), (b"nonsense", JournalError), (b'{"a":1,"a":2}', JournalError)],
)
def test_a_view_of_a_trail_that_was_changed_by_hand_says_so(
    tmp_path: Path, line: bytes, error: type[TheatreError]
) -> None:
    store = committed(tmp_path)
    trail = tmp_path / "theatres" / THEATRE_ID / TRAIL
    lines = trail.read_bytes().splitlines(keepends=True)
    trail.write_bytes(lines[0] + line + b"\n")
    with pytest.raises(error, match="line 2: "):
        store.view(THEATRE_ID)


def test_the_documents_of_a_theatre_are_canonical_lines(tmp_path: Path) -> None:
    committed(tmp_path)
    folder = tmp_path / "theatres" / THEATRE_ID
    for name in ("template.json", "commitment_receipt.json", "origin.json"):
        data = (folder / name).read_bytes()
        assert data == canonical_line(json.loads(data))
    assert sorted(path.name for path in folder.iterdir()) == [
        "audit_trail.jsonl",
        "coin",
        "commitment_receipt.json",
        "lock",
        "origin.json",
        "template.json",
    ]
