"""The ways from the service to a repository: GitHub's interface, and clones that are let read.

A request names `owner/name` or a path below the operator's folders, never an address. The token is
used for the repositories that the operator lists, and for no other (docs/adr/0151).
"""

import asyncio
import random
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.schemas.verifications import CloneSource, GitHubSource
from theatre.engine.canonical_json import canonical_line
from theatre.engine.clock import Clock
from theatre.verification.errors import RepositoryError
from theatre.verification.github.pull_requests import ReadingCache, connect
from theatre.verification.github.rest import Pace
from theatre.verification.local_history import GitClone, read_history
from theatre.verification.records import GroundTruthRecord, decode

MAX_GROUND_TRUTH_BYTES = 64 * 1024 * 1024
"""The limit of all records together, which are held in memory; the same as for an upload."""
_LONGEST_WAIT = 3600.0
_LOOK_SECONDS = 0.2
"""Seconds that a reading may still take once it should stop."""
_SLEPT_SECONDS = 60.0
"""Seconds. A longer wait must not occupy a worker's slot."""


class LongWaitError(Exception):
    """GitHub's limit asks for so long a wait that the reading must go on in another attempt."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"expected to go on at once, got {seconds:.0f} s to wait")
        self.seconds = seconds


@dataclass(slots=True)
class GatheredRecords:
    """The records that are read so far; setting `stopping` ends the reading."""

    records: list[GroundTruthRecord] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    size_bytes: int = 0

    def take(self, record: GroundTruthRecord) -> None:
        """Take one more; RepositoryError beyond MAX_GROUND_TRUTH_BYTES."""
        self.size_bytes += len(canonical_line(record.as_document()))
        if self.size_bytes > MAX_GROUND_TRUTH_BYTES:
            raise RepositoryError(
                f"expected changes of at most {MAX_GROUND_TRUTH_BYTES} bytes in all, got more: "
                "ask for fewer"
            )
        self.records.append(record)

    def take_all(self, records: Iterable[GroundTruthRecord]) -> None:
        """Take one after the other until all are taken, or it is to stop. Blocks."""
        for record in records:
            if self.stopping.is_set():
                return
            self.take(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryAccess:
    """What the operator allows verifications to read, and where a reading caches it."""

    github: str
    token: str | None = field(repr=False)
    token_for: tuple[str, ...]
    clone_roots: tuple[Path, ...]
    desk: Path
    clock: Clock

    def folder_of(self, verification_id: str) -> Path:
        """Return the folder in which a reading is kept, on this machine."""
        return self.desk / verification_id

    def read_pull_requests(
        self, request: GitHubSource, verification_id: str, gathered: GatheredRecords
    ) -> None:
        """Read merged pull requests; a second attempt on this machine goes on from the first.

        Two attempts may work in one folder, when a worker was only paused: a line that they both
        wrote into is skipped by readers. Blocks: in its own event loop, since each record is made
        durable at once. Raises LongWaitError, and RepositoryError and RateLimitedError as
        `PullRequests`.
        """
        cache = ReadingCache(self.folder_of(verification_id))
        asyncio.run(_unless_stopped(self._pull_requests(request, cache, gathered), gathered))

    async def _pull_requests(
        self, request: GitHubSource, cache: ReadingCache, gathered: GatheredRecords
    ) -> None:
        pace = Pace(
            clock=self.clock,
            sleep=_sleep_or_leave,
            jitter=random.random,
            on_wait=lambda *_: None,
            longest_wait=_LONGEST_WAIT,
        )
        token = self.token if self._uses_token(request.repository) else None
        async with connect(
            self.github, request.repository, token=token, cache=cache, pace=pace
        ) as pull_requests:
            async for record in pull_requests.stream(request.selection):
                gathered.take(record)

    def read_clone(self, request: CloneSource, gathered: GatheredRecords) -> None:
        """Read commits of a clone. Blocks; RepositoryError where there is none to be read."""
        gathered.take_all(read_history(self._clone(request.path), request.selection))

    def _uses_token(self, repository: str) -> bool:
        owner, _, name = repository.lower().partition("/")
        listed = {one.lower() for one in self.token_for}
        return not listed.isdisjoint({f"{owner}/{name}", f"{owner}/*"})

    def _clone(self, path: str) -> Path:
        for root in (one.resolve() for one in self.clone_roots):
            folder = (root / path).resolve()
            # Resolved first: a link must not lead out of the operator's folders.
            if folder.is_relative_to(root) and folder != root and _is_own_clone(folder):
                return folder
        raise RepositoryError(
            "expected a clone below a folder that the operator lists for clones, got none there"
        )


def _is_own_clone(folder: Path) -> bool:
    """Tell whether a folder is a clone itself, and not some folder inside of another clone."""
    if not folder.is_dir():
        return False
    try:
        found = GitClone(folder).run("rev-parse", "--path-format=absolute", "--git-common-dir")
    except RepositoryError:
        return False
    return Path(decode(found.data).strip()).resolve() in {folder, folder / ".git"}


async def _unless_stopped(work: Coroutine[Any, Any, None], gathered: GatheredRecords) -> None:
    reading = asyncio.create_task(work)
    while not reading.done():
        await asyncio.wait([reading], timeout=_LOOK_SECONDS)
        if gathered.stopping.is_set():
            reading.cancel()
            await asyncio.wait([reading])
            return
    reading.result()


async def _sleep_or_leave(seconds: float) -> None:
    if seconds > _SLEPT_SECONDS:
        raise LongWaitError(seconds)
    await asyncio.sleep(seconds)
