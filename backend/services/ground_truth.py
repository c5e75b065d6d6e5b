"""Ground truth of the service: what templates may name, and a copy of all that was committed.

At a commitment every dataset is copied to the evidence store, under its hash. A run reads from
there, on whatever machine: whatever becomes of a root, the committed bytes stay.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from backend.errors import EvidenceDamagedError
from backend.evidence_store import EvidenceStore, ObjectKind
from theatre.engine.errors import DatasetError, DatasetMismatchError, ParseError
from theatre.engine.schema_registry import Quoted, phrase
from theatre.files.datasets import DatasetFile, DatasetRoots
from theatre.oracles.in_process import CannedAnswers, read_canned_answers

UPLOADED = "dataset:"
MAX_ANSWERS_BYTES = 8 * 1024 * 1024
"""Of canned answers: all of them are in memory as long as their rehearsal runs."""


class GroundTruth:
    """Implements `theatre.engine.replay.DatasetSource` over the copies of what was committed."""

    def __init__(self, roots: Sequence[Path], store: EvidenceStore) -> None:
        self._roots = DatasetRoots(roots)
        self._store = store

    def open(self, path: str, *, sha256: str) -> DatasetFile:
        """Open the copy of a committed dataset; messages say only what its template says.

        Raises DatasetError where there is none, DatasetMismatchError where it was changed, and
        EvidenceStoreError where the store does not answer.
        """
        try:
            dataset = DatasetFile(self._store.fetch(ObjectKind.DATASETS, sha256))
        except EvidenceDamagedError as error:
            if error.found is None:
                raise _not_kept(path) from None
            raise _changed(path, sha256, error.found) from None
        except DatasetError:
            raise _not_kept(path) from None
        if dataset.sha256 != sha256:
            dataset.close()
            raise _changed(path, sha256, dataset.sha256)
        return dataset

    def fetch(self, hashes: Collection[str]) -> None:
        """Fetch copies to the local disk, as far as they exist; `open` raises for the rest.

        Blocks, for as long as the store takes; EvidenceStoreError where it does not answer.
        """
        for sha256 in hashes:
            with contextlib.suppress(EvidenceDamagedError):
                self._store.fetch(ObjectKind.DATASETS, sha256)

    def copy_committed(self, path: str, *, sha256: str, uploads: Collection[str]) -> None:
        """Copy a dataset that a template names; `uploads` are those of the committing user. Blocks.

        `path` is inside a dataset root, or `dataset:` and the SHA-256 of an upload. Errors as
        `open`.
        """
        if path.startswith(UPLOADED):
            self._require_upload(path, sha256, uploads)
            return
        try:
            dataset = DatasetFile(self._roots.find(path))
        except DatasetError:
            raise _not_in_a_root(path) from None
        try:
            if dataset.sha256 != sha256:
                raise DatasetMismatchError(phrase(*_of(path, sha256), f", got {dataset.sha256}"))
            self._copy(dataset)
        finally:
            dataset.close()

    def take(self, path: str, *, uploads: Collection[str]) -> str:
        """Copy a dataset that nothing was committed to, and return its SHA-256. Blocks.

        `path` and `uploads` as `copy_committed`; DatasetError where there is none.
        """
        named = path.removeprefix(UPLOADED)
        if named != path:
            self._require_upload(path, named, uploads)
            return named
        try:
            dataset = DatasetFile(self._roots.find(path))
        except DatasetError:
            raise _not_in_a_root(path) from None
        try:
            self._copy(dataset)
            return dataset.sha256
        finally:
            dataset.close()

    def canned_answers(self, sha256: str) -> CannedAnswers:
        """Read an upload as the answers of a rehearsal. Blocks.

        DatasetError for what is none, which is never repeated, and for too much of it.
        """
        dataset = self.open(f"{UPLOADED}{sha256}", sha256=sha256)
        try:
            return read_canned_answers(_as_far_as_allowed(dataset.lines()))
        except ParseError as error:
            # The same message, which knows which parts of it are the user's.
            raise DatasetError(*error.args) from None
        finally:
            dataset.close()

    def _require_upload(self, path: str, sha256: str, uploads: Collection[str]) -> None:
        named = path.removeprefix(UPLOADED)
        if named not in uploads:
            raise DatasetError(
                phrase("expected an upload of yours, got ", Quoted(path), ": POST /datasets")
            )
        if named != sha256:
            raise DatasetMismatchError(phrase(*_of(path, sha256), ", got another one"))

    def copies_from_before(self, moment: datetime) -> frozenset[str]:
        """Return the SHA-256 of what was last put into the store before `moment`. Blocks."""
        kept = self._store.list_objects(ObjectKind.DATASETS)
        return frozenset(one.name for one in kept if one.stored_at <= moment)

    def remove(self, name: str, *, before: datetime) -> bool:
        """Remove what `copies_from_before` named, unless it was put there anew. Blocks."""
        there = self._store.find(ObjectKind.DATASETS, name)
        if there is None or there.stored_at > before:
            return False
        self._store.remove(ObjectKind.DATASETS, name)
        return True

    def _copy(self, dataset: DatasetFile) -> None:
        if self._store.find(ObjectKind.DATASETS, dataset.sha256) is not None:
            return
        with self._store.draft() as draft:
            with draft.open("wb") as handle:
                for chunk in dataset.chunks():
                    handle.write(chunk)
            self._store.put(ObjectKind.DATASETS, draft)


@dataclass(frozen=True, slots=True)
class RehearsalData:
    """Ground truth of a rehearsal: one committed dataset is replaced by another copy.

    Implements `theatre.engine.replay.DatasetSource`.
    """

    data: GroundTruth
    replaced: str
    """The path of the replaced dataset in the template."""
    sha256: str
    """What is opened for it."""

    def open(self, path: str, *, sha256: str) -> DatasetFile:
        """Open a copy; errors as `GroundTruth.open`."""
        return self.data.open(path, sha256=self.sha256 if path == self.replaced else sha256)


def _as_far_as_allowed(lines: Iterable[bytes]) -> Iterator[bytes]:
    left = MAX_ANSWERS_BYTES
    for line in lines:
        left -= len(line)
        if left < 0:
            raise DatasetError(f"expected at most {MAX_ANSWERS_BYTES} bytes of answers, got more")
        yield line


def _not_in_a_root(path: str) -> DatasetError:
    # The message must not name the operator's folders.
    return DatasetError(
        phrase(
            "expected dataset ", Quoted(path), " inside a dataset root of this service, got none"
        )
    )


def _not_kept(path: str) -> DatasetError:
    return DatasetError(phrase("expected the committed dataset ", Quoted(path), ", got none"))


def _changed(path: str, sha256: str, found: str) -> DatasetMismatchError:
    return DatasetMismatchError(phrase(*_of(path, sha256), f" (committed), got {found}"))


def _of(path: str, sha256: str) -> tuple[str, Quoted, str, Quoted]:
    return "expected dataset ", Quoted(path), " with SHA-256 ", Quoted(sha256)
