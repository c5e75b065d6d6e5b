"""Immutable JSON documents, at every level."""

from __future__ import annotations

from typing import NoReturn, Self, cast

from theatre.engine.canonical_json import JsonObject, JsonValue


class FrozenObject(dict[str, JsonValue]):
    """A JSON object that cannot be changed; still a dict for serialisers and schemas."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a committed document cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, _: object) -> Self:
        """Return the object itself: there is nothing to protect a copy from."""
        return self


class FrozenArray(list[JsonValue]):
    """A JSON array that cannot be changed; still a list for serialisers and schemas."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a committed document cannot be changed")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, _: object) -> Self:
        """Return the array itself."""
        return self


def freeze_json(value: JsonValue) -> JsonValue:
    """Return an immutable deep copy of `value`."""
    if isinstance(value, dict):
        return FrozenObject({key: freeze_json(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenArray(freeze_json(item) for item in value)
    return value


def freeze_object(value: JsonObject) -> JsonObject:
    """Return `freeze_json` of an object, typed as one."""
    return cast("JsonObject", freeze_json(value))
