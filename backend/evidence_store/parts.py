"""Large objects of a bucket: sent in parts that are objects themselves, so that sending goes on.

`parts/<key>/<number>` are the parts, and `<key>.parts` says of what size they are. It is written
last: an object is there once it is. What S3 offers for the same (multipart uploads) can neither be
gone on with nor be listed through obstore (docs/design/service.md, "Large objects lie in parts").
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from backend.errors import EvidenceStoreError
from backend.evidence_store.names import wrap_disk_errors
from backend.evidence_store.objects import ListedObject, ObjectStore
from theatre.engine.canonical_json import canonical_bytes, parse_object
from theatre.engine.errors import ParseError

PART_BYTES = 8 * 1024 * 1024
"""What is larger than this is sent in parts of it."""
PARTS = "parts"
INDEX = ".parts"
_AT_A_TIME = 4
_RELIED_ON = timedelta(days=1)
"""Older parts of an earlier attempt are sent again: clean-up may be about to remove them."""


class _Index(NamedTuple):
    size_bytes: int
    part_bytes: int

    def parts(self, key: str) -> dict[str, int]:
        """Return the size of each part by its key, in order."""
        starts = range(0, self.size_bytes, self.part_bytes)
        return {
            f"{PARTS}/{key}/{number:05d}": min(self.part_bytes, self.size_bytes - start)
            for number, start in enumerate(starts)
        }


class MultipartObjects:
    """Objects in parts; errors as `ObjectStore`."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put(self, key: str, source: Path, *, size_bytes: int) -> None:
        """Send the missing parts of a file; the object exists once all of them do."""
        index = _Index(size_bytes, PART_BYTES)
        since = datetime.now(UTC) - _RELIED_ON
        there = {one.key: one.size_bytes for one in self._parts(key) if one.stored_at > since}
        missing = [
            (number, part)
            for number, (part, size) in enumerate(index.parts(key).items())
            if there.get(part) != size
        ]

        def send(one: tuple[int, str]) -> None:
            number, part = one
            with wrap_disk_errors("read what is to be kept"), source.open("rb") as content:
                content.seek(number * PART_BYTES)
                piece = content.read(PART_BYTES)
            self._objects.put(part, piece)

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            for _ in pool.map(send, missing):
                pass
        self._objects.put(f"{key}{INDEX}", canonical_bytes(index._asdict()))

    def find(self, key: str) -> ListedObject | None:
        """Return what there is of an object; None unless all of it is there."""
        index = self._index(key)
        named = self._objects.find(f"{key}{INDEX}")
        if index is None or named is None:
            return None
        there = {one.key: one.size_bytes for one in self._parts(key)}
        whole = all(there.get(part) == size for part, size in index.parts(key).items())
        return ListedObject(key, index.size_bytes, named.stored_at) if whole else None

    def size_of(self, key: str) -> int:
        """Return the size of an object by its index; 0 where that cannot be read."""
        index = self._index(key)
        return 0 if index is None else index.size_bytes

    def read(self, key: str) -> Iterator[memoryview] | None:
        """Return an object's bytes in pieces; None unless all of it is there."""
        index = self._index(key)
        if index is None or self.find(key) is None:
            return None
        return self._pieces(index.parts(key))

    def remove(self, key: str) -> None:
        """Remove an object, if there is one; its index first: no reader must find half of it."""
        self._objects.remove(f"{key}{INDEX}")
        for part in [one.key for one in self._parts(key)]:
            self._objects.remove(part)

    def remove_leftovers(self, *, before: datetime) -> int:
        """Remove the parts of what was never sent to its end, and not gone on with since `before`.

        Return of how many objects.
        """
        last: dict[str, datetime] = {}
        for one in self._objects.below(PARTS):
            key = one.key.removeprefix(f"{PARTS}/").rpartition("/")[0]
            last[key] = max(one.stored_at, last.get(key, one.stored_at))
        given_up = [
            key
            for key, at in last.items()
            if at <= before and self._objects.find(f"{key}{INDEX}") is None
        ]
        for key in given_up:
            self.remove(key)
        return len(given_up)

    def _parts(self, key: str) -> Iterator[ListedObject]:
        return self._objects.below(f"{PARTS}/{key}")

    def _index(self, key: str) -> _Index | None:
        pieces = self._objects.read(f"{key}{INDEX}")
        if pieces is None:
            return None
        try:
            document = parse_object(b"".join(pieces))
        except ParseError:
            return None
        size, part = document.get("size_bytes"), document.get("part_bytes")
        if isinstance(size, int) and isinstance(part, int) and size > 0 and part > 0:
            return _Index(size, part)
        return None

    def _pieces(self, parts: dict[str, int]) -> Iterator[memoryview]:
        for part in parts:
            pieces = self._objects.read(part)
            if pieces is None:
                raise EvidenceStoreError(f"expected {part} while its object is read, got none")
            yield from pieces
