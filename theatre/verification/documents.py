"""Where two JSON documents differ."""

from __future__ import annotations

from collections.abc import Iterator

from theatre.engine.canonical_json import JsonValue


def find_differences(one: JsonValue, other: JsonValue, at: str = "") -> Iterator[str]:
    """Yield the dotted paths at which two documents are not the same, in the first one's order."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            below = f"{at}.{name}" if at else name
            if name in one and name in other:
                yield from find_differences(one[name], other[name], below)
            else:
                yield below
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (ours, theirs) in enumerate(zip(one, other, strict=True)):
            yield from find_differences(ours, theirs, f"{at}.{place}")
    elif one != other:
        yield at
