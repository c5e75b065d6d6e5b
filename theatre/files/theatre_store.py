"""The file store: one folder a theatre, whose audit trail says in which state it is.

The trail is the only place where a state is written, so a transition is one durable line and a
theatre can never claim a state that its chain does not show.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast
from uuid import UUID

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.coin import NO_NONCE, Coin
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import (
    CoinError,
    CommitmentError,
    NotFoundError,
    ParseError,
    StateConflictError,
)
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import freeze_object
from theatre.engine.replay import FailureReasons
from theatre.engine.state_machine import TheatreState
from theatre.engine.theatre import Theatre
from theatre.files.durable import replace_durably, sync_folder
from theatre.files.run_journal import FileRunJournal, count_episodes, read_trail

_TEMPLATE = "template.json"
RECEIPT = "commitment_receipt.json"
_ORIGIN = "origin.json"
_COIN = "coin"
_RUN_NONCE = "run_nonce"
_ONLY_THE_OWNER = 0o600
_LOCK = "lock"


class TheatreView(NamedTuple):
    """What a reader sees of a theatre without holding it: it may be running meanwhile.

    `resolution` is the detail of the `resolved` event, `archived_at` (RFC 3339) the time of the
    `archived` one; None before them. `open_rubric` is the step that waits for people, if one does,
    `failures` what went wrong so far. `drafts` has the bundles that the independent check refused,
    by theatre.
    """

    theatre_id: str
    template: JsonObject
    state: TheatreState
    commitment_hash: str | None
    resolution: JsonObject | None
    archived_at: str | None
    open_rubric: str | None
    failures: FailureReasons
    folder: Path
    drafts: Path
    template_folder: Path

    @property
    def recorded(self) -> int:
        """Return how many episodes are recorded durably; reads all of them."""
        return count_episodes(self.folder)

    @property
    def reproduces(self) -> str | None:
        """Return the hash of the bundle that a committed theatre makes again, if it does."""
        receipt = parse_object((self.folder / RECEIPT).read_bytes())
        return cast("str | None", receipt["reproduces"])


class TheatreLease(NamedTuple):
    """A theatre that this process holds the lock of, with its journal.

    `coin` is None before the commitment, and where the file is gone or holds no coin.
    """

    theatre: Theatre
    coin: Coin | None
    journal: FileRunJournal
    folder: Path
    template_folder: Path
    code_folder: Path | None

    @property
    def run_nonce(self) -> bytes:
        """Return what the log gave that has the commitment; empty where none has it."""
        try:
            return bytes.fromhex((self.folder / _RUN_NONCE).read_text("ascii"))
        except FileNotFoundError:
            return NO_NONCE

    def keep_run_nonce(self, nonce: bytes) -> None:
        """Make the run's nonce durable, before the run begins."""
        replace_durably(self.folder / _RUN_NONCE, nonce.hex().encode("ascii"))

    @property
    def data(self) -> Path:
        """Return where a theatre has data of its own: a reproduction, those of the bundle."""
        return self.folder / "data"


