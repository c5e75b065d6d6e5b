"""The files of a bundle: plain files inside its folder, bounded, and nothing else.

A stranger's folder may hold links, pipes, devices, names that are no text, and files of any
size; here they end as oddities or as a DefectError, never as a hang or a crash.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from theatre.engine.bundle_check.arithmetic import PROOFS
from theatre.engine.bundle_check.report import NOTHING, CheckId, DefectError, Ledger, Nothing, at
from theatre.engine.canonical_json import (
    DEFAULT_MAX_BYTES,
    JsonObject,
    JsonValue,
    canonical_line,
    parse_object,
    read_canonical,
)
from theatre.engine.errors import BundleError, ParseError

MAX_FILES = 200_000
"""Most files that are looked at: enough for 190 million episodes in parts of 1,000."""

MAX_FILE_BYTES = 16 * 1024**3
"""Largest file that is hashed. A sparse file can claim terabytes at no cost to its author."""

MAX_DOCUMENT_BYTES = DEFAULT_MAX_BYTES
"""Largest JSON document, and longest line, that is parsed."""

_CHUNK = 64 * 1024

# Not through a link, and never waiting: what was listed as a file may be a pipe by now. Windows has
# neither, and would change line ends.
_FLAGS = os.O_RDONLY
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
CERTIFICATE = "certificate.json"
REPRODUCTION = "reproduction.json"
TEMPLATE = "template.json"
RECEIPT = "commitment_receipt.json"
COIN = "coin.txt"
AGGREGATE = "scores/aggregate.json"
PER_EPISODE = "scores/per_episode.jsonl"
DATA_AUDIT = "scores/data_audit.json"
BASELINES = "scores/baselines.json"
RESOLUTION = "resolution.json"
TIER = "tier.json"
AUDIT_TRAIL = "audit_trail.jsonl"
EPISODES = "episodes.jsonl"
"""What a published bundle has instead of the evidence that is withheld."""

_MARKERS = (MANIFEST, SUMS, CERTIFICATE, REPRODUCTION)

DOCUMENTS = (
    MANIFEST,
    CERTIFICATE,
    REPRODUCTION,
    TEMPLATE,
    RECEIPT,
    AGGREGATE,
    DATA_AUDIT,
    BASELINES,
    RESOLUTION,
    TIER,
)
"""The files that hold one JSON object each, invocation records aside."""


class Digest(NamedTuple):
    """What one pass over a file gives; a last line without a line feed counts as a line."""

    sha256: str
    lines: int


class BundleFolder:
    """One folder as it was listed when the check began."""

    def __init__(
        self,
        root: Path,
        files: Mapping[str, int],
        oddities: Sequence[tuple[str, str]],
        *,
        proofs: Mapping[str, int],
    ) -> None:
        self._root = root
        self.files = files
        self.proofs = proofs
        """What came after the sealing, and is no evidence."""
        self.oddities = oddities
        """What is there and no plain file: path, and what it is."""
        self._digests: dict[str, Digest] = {}

    @classmethod
    def listed(cls, root: Path) -> BundleFolder:
        """List a bundle. Raises BundleError where `root` is no folder or no bundle at all."""
        # os.path, unlike Path, answers False where a folder above may not be entered.
        if not os.path.isdir(root):  # noqa: PTH112
            raise BundleError(f"expected the folder of an evidence bundle, got {str(root)!r:.200}")
        if not any(os.path.lexists(root / name) for name in _MARKERS):
            raise BundleError(
                f"expected an evidence bundle with {', '.join(_MARKERS)}, got a folder that has "
                f"none of them: {str(root)!r:.200}"
            )
        files, oddities = _walk(root)
        by_bytes = sorted(files.items(), key=lambda item: item[0].encode("utf-8"))
        evidence = {path: size for path, size in by_bytes if path not in PROOFS}
        proofs = {path: size for path, size in by_bytes if path in PROOFS}
        return cls(root, evidence, oddities, proofs=proofs)

    def digest(self, path: str) -> Digest:
        """Hash and count a file, once. Raises DefectError where it cannot be read."""
        if path not in self._digests:
            size = self._size(path)
            if size > MAX_FILE_BYTES:
                raise DefectError(f"{path} of at most {MAX_FILE_BYTES} bytes", f"{size} bytes")
            hasher, lines, last = hashlib.sha256(), 0, b"\n"
            for chunk in self.chunks(path):
                hasher.update(chunk)
                lines += chunk.count(b"\n")
                last = chunk
            unended = not last.endswith(b"\n")
            self._digests[path] = Digest(hasher.hexdigest(), lines + unended)
        return self._digests[path]

    def read(self, path: str) -> bytes:
        """Return a document's bytes. Raises DefectError: missing, unreadable, too large."""
        size = self._size(path)
        if size > MAX_DOCUMENT_BYTES:
            raise DefectError(f"{path} of at most {MAX_DOCUMENT_BYTES} bytes", f"{size} bytes")
        return b"".join(self.chunks(path))

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield a file's bytes in pieces; errors as `read`, but for the size of a document."""
        try:
            with self._open(path) as handle:
                while chunk := handle.read(_CHUNK):
                    yield chunk
        except OSError as error:
            raise _unreadable(path, error) from error

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield each line with its line feed, streaming; DefectError as `read`, line by line."""
        try:
            with self._open(path) as handle:
                number = 0
                while line := handle.readline(MAX_DOCUMENT_BYTES + 1):
                    number += 1
                    if len(line) > MAX_DOCUMENT_BYTES:
                        raise DefectError(
                            f"{path} with lines of at most {MAX_DOCUMENT_BYTES} bytes",
                            f"more in line {number}",
                        )
                    yield line
        except OSError as error:
            raise _unreadable(path, error) from error

    def _size(self, path: str) -> int:
        size = self.files.get(path, self.proofs.get(path))
        if size is None:
            raise DefectError(f"the file {path}", "none")
        return size

    def _open(self, path: str) -> BinaryIO:
        self._size(path)
        handle = os.fdopen(os.open(self._root / path, _FLAGS), "rb")
        # Checked on what was opened: the name may lead elsewhere by now.
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            handle.close()
            raise DefectError(f"a plain file at {path}", "something else")
        return handle


def _walk(root: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    files: dict[str, int] = {}
    oddities: list[tuple[str, str]] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    if len(files) + len(oddities) + len(folders) >= MAX_FILES:
                        return files, [*oddities, (path, f"beyond {MAX_FILES} entries")]
                    _sort_in(entry, path, files, oddities, folders)
        except OSError as error:
            oddities.append((folder, f"unreadable ({error.strerror})"))
    return files, oddities


def _sort_in(
    entry: os.DirEntry[str],
    path: str,
    files: dict[str, int],
    oddities: list[tuple[str, str]],
    folders: list[str],
) -> None:
    kind = entry.stat(follow_symlinks=False).st_mode
    try:
        entry.name.encode("utf-8")
    except UnicodeEncodeError:
        oddities.append((path, "a name that is not UTF-8"))
        return
    if stat.S_ISDIR(kind):
        folders.append(f"{path}/")
    elif stat.S_ISREG(kind):
        files[path] = entry.stat(follow_symlinks=False).st_size
    else:
        oddities.append((path, "a symbolic link" if stat.S_ISLNK(kind) else "no plain file"))


def _unreadable(path: str, error: OSError) -> DefectError:
    return DefectError(f"a readable file at {path}", error.strerror or type(error).__name__)


class Documents(NamedTuple):
    """The documents that could be read, by path.

    `conclusion` is the path of the last one: the certificate, or what a reproduction has instead.
    """

    by_path: Mapping[str, JsonObject]
    conclusion: str = CERTIFICATE

    @property
    def is_reproduction(self) -> bool:
        """Return whether there is no certificate to hold anything against."""
        return self.conclusion == REPRODUCTION

    @property
    def naming(self) -> tuple[str, ...]:
        """Return the documents that name theatre and commitment."""
        return (RECEIPT, MANIFEST) if self.is_reproduction else (RECEIPT, CERTIFICATE, MANIFEST)

    def get(self, path: str) -> JsonObject | None:
        """Return a document, or None where it is missing or no strict JSON."""
        return self.by_path.get(path)

    def at(self, path: str, *keys: str | int) -> JsonValue | Nothing:
        """Return what lies in a document at `keys`, or NOTHING."""
        document = self.by_path.get(path)
        return NOTHING if document is None else at(document, *keys)


def read_documents(folder: BundleFolder, ledger: Ledger) -> Documents:
    """Read every document there is; what is wrong with its form goes to `canonical-form`."""
    found: dict[str, JsonObject] = {}
    for path in DOCUMENTS:
        if path not in folder.files:
            continue
        with ledger.noting(CheckId.CANONICAL_FORM):
            found[path] = canonical_object(folder.read(path), path, ledger)
    ledger.certificate = found.get(CERTIFICATE)
    is_reproduction = REPRODUCTION in folder.files and CERTIFICATE not in folder.files
    return Documents(found, REPRODUCTION if is_reproduction else CERTIFICATE)


def canonical_object(raw: bytes, where: str, ledger: Ledger) -> JsonObject:
    """Parse one document or line; another form of the same value is noted, not refused.

    Raises DefectError for what is no JSON object by the strict parser.
    """
    try:
        if raw.endswith(b"\n") and len(raw) <= MAX_DOCUMENT_BYTES:
            # Parsed and compared at once, which most are.
            canonical = read_canonical(raw)
            if isinstance(canonical, dict):
                return canonical
        document = parse_object(raw, max_bytes=MAX_DOCUMENT_BYTES)
    except ParseError as error:
        raise DefectError(f"{where} as a strict JSON object", str(error)) from error
    if canonical_line(document) != raw:
        ledger.wrong(
            CheckId.CANONICAL_FORM,
            f"{where} as RFC 8785 bytes and a line feed",
            "other bytes of the same value",
        )
    return document
