"""A bounded cache in memory."""

from collections import OrderedDict
from typing import Generic, TypeVar

Kept = TypeVar("Kept")
Key = TypeVar("Key")


class NewestUsed(OrderedDict[Key, Kept], Generic[Key, Kept]):
    """At most so many values; the least recently read one is dropped."""

    def __init__(self, at_most: int) -> None:
        super().__init__()
        self._at_most = at_most

    def __setitem__(self, key: Key, value: Kept) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._at_most:
            self.popitem(last=False)

    def find(self, key: Key) -> Kept | None:
        """Return a value, now the newest; None where there is none."""
        found = self.get(key)
        if found is not None:
            self.move_to_end(key)
        return found
