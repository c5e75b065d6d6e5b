"""Dotted paths into JSON: `cells.0.q` walks objects by key and arrays by index."""

from __future__ import annotations

import re
from enum import Enum

from theatre.engine.canonical_json import JsonValue


class Absent(Enum):
    """The value of a path that leads nowhere; null is a value, this is not."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

# One spelling an index: ASCII, no leading zero, and short enough for any int().
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def at_path(value: JsonValue, path: str) -> JsonValue | Absent:
    """Return what lies at `path` below `value`, or ABSENT."""
    current = value
    for step in path.split("."):
        if isinstance(current, dict) and step in current:
            current = current[step]
        elif isinstance(current, list) and _INDEX.fullmatch(step) and int(step) < len(current):
            current = current[int(step)]
        else:
            return ABSENT
    return current
