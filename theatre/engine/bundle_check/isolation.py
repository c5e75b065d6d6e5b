"""What constructs could reach, as the trail has it tried at the start of the run.

Source: docs/contract/evidence.md §3; docs/certificate.md, `isolation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from theatre.engine.bundle_check.json_values import Nothing, at
from theatre.engine.canonical_json import JsonObject, JsonValue

_WEAKEST_FIRST = ("none", "other-user", "landlock", "namespaces", "remote")
_CLOSED = ("files", "processes", "network")
_NOTHING_CLOSED: JsonObject = {**dict.fromkeys(_CLOSED, False), "by": "none"}


def isolation_by_construct(construct_ids: Iterable[str], stated: JsonValue | Nothing) -> JsonObject:
    """Return construct → what was closed to it; nothing where that is not said in its form."""
    found: JsonObject = {}
    for construct_id in construct_ids:
        one = at(stated, construct_id)
        found[construct_id] = one if is_isolation(one) else _NOTHING_CLOSED
    return found


def weakest_isolation(construct_ids: Iterable[str], stated: JsonValue | Nothing) -> JsonObject:
    """Return what was closed to every construct of an episode."""
    each = isolation_by_construct(construct_ids, stated).values()
    found = [one for one in each if isinstance(one, dict)] or [_NOTHING_CLOSED]
    named = [str(one["by"]) for one in found]
    return {
        **{name: all(one[name] for one in found) for name in _CLOSED},
        "by": min(named, key=_WEAKEST_FIRST.index),
    }


def holds(isolation: JsonObject) -> bool:
    """Return whether neither answers nor the run itself could be read."""
    return isolation["files"] is True and isolation["processes"] is True


def is_isolation(value: JsonValue | Nothing) -> TypeGuard[JsonObject]:
    """Return whether a value says what is closed to a construct."""
    if not isinstance(value, dict) or value.keys() != _NOTHING_CLOSED.keys():
        return False
    return all(isinstance(value[name], bool) for name in _CLOSED) and value["by"] in _WEAKEST_FIRST
