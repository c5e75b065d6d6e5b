"""fsck of a log names each fault: in its files, its entries, and in a theatre that differs."""

import asyncio
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from securesystemslib.signer import CryptoSigner

from tests.theatre.transparency.log_stage import signer
from tests.theatre.transparency.test_record import committed, void
from theatre.cli import cli
from theatre.cli.exits import CommandEndedError
from theatre.engine.canonical_json import JsonObject
from theatre.files.log_folder import LogFolder
from theatre.files.trust_home import TrustHome
from theatre.transparency.bundle_proofs import certificate_entry
from theatre.transparency.entries import EntryType, VoidReason
from theatre.transparency.fsck import LogReport, StoredTheatre, check_log, check_theatre
from theatre.transparency.log import LogWriter
from theatre.transparency.notes import Checkpoint, Note, sign_text
from theatre.transparency.statements import IssuerKey, certificate_statement, sign_statement
from theatre.transparency.tiles import Tree, grow

pytestmark = pytest.mark.anyio

LOG = signer("log.example/1")
ENTRIES = [committed(f"{n:03}", close_by="2027-12-23") for n in range(300)]
ENTRIES += [void(f"{n:03}", n) for n in range(300)]


async def logged(folder: Path, *entries: bytes) -> LogFolder:
    store = LogFolder(folder)
    writer = LogWriter(store, LOG.key, LOG.sign)
    await writer.open()
    await writer.append(entries)
    return store


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 600 entries: two full tiles of the lowest level, and an edge of 88."""
    folder = tmp_path_factory.mktemp("whole") / "log"
    asyncio.run(logged(folder, *ENTRIES))
    return folder


async def checked(store: LogFolder, *sizes: int) -> LogReport:
    return await check_log(store, await store.signed(), LOG.key, sizes=sizes)


async def faults(store: LogFolder) -> list[tuple[str, str]]:
    report = await checked(store)
    return [(one.code, one.subject) for one in report.findings]


def remove(path: Path) -> None:
    path.unlink()


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def rename_theatre(path: Path) -> None:
    """Change an entry into another one of the same form."""
    path.write_bytes(path.read_bytes().replace(b'"theatre_id":"000"', b'"theatre_id":"999"'))


FILES = {
    "a full tile is changed": ("tile/0/000", flip, ["log-tile-damaged"]),
    "a full tile is gone": ("tile/0/001", remove, ["log-tile-missing"]),
    "an edge tile is changed": ("tile/0/002.p/88", flip, ["log-tile-damaged"]),
    "a tile of hashes of tiles is gone": ("tile/1/000.p/2", remove, ["log-tile-missing"]),
    "entries are gone": ("tile/entries/001", remove, ["log-entries-missing"]),
    "entries are cut": ("tile/entries/001", cut, ["log-entries-damaged"]),
    "an entry is another": (
        "tile/entries/000",
        rename_theatre,
        ["log-tile-damaged", "log-tile-damaged", "log-root", "closes-nothing"],
    ),
    "the public checkpoint is gone": ("checkpoint", remove, ["log-checkpoint"]),
    "the signed state has no signature": (".signed", cut, ["log-signature"]),
}


async def test_a_whole_log_has_no_fault(whole: Path) -> None:
    report = await checked(LogFolder(whole), 0, 1, 256, 257, 512, 599)
    assert (report.findings, len(report.leaves)) == ([], len(ENTRIES))
    assert report.roots == {
        size: grow(Tree(), ENTRIES[:size]).tree.root for size in (0, 1, 256, 257, 512, 599, 600)
    }


@pytest.mark.parametrize("case", FILES)
async def test_each_damaged_file_is_named(whole: Path, tmp_path: Path, case: str) -> None:
    name, damage, codes = FILES[case]
    shutil.copytree(whole, tmp_path / "log")
    damage(tmp_path / "log" / name)
    found = await faults(LogFolder(tmp_path / "log"))
    assert [code for code, _ in found] == codes
    if name.startswith("tile"):
        assert name in {subject for _, subject in found} | {"tile/entries/000"}


async def test_wrong_entries_are_named_by_their_place(tmp_path: Path) -> None:
    one = committed("one", close_by="2027-12-23")
    store = await logged(
        tmp_path, one, void("one", 0), void("one", 0, VoidReason.FAILED), b'{"a":1}'
    )
    assert await faults(store) == [("closed-twice", "entry 2"), ("entry-invalid", "entry 3")]


async def test_an_entry_that_is_signed_twice_is_named(tmp_path: Path) -> None:
    """No writer of ours logs one twice; the tree is in order all the same."""
    store = LogFolder(tmp_path)
    growth = grow(Tree(), [ENTRIES[0], ENTRIES[1], ENTRIES[0]])
    await store.write(growth.files)
    text = str(Checkpoint(LOG.key.name, growth.tree.size, growth.tree.root))
    data = bytes(Note(text, (sign_text(text, LOG.key, LOG.sign),)))
    await store.swap_signed(None, data)
    await store.publish(data)
    assert await faults(store) == [("committed-twice", "entry 2"), ("log-entry-twice", "entry 2")]


# A store of theatres against the log.

PRIVATE = ec.derive_private_key(19, ec.SECP256R1())
KEY = IssuerKey.of(PRIVATE.public_key())
CERTIFICATE: JsonObject = {
    "theatre_id": "two",
    "verification_tier": "BACKTESTED",
    "expires_at": None,
    "evidence_bundle_hash": "ab" * 32,
}
PAYLOAD = certificate_statement(CERTIFICATE, None)
SIGNED = sign_statement(PAYLOAD, CryptoSigner(PRIVATE, KEY.verifier))
CHANGED = certificate_statement({**CERTIFICATE, "evidence_bundle_hash": "cd" * 32}, None)
OTHER = sign_statement(CHANGED, CryptoSigner(PRIVATE, KEY.verifier))
ONE, TWO, THREE = (committed(one, close_by="2027-12-23") for one in ("one", "two", "three"))
VOID = StoredTheatre(theatre_id="one", commitment=ONE, closing=EntryType.VOID)
CERTIFIED = StoredTheatre(
    theatre_id="two", commitment=TWO, closing=EntryType.CERTIFICATE, statement=SIGNED
)


def stored(theatre: StoredTheatre, **changes: Any) -> StoredTheatre:  # noqa: ANN401 - members
    members = {name: getattr(theatre, name) for name in StoredTheatre.__slots__}
    return StoredTheatre(**{**members, **changes})


DIFFERENCES = {
    "nothing": (VOID, None),
    "nothing of a certified one": (CERTIFIED, None),
    "a theatre that the log does not know": (
        stored(VOID, theatre_id="x"),
        "log-commitment-missing",
    ),
    "another commitment": (stored(VOID, commitment=TWO), "log-commitment-differs"),
    "one that goes on": (stored(VOID, closing=None), "log-closing-differs"),
    "another end": (stored(VOID, closing=EntryType.CERTIFICATE), "log-closing-differs"),
    "an end that no entry closes": (
        StoredTheatre(theatre_id="three", commitment=THREE, closing=EntryType.VOID),
        "log-closing-missing",
    ),
    "no statement": (stored(CERTIFIED, statement=None), "statement-missing"),
    "bytes that are no statement": (stored(CERTIFIED, statement=b"{}"), "statement-invalid"),
    "a statement that was signed later": (stored(CERTIFIED, statement=OTHER), "statement-differs"),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> LogReport:
    closing = certificate_entry(CERTIFICATE, PAYLOAD, 1)

    async def made() -> LogReport:
        folder = tmp_path_factory.mktemp("theatres")
        return await checked(await logged(folder, ONE, TWO, THREE, void("one", 0), closing))

    return asyncio.run(made())


@pytest.mark.parametrize("case", DIFFERENCES)
def test_where_a_theatre_differs_from_its_log(report: LogReport, case: str) -> None:
    theatre, code = DIFFERENCES[case]
    found = [one.code for one in check_theatre(report, theatre, [KEY])]
    assert found == ([] if code is None else [code])


def test_the_command_has_a_word_and_an_exit_code_for_each_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = TrustHome(tmp_path)
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path))
    # Away from the theatres of a checkout in which someone has run one.
    monkeypatch.chdir(tmp_path)
    home.open(issuer="me", at=datetime(2026, 11, 23, tzinfo=UTC))

    def fsck() -> tuple[int, str, int]:
        ended = CliRunner().invoke(cli, ["log", "fsck", "--json"])
        document = json.loads(ended.stdout)
        code = ended.exception.code if isinstance(ended.exception, CommandEndedError) else 0
        return code, document["verdict"], document["entries"]

    assert fsck() == (3, "empty", 0)
    assert CliRunner().invoke(cli, ["trust", "rotate"]).exception is None
    assert fsck() == (0, "intact", 2)
    flip(tmp_path / "log" / "tile" / "0" / "000.p" / "2")
    assert fsck() == (10, "damaged", 2)
    text = CliRunner().invoke(cli, ["log", "fsck"]).stdout.splitlines()
    assert text[0] == "log-tile-damaged  tile/0/000.p/2"
    assert text[-1] == "damaged; 1 findings, 2 entries"
