"""Ground truth of the service: what templates may name, and a copy of all that was committed.

At a commitment every dataset is copied to a store that is addressed by content. A run reads from
there: whatever becomes of a root, the committed bytes stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from uuid import uuid4

from theatre.engine.errors import DatasetError, DatasetMismatchError
from theatre.files.datasets import DatasetFile, DatasetRoots
from theatre.files.durable import sync_folder

UPLOADED = "dataset:"
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class GroundTruth:
    """Implements `theatre.engine.replay.DatasetSource` over the copies of what was committed."""

    def __init__(self, roots: Sequence[Path], store: Path) -> None:
        self._roots = DatasetRoots(roots)
        self._store = store

    def open(self, path: str, *, sha256: str) -> DatasetFile:
        """Open the copy of a committed dataset; messages say only what its template says.

        Raises DatasetError where there is none, DatasetMismatchError where it was changed.
        """
        try:
            dataset = DatasetFile(self._place(sha256))
        except DatasetError:
            raise DatasetError(f"expected the committed dataset {path}, got none") from None
        if dataset.sha256 != sha256:
            dataset.close()
            raise DatasetMismatchError(
                f"expected dataset {path} with SHA-256 {sha256} (committed), got {dataset.sha256}"
            )
        return dataset

    def keep(self, path: str, *, sha256: str, uploads: Collection[str]) -> None:
        """Copy a dataset that a template names; `uploads` are the ones of who commits. Blocks.

        `path` is inside a dataset root, or `dataset:` and the SHA-256 of an upload. Errors as
        `open`.
        """
        if path.startswith(UPLOADED):
            self._require_upload(path, sha256, uploads)
            return
        try:
            dataset = DatasetFile(self._roots.find(path))
        except DatasetError:
            # Which folders there are is the operator's business.
            raise DatasetError(
                f"expected dataset {path} inside a dataset root of this service, got none"
            ) from None
        try:
            if dataset.sha256 != sha256:
                raise DatasetMismatchError(
                    f"expected dataset {path} with SHA-256 {sha256}, got {dataset.sha256}"
                )
            if not self._place(sha256).is_file():
                self._copy(dataset, self._place(sha256))
        finally:
            dataset.close()

    def _require_upload(self, path: str, sha256: str, uploads: Collection[str]) -> None:
        named = path.removeprefix(UPLOADED)
        if named not in uploads:
            raise DatasetError(f"expected an upload of yours, got {path[:100]}: POST /datasets")
        if named != sha256:
            raise DatasetMismatchError(f"expected dataset {path} with SHA-256 {sha256}")

    def place_of_upload(self, sha256: str) -> Path:
        """Return where the bytes of an upload belong."""
        return self._place(sha256)

    def _place(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise DatasetError("expected a SHA-256 of 64 lower-case hex digits, got another text")
        return self._store / sha256

    def _copy(self, dataset: DatasetFile, target: Path) -> None:
        draft = target.with_name(f".{uuid4()}.partial")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("wb") as handle:
                for chunk in dataset.chunks():
                    handle.write(chunk)
                handle.flush()
                os.fsync(handle.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(target.parent)
