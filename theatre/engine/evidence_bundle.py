"""The evidence bundle: everything a stranger needs to recompute a certificate, in one folder.

Source: docs/contract/evidence.md §4. Written in a temporary folder next to its final name, made
durable, renamed once: a half-written bundle is never visible.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self
from uuid import UUID, uuid5

from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.errors import AlreadySealedError, BundleError, BundleUnwrittenError

PART_SIZE = 1000
"""Up to so many episodes each has its own file; past that, parts of this many lines."""

CERTIFICATE = "certificate.json"
REPRODUCTION = "reproduction.json"
"""What a bundle concludes with: a reproduction has no certificate."""

UNSUMMED = frozenset({"manifest.json", "SHA256SUMS", CERTIFICATE, REPRODUCTION})
"""Files that SHA256SUMS leaves out, so that the certificate can name the bundle it lies in."""

COIN = "coin.txt"

REQUIRED = (
    "template.json",
    "commitment_receipt.json",
    COIN,
    "ground_truth/dataset.jsonl",
    "scores/per_episode.jsonl",
    "scores/aggregate.json",
    "scores/data_audit.json",
    "scores/baselines.json",
    "resolution.json",
    "tier.json",
    "audit_trail.jsonl",
)

# No empty, hidden or climbing part, and nothing that SHA256SUMS would have to escape.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One line of the inventory; `path` is POSIX, relative to the bundle."""

    path: str
    size_bytes: int
    sha256: str


def bundle_name(theatre_id: str) -> str:
    """Return the folder name of a theatre's bundle."""
    return f"evidence_bundle_{theatre_id}"


def bundle_id(theatre_id: str, bundle_hash: str) -> str:
    """Return UUID5(theatre, bundle hash)."""
    return str(uuid5(UUID(theatre_id), bundle_hash))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceBundleManifest:
    """`manifest.json`: what the bundle is, and every other file in it; derivable from the bundle.

    `created_at` is RFC 3339 in UTC; `file_inventory` is sorted by the bytes of the paths.
    """

    theatre_id: str
    commitment_hash: str
    bundle_hash: str
    file_inventory: Sequence[FileEntry]
    created_at: str
    methodology_version: str
    construct_version: str
    scorer_version: str

    def as_document(self) -> JsonObject:
        """Return the document that is written."""
        return {
            **asdict(self),
            "bundle_id": bundle_id(self.theatre_id, self.bundle_hash),
            "file_inventory": [asdict(entry) for entry in self.file_inventory],
        }


