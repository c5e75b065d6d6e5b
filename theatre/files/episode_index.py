"""Where each recorded episode of a journal begins, small enough for a million of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from theatre.engine.errors import JournalError
from theatre.engine.replay.context import MAX_EPISODES

_ABSENT = -1


class EpisodeIndex:
    """Where each recorded episode begins in the file: eight bytes an episode."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._count = 0

    def __contains__(self, seq: object) -> bool:
        """Return whether episode `seq` is recorded."""
        return (
            isinstance(seq, int)
            and 0 < seq <= len(self._offsets)
            and self._offsets[seq - 1] != _ABSENT
        )

    def __len__(self) -> int:
        """Return how many episodes are recorded."""
        return self._count

    def check_new(self, sequences: Sequence[object]) -> None:
        """Raise JournalError unless these are sequence numbers, none entered, none twice."""
        seen: set[int] = set()
        for seq in sequences:
            if type(seq) is not int or not 0 < seq <= MAX_EPISODES:
                raise JournalError(f"expected the sequence number of an episode, got {seq!r:.40}")
            if seq in self or seq in seen:
                raise JournalError(f"expected episode {seq} once in the journal, got it again")
            seen.add(seq)

    def put(self, seq: int, offset: int) -> None:
        """Enter episode `seq`, which `check_new` let through."""
        missing = seq - len(self._offsets)
        if missing > 0:
            self._offsets.extend(array("q", [_ABSENT]) * missing)
        self._offsets[seq - 1] = offset
        self._count += 1

    def places(self) -> Iterator[tuple[int, int]]:
        """Return episode and offset in dataset order, as they are now."""
        now = enumerate(self._offsets[:], start=1)
        return ((seq, offset) for seq, offset in now if offset != _ABSENT)
