"""Every place of a template, each to be changed alone."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from theatre.engine.canonical_json import JsonObject, JsonValue

LeafPath: TypeAlias = tuple[str | int, ...]


def leaves(value: JsonObject | list[JsonValue], path: LeafPath = ()) -> Iterator[LeafPath]:
    """Yield the path of every leaf; an empty object or array is one."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    key: str | int
    for key, item in members:
        if isinstance(item, dict | list) and item:
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def another(value: object) -> object:
    """Return a value of the same kind that says something else."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else 0


def with_leaf(
    template: dict[str, Any], path: LeafPath, change: Callable[[Any, str | int], None]
) -> dict[str, Any]:
    """Return a copy of `template` on which `change` was called with the leaf's holder and key."""
    changed = copy.deepcopy(template)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return changed