class EvidenceBundleBuilder:
    """Writes one bundle; as a context manager it leaves nothing behind unless sealed.

    Raises BundleError for what the disk refuses, naming the file.
    """

    def __init__(self, theatre_id: str, output_dir: Path, *, attempt: int = 0) -> None:
        """Write below `output_dir`; no two writers of one theatre may have the same `attempt`."""
        name = bundle_name(theatre_id)
        self.theatre_id = theatre_id
        self._final = output_dir / name
        self._drafts = f".{name}*.partial"
        self.draft = output_dir / (f".{name}.{attempt}.partial" if attempt else f".{name}.partial")
        self._begun: set[str] = set()
        self._entries: dict[str, FileEntry] = {}

    def __enter__(self) -> Self:
        """Start in an empty draft folder; what earlier attempts left, or still write, goes."""
        with _disk("make room for the bundle"):
            for left in self.draft.parent.glob(self._drafts):
                # A link is left, and refused where it stands in the way.
                if left.is_symlink():
                    continue
                # Renamed before it is deleted: a writer that still runs must not add to it.
                removed = left.with_suffix(".removed")
                shutil.rmtree(removed, ignore_errors=True)
                left.rename(removed)
                shutil.rmtree(removed, ignore_errors=True)
            self.draft.mkdir(parents=True)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the draft; after `seal` there is none."""
        shutil.rmtree(self.draft, ignore_errors=True)

    def write_document(self, path: str, document: JsonObject) -> None:
        """Write canonical bytes and a final LF to `path`."""
        self.write_lines(path, [canonical_line(document)])

    def write_lines(self, path: str, lines: Iterable[bytes]) -> None:
        """Write byte strings that already end as they should, streaming."""
        with self.open_file(path) as target:
            for line in lines:
                target.write(line)

    @contextlib.contextmanager
    def open_file(self, path: str) -> "Iterator[_SummedFile]":
        """Open `path` for writing; on leaving, it is durable and in the inventory.

        Raises BundleError for a second write, and for a path that is not plain and relative.
        """
        if not _PLAIN_PATH.fullmatch(path):
            raise BundleError(f"expected a plain path inside the bundle, got {path[:200]!r}")
        if path in self._begun:
            raise BundleError(f"expected to write {path} once, got a second write")
        self._begun.add(path)
        with _disk(f"write {path}"):
            target = self.draft / path
            # Folder by folder: a draft that another attempt has removed is not made again.
            for folder in reversed(PurePosixPath(path).parents[:-1]):
                (self.draft / folder).mkdir(exist_ok=True)
            with target.open("wb") as handle:
                summed = _SummedFile(handle)
                yield summed
                handle.flush()
                os.fsync(handle.fileno())
            self._entries[path] = FileEntry(
                path=path, size_bytes=summed.size, sha256=summed.hexdigest()
            )

    def invocation_writer(self, total: int) -> "InvocationWriter":
        """Return the writer of `invocations/` for a dataset of `total` episodes."""
        return InvocationWriter(self, in_parts=total > PART_SIZE)

    def validate_minimum_files(self) -> list[str]:
        """Return the required files that are not written yet; empty means complete."""
        missing = [path for path in REQUIRED if path not in self._entries]
        if not any(path.startswith("invocations/") for path in self._entries):
            missing.append("invocations/*")
        return missing

    @property
    def file_inventory(self) -> tuple[FileEntry, ...]:
        """Return the files written so far, sorted by the bytes of their paths."""
        return tuple(sorted(self._entries.values(), key=lambda entry: entry.path.encode()))

    def write_sums(self) -> str:
        """Write SHA256SUMS over all files so far and return its SHA-256, the bundle hash."""
        lines = [
            f"{entry.sha256}  {entry.path}\n".encode()
            for entry in self.file_inventory
            if entry.path not in UNSUMMED
        ]
        self.write_lines("SHA256SUMS", lines)
        return self._entries["SHA256SUMS"].sha256

    def write_manifest(self, manifest: EvidenceBundleManifest) -> None:
        """Write `manifest.json`; it must be last, because it lists every other file."""
        self.write_document("manifest.json", manifest.as_document())

    def seal(self, as_checked: "Mapping[str, FileStamp]") -> Path:
        """Make the draft durable and give it its final name in one step; return that path.

        `as_checked` are its `file_stamps` from before it was checked: BundleError where any file
        was touched since. AlreadySealedError where another attempt has been quicker: its bundle
        stays as it is.
        """
        with _disk("seal the bundle"):
            if file_stamps(self.draft) != as_checked:
                raise BundleError(
                    "expected the draft of the bundle as it was checked, got it changed by another "
                    "program: run again"
                )
            for folder in {(self.draft / path).parent for path in self._entries}:
                _sync_folder(folder)
            _sync_folder(self.draft)
            try:
                # One rename makes the bundle visible: readers see all of it or none.
                self.draft.rename(self._final)
            except OSError as error:
                # rename(2) refuses to replace a folder that is not empty: the first attempt wins.
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                    raise
                raise AlreadySealedError(
                    f"expected no bundle {self._final.name} yet, got one: another attempt sealed it"
                ) from error
            _sync_folder(self._final.parent)
        return self._final


class FileStamp(NamedTuple):
    """What changes with any write to a file, or with another file in its place."""

    inode: int
    size: int
    changed_ns: int


def file_stamps(folder: Path) -> dict[str, FileStamp]:
    """Return the stamp of each file in `folder`, by its path in it."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            now = path.lstat()
            found[str(path.relative_to(folder))] = FileStamp(
                now.st_ino, now.st_size, now.st_ctime_ns
            )
    return found


def set_aside(theatre_id: str, output_dir: Path, drafts: Path) -> None:
    """Move what there is of a theatre's bundle to `drafts/<theatre_id>`: sealed, or a draft.

    A draft from an earlier attempt goes. BundleError where the disk refuses.
    """
    name = bundle_name(theatre_id)
    found = [output_dir / name, *sorted(output_dir.glob(f".{name}*.partial"))]
    with _disk("set the refused draft aside"):
        for bundle in [path for path in found if path.is_dir() and not path.is_symlink()]:
            kept = drafts / theatre_id
            shutil.rmtree(kept, ignore_errors=True)
            drafts.mkdir(parents=True, exist_ok=True)
            shutil.move(bundle, kept)
            _sync_folder(drafts)
            _sync_folder(output_dir)


class InvocationWriter:
    """Writes invocation records in dataset order: a file each, or one for 1,000 episodes."""

    def __init__(self, builder: EvidenceBundleBuilder, *, in_parts: bool) -> None:
        self._builder = builder
        self._in_parts = in_parts
        self._stack = contextlib.ExitStack()
        self._part: _SummedFile | None = None
        self._name = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(exc_type, exc, traceback)

    def write(self, seq: int, line: bytes) -> None:
        """Write the canonical line of the record of episode `seq`."""
        if not self._in_parts:
            self._builder.write_lines(f"invocations/episode_{seq:06d}.json", [line])
            return
        # By its number: behind the end of a run some are answered, and others between them are not.
        name = f"invocations/part-{(seq - 1) // PART_SIZE + 1:05d}.jsonl"
        if self._part is None or name != self._name:
            self._stack.close()
            self._part, self._name = self._stack.enter_context(self._builder.open_file(name)), name
        self._part.write(line)


class _SummedFile:
    """A file that hashes and counts what is written to it."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self._hasher = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._handle.write(data)
        self._hasher.update(data)
        self.size += len(data)

    def hexdigest(self) -> str:
        return self._hasher.hexdigest()


@contextlib.contextmanager
def _disk(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BundleUnwrittenError(
            f"expected to {action}, got {error.strerror or error}: "
            "free or mend the disk and run again; nothing half-written is visible"
        ) from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
