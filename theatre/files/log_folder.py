"""A log in a folder: the tiles and the checkpoint that any web server can publish, and its state.

Names that begin with a dot are the writer's own; a copy of the folder without them is the public
log. Source: docs/contract/trust.md §2, §4.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from theatre.engine.errors import NotFoundError, StateConflictError
from theatre.files.durable import replace_durably, sync_folder
from theatre.transparency.errors import LogForkError
from theatre.transparency.log import CHECKPOINT
from theatre.transparency.notes import Checkpoint, Note
from theatre.transparency.tiles import TILE_WIDTH, decode_tile, tile_path

_SIGNED = ".signed"
_LOCK = ".lock"
_LOCK_SECONDS = 0.01
_PATIENCE_SECONDS = 120.0
"""A writer is done within a second: who holds a lock for so long hangs."""


class LogFolder:
    """A log's files below a folder. Reading needs no lock: what is named never changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._indices: dict[bytes, int] = {}
        self._known = 0

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none."""
        try:
            return await asyncio.to_thread((self._folder / path).read_bytes)
        except FileNotFoundError as error:
            raise NotFoundError(f"expected {path} in the log {self._folder}, got none") from error

    async def write(self, files: Mapping[str, bytes]) -> None:
        """Make files durable, and the names of their folders."""
        await asyncio.to_thread(self._write, files)

    async def signed(self) -> bytes | None:
        """Return the last checkpoint that was signed, public or not yet."""
        path = self._folder / _SIGNED
        return path.read_bytes() if path.exists() else None

    async def swap_signed(self, old: bytes | None, new: bytes) -> None:
        """Make a signed checkpoint the log's state; LogForkError where it is not `old`."""
        if await self.signed() != old:
            raise LogForkError(f"expected one writer of {self._folder}, got another's checkpoint")
        self._folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(replace_durably, self._folder / _SIGNED, new)

    def begin(self, checkpoint: bytes) -> None:
        """Put the checkpoint of the empty tree into a new log, or in place of what began as one."""
        (self._folder / "tile").mkdir(parents=True, exist_ok=True)
        for name in (_SIGNED, CHECKPOINT):
            replace_durably(self._folder / name, checkpoint)

    async def publish(self, checkpoint: bytes) -> None:
        """Put the checkpoint where readers look."""
        await asyncio.to_thread(replace_durably, self._folder / CHECKPOINT, checkpoint)

    async def find(self, leaves: Sequence[bytes]) -> Mapping[bytes, int]:
        """Return the indices of the entries that the signed tree holds, by leaf hash."""
        signed = await self.signed()
        if signed is not None:
            size = Checkpoint.parse(Note.parse(signed).text).size
            await asyncio.to_thread(self._learn, size)
        return {leaf: self._indices[leaf] for leaf in leaves if leaf in self._indices}

    def _learn(self, size: int) -> None:
        """Read the leaf hashes behind those that are known."""
        for index in range(self._known // TILE_WIDTH, -(-size // TILE_WIDTH)):
            width = min(TILE_WIDTH, size - index * TILE_WIDTH)
            tile = decode_tile((self._folder / tile_path(0, index, width)).read_bytes(), width)
            for at, leaf in enumerate(tile, start=index * TILE_WIDTH):
                self._indices.setdefault(leaf, at)
        self._known = size

    def _write(self, files: Mapping[str, bytes]) -> None:
        folders: set[Path] = set()
        for name, data in files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            folders.update(path.relative_to(self._folder).parents)
        for folder in folders:
            sync_folder(self._folder / folder)

    @contextlib.asynccontextmanager
    async def hold(self, *, patience: float = _PATIENCE_SECONDS) -> AsyncIterator[None]:
        """Be the only writer, on this machine; waits for the other one.

        Raises StateConflictError where that one is not done after `patience` seconds.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("ab") as handle:
            try:
                async with asyncio.timeout(patience):
                    # Threads that wait would keep those away that write the holder's files.
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
                fcntl.flock(handle, fcntl.LOCK_UN)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
