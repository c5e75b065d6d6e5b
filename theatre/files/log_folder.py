"""A log in a folder: the tiles and the checkpoint that any web server can publish, and its state.

Names that begin with a dot are the writer's own; a copy of the folder without them is the public
log. Source: docs/contract/trust.md §2, §4.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from theatre.engine.errors import NotFoundError, StateConflictError
from theatre.files.durable import replace_durably, sync_folder, write_synced
from theatre.transparency.errors import LogForkError
from theatre.transparency.log import CHECKPOINT
from theatre.transparency.notes import Checkpoint, Note
from theatre.transparency.tiles import TILE_WIDTH, decode_tile, edge_paths, tile_path

_SIGNED = ".signed"
_LOCK = ".lock"
_LOCK_SECONDS = 0.01
_FEW = 3
_THREADS = 8
_PATIENCE_SECONDS = 120.0
"""A writer is done within a second: who holds a lock for so long hangs."""


class LogFolder:
    """A log's files below a folder. Reading needs no lock: what is named never changes.

    Writing holds up the event loop: a thread that a cancelled task leaves behind would go on after
    the lock was given back, and put an older file over one that another writer has signed for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._indices: dict[bytes, int] = {}
        self._known = 0

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none."""
        try:
            # At most a few hundred KiB: a thread would take longer to begin than this takes.
            return (self._folder / path).read_bytes()
        except FileNotFoundError as error:
            raise NotFoundError(f"expected {path} in the log {self._folder}, got none") from error

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Make files durable, and the names of their folders."""
        paths = {self._folder / name: data for name, data in files.items()}
        below = {Path(name).parent for name in files} | (_above(files) - await self._durable())
        folders = [self._folder / folder for folder in below]
        if len(paths) <= _FEW:
            # To begin a thread takes more of the processor than to write an entry.
            for path, data in paths.items():
                _write(path, data)
            for folder in folders:
                sync_folder(folder)
            return
        # A disk that several threads ask at once makes durable in one go what all of them wait for.
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(_write, paths.keys(), paths.values()))
            list(threads.map(sync_folder, folders))

    async def _durable(self) -> set[Path]:
        """Return folders that are durable: what was signed lies in them."""
        return _above(edge_paths(await self._signed_size()))

    async def _signed_size(self) -> int:
        signed = await self.signed()
        return 0 if signed is None else Checkpoint.parse(Note.parse(signed).text).size

    async def signed(self) -> bytes | None:
        """Return the last checkpoint that was signed, public or not yet."""
        path = self._folder / _SIGNED
        return path.read_bytes() if path.exists() else None

    async def swap_signed(self, old: bytes | None, new: bytes) -> None:
        """Make a signed checkpoint the log's state; LogForkError where it is not `old`."""
        if await self.signed() != old:
            raise LogForkError(f"expected one writer of {self._folder}, got another's checkpoint")
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_durably(self._folder / _SIGNED, new)

    def begin(self, checkpoint: bytes) -> None:
        """Put the checkpoint of the empty tree into a new log, or in place of what began as one."""
        (self._folder / "tile").mkdir(parents=True, exist_ok=True)
        for name in (_SIGNED, CHECKPOINT):
            replace_durably(self._folder / name, checkpoint)

    async def publish(self, checkpoint: bytes) -> None:
        """Put the checkpoint where readers look."""
        replace_durably(self._folder / CHECKPOINT, checkpoint)

    async def find(self, leaves: Sequence[bytes]) -> Mapping[bytes, int]:
        """Return the indices of the entries that the signed tree holds, by leaf hash."""
        self._learn(await self._signed_size())
        return {leaf: self._indices[leaf] for leaf in leaves if leaf in self._indices}

    def _learn(self, size: int) -> None:
        """Read the leaf hashes behind those that are known; all, where the log has become shorter.

        That one was copied back, and is refused elsewhere.
        """
        if size < self._known:
            self._indices, self._known = {}, 0
        for index in range(self._known // TILE_WIDTH, -(-size // TILE_WIDTH)):
            width = min(TILE_WIDTH, size - index * TILE_WIDTH)
            tile = decode_tile((self._folder / tile_path(0, index, width)).read_bytes(), width)
            for at, leaf in enumerate(tile, start=index * TILE_WIDTH):
                self._indices.setdefault(leaf, at)
        self._known = size

    @contextlib.asynccontextmanager
    async def hold(self, *, patience: float = _PATIENCE_SECONDS) -> AsyncIterator[None]:
        """Be the only writer, on this machine; waits for the other one.

        Raises StateConflictError where that one is not done after `patience` seconds.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("ab") as handle:
            try:
                async with asyncio.timeout(patience):
                    while not _try_lock(handle.fileno()):  # noqa: ASYNC110 - another process has it
                        await asyncio.sleep(_LOCK_SECONDS)
            except TimeoutError as error:
                raise StateConflictError(
                    f"Another process has been writing the log {self._folder} for {patience:g} s: "
                    "wait for it to end, or stop it"
                ) from error
            try:
                yield
            finally:
                _unlock(handle.fileno())


def _above(names: Iterable[str]) -> set[Path]:
    """Return the folders that files lie in, and those above."""
    return {folder for name in names for folder in Path(name).parents}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_synced(path, data)


def _try_lock(handle: int) -> bool:
    import fcntl  # noqa: PLC0415 - a reader on another system needs no lock

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(handle: int) -> None:
    import fcntl  # noqa: PLC0415 - as above

    fcntl.flock(handle, fcntl.LOCK_UN)
