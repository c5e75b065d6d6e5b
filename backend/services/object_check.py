"""Whether an object has the bytes of its name, and how many there are."""

from __future__ import annotations

from typing import NamedTuple

from backend.errors import EvidenceDamagedError
from backend.evidence_store import EvidenceStore, ObjectKind
from backend.services.findings import Findings


class Measured(NamedTuple):
    """Bytes and lines of an object; a last line without a line feed counts."""

    size_bytes: int
    lines_total: int


class ObjectCheck:
    """Reads objects from the store itself and remembers which were asked for.

    Raises EvidenceStoreError where the store does not answer.
    """

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store
        self.named: set[str] = set()
        """The keys of everything that was to be verified."""

    def verify(self, kind: ObjectKind, sha256: str, findings: Findings) -> Measured | None:
        """Return what there is; None, and a finding, where it is missing or has other bytes."""
        key = f"{kind}/{sha256}"
        self.named.add(key)
        counted = _Counted()
        try:
            self._store.verify(kind, sha256, counted)
        except EvidenceDamagedError as error:
            code = f"{kind.value.removesuffix('s')}-{'damaged' if error.found else 'missing'}"
            findings.add(code, key, error.found or "none")
            return None
        return counted.measured()


class _Counted:
    def __init__(self) -> None:
        self._size = self._feeds = 0
        self._last = b""

    def write(self, piece: memoryview, /) -> None:
        content = bytes(piece)
        self._size += len(content)
        self._feeds += content.count(b"\n")
        self._last = content[-1:] or self._last

    def measured(self) -> Measured:
        return Measured(self._size, self._feeds + (self._last not in (b"", b"\n")))