class FileTheatreStore:
    """The theatres below `home/theatres`, each in a folder named by its id."""

    def __init__(self, home: Path) -> None:
        self._root = home / "theatres"
        self.drafts = home / "drafts"
        """Where bundles are stored that the independent check refused, by theatre."""

    def folder(self, theatre_id: str) -> Path:
        """Return the folder of a theatre; NotFoundError for an unknown or malformed id."""
        with contextlib.suppress(ValueError):
            folder = self._root / str(UUID(theatre_id))
            if (folder / _TEMPLATE).is_file():
                return folder
        raise NotFoundError(f"The theatre was not found in {self._root}: {theatre_id[:300]}")

    def begun_with(self, beginning: str) -> str:
        """Return the one id that begins so, for a reader; else what was given.

        Raises NotFoundError where several ids do.
        """
        found = [one for one in self.theatre_ids() if one.startswith(beginning.lower() or "-")]
        if len(found) > 1:
            raise NotFoundError(
                f"expected the id of a theatre in {self._root}, got {beginning[:80]}, with which "
                f"{len(found)} begin"
            )
        return found[0] if found else beginning

    def create_folder(
        self,
        theatre_id: str,
        template: JsonObject,
        *,
        template_folder: Path,
        code_folder: Path | None = None,
    ) -> Path:
        """Make a new theatre's folder; `template_folder` is where its data paths begin.

        `code_folder` is where its callables and programs begin, if elsewhere.
        """
        folder = self._root / theatre_id
        folder.mkdir(parents=True)
        origin: JsonObject = {"template_folder": str(template_folder.resolve())}
        if code_folder is not None:
            origin["code_folder"] = str(code_folder.resolve())
        replace_durably(folder / _ORIGIN, canonical_line(origin))
        replace_durably(folder / _TEMPLATE, canonical_line(template))
        sync_folder(self._root)
        return folder

    def write_receipt(self, receipt: CommitmentReceipt, coin: Coin) -> None:
        """Make a receipt and its coin durable; the transition that makes them count comes after.

        The coin lies in a file that only its owner reads.
        """
        folder = self.folder(receipt.theatre_id)
        replace_durably(folder / _COIN, coin.line, mode=_ONLY_THE_OWNER)
        replace_durably(folder / RECEIPT, canonical_line(receipt.as_document()))

    @contextlib.contextmanager
    def hold(self, theatre_id: str) -> Iterator[TheatreLease]:
        """Lock and load a theatre for writing.

        Raises NotFoundError, StateConflictError where another process holds it, and
        CommitmentError where its receipt is not the one that its chain committed to.
        """
        folder = self.folder(theatre_id)
        with (folder / _LOCK).open("wb") as lock:
            try:
                # The system frees it when the process dies: no stale lock blocks a theatre.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateConflictError(
                    f"Another process is using theatre {theatre_id}: wait for that run to end, or "
                    "stop it"
                ) from error
            journal = FileRunJournal(folder, folder.name)
            yield TheatreLease(
                theatre=_load(folder, journal),
                coin=read_coin(folder),
                journal=journal,
                folder=folder,
                template_folder=_template_folder(folder),
                code_folder=_code_folder(folder),
            )

    def is_held(self, theatre_id: str) -> bool:
        """Tell whether a process holds a theatre, by sharing its lock for a moment: ask seldom."""
        with (self.folder(theatre_id) / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def view(self, theatre_id: str) -> TheatreView:
        """Return what is durable of a theatre now; takes no lock and changes nothing."""
        folder = self.folder(theatre_id)
        state, commitment_hash, resolution, archived_at = TheatreState.DRAFT, None, None, None
        open_rubric, failures = None, FailureReasons()
        for entry in read_trail(folder, folder.name):
            failures.take(entry)
            detail = cast("JsonObject", entry["detail"])
            if entry["to_state"] is not None:
                state = TheatreState(cast("str", entry["to_state"]))
            if entry["event_type"] == "committed":
                commitment_hash = cast("str", detail["commitment_hash"])
            if entry["event_type"] == "resolved":
                resolution = detail
            if entry["event_type"] == "hitl_opened":
                open_rubric = cast("str", detail["step_id"])
            if entry["event_type"] in {"step_completed", "step_failed"}:
                open_rubric = None
            if entry["event_type"] == "archived":
                archived_at = cast("str", entry["at"])
        return TheatreView(
            theatre_id=folder.name,
            template=parse_object((folder / _TEMPLATE).read_bytes()),
            state=state,
            commitment_hash=commitment_hash,
            resolution=resolution,
            archived_at=archived_at,
            open_rubric=open_rubric,
            failures=failures,
            folder=folder,
            drafts=self.drafts,
            template_folder=_template_folder(folder),
        )

    def newest_environment(self, construct_id: str, construct_version: str) -> JsonObject | None:
        """Return `environment` of the newest certificate here of one version of a construct.

        None where there is no such certificate, or it has none. Of each bundle only the certificate
        is read, the newest file first; one that cannot be read is another theatre's trouble.
        """
        found = self._root.glob(f"*/{bundle_name('*')}/certificate.json")
        for path in sorted(found, key=lambda one: one.stat().st_mtime_ns, reverse=True):
            with contextlib.suppress(OSError, ParseError):
                certificate = parse_object(path.read_bytes())
                version = certificate.get("construct_id"), certificate.get("construct_version")
                if version == (construct_id, construct_version):
                    return cast("JsonObject | None", certificate.get("environment"))
        return None

    def theatre_ids(self) -> list[str]:
        """Return the ids of all theatres, oldest first."""
        if not self._root.is_dir():
            return []
        folders = [f for f in self._root.iterdir() if _is_id(f.name) and (f / _TEMPLATE).is_file()]
        return [f.name for f in sorted(folders, key=lambda f: (f / _ORIGIN).stat().st_mtime_ns)]


def read_coin(folder: Path) -> Coin | None:
    """Return the coin in a theatre's folder; None where the file is gone or holds none."""
    with contextlib.suppress(FileNotFoundError, CoinError):
        return Coin.from_line((folder / _COIN).read_bytes())
    return None


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _load(folder: Path, journal: FileRunJournal) -> Theatre:
    template = freeze_object(parse_object((folder / _TEMPLATE).read_bytes()))
    if journal.state in {None, TheatreState.DRAFT}:
        return Theatre(theatre_id=folder.name, template=template, state=TheatreState.DRAFT)
    receipt = CommitmentReceipt.from_document(parse_object((folder / RECEIPT).read_bytes()))
    if (receipt.theatre_id, receipt.commitment_hash) != (folder.name, journal.commitment_hash):
        raise CommitmentError(
            f"expected the receipt of theatre {folder.name} with commitment "
            f"{journal.commitment_hash}, got one of {receipt.theatre_id} with "
            f"{receipt.commitment_hash}"
        )
    return Theatre(
        theatre_id=folder.name,
        template=receipt.template_snapshot,
        state=TheatreState(journal.state),
        receipt=receipt,
    )


def _template_folder(folder: Path) -> Path:
    origin = parse_object((folder / _ORIGIN).read_bytes())
    return Path(cast("str", origin["template_folder"]))


def _code_folder(folder: Path) -> Path | None:
    origin = parse_object((folder / _ORIGIN).read_bytes())
    return Path(cast("str", origin["code_folder"])) if "code_folder" in origin else None
