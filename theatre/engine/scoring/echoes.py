"""What a construct's answers copy from their questions, so that it is copied from others, too.

Source: docs/contract/earned.md §5.2. Who hands back parts of a question gives each question another
answer, and has looked at none: what stands where in it is all that he knows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes

MAX_PLACES = 100
"""So many places of an answer are looked at, of all its members those that are asked for first."""

MAX_SOURCES = 100
"""So many places of a question that hold the same."""

_SHORT = 64
"""Characters of a text that is kept as it is, and not its digest."""

Outputs = Mapping[str, JsonObject]
"""Construct → its output, in the order of the calls."""

Key = bytes | tuple[bool, JsonValue]

Place = tuple[str, ...]
"""Names of members and numbers of items; `*` and a name for the members of all items."""


class Echoes:
    """Place of an answer → places of questions, how often what they hold is the same.

    Copied is what they hold more often than its value comes at that place of the answers: that
    alone would say as much for other questions.
    """

    def __init__(
        self,
        construct_id: str,
        answered: Iterable[tuple[JsonObject, Outputs, Collection[str]]],
        *,
        is_first: bool,
    ) -> None:
        """Take what was sent, each with the outputs that came and the members that are asked for.

        One construct's is looked at; the others' are part of its question where it is not the first
        of its chain.
        """
        self._construct_id = construct_id
        self._is_first = is_first
        self._times: dict[Place, Counter[Place]] = {}
        self._alike: dict[Place, Counter[Key]] = {}
        for sent, hops, wanted in answered:
            found = dict(islice(_within(hops.get(construct_id, {}), wanted), MAX_PLACES))
            standing = _standing(self._question(sent, hops), found.values())
            for place, value in found.items():
                key = _key(value)
                self._alike.setdefault(place, Counter())[key] += 1
                if key in standing:
                    self._times.setdefault(place, Counter()).update(standing[key])

    def __bool__(self) -> bool:
        return any(
            max(times.values()) > min(self._alike[place].values())
            for place, times in self._times.items()
        )

    def _question(self, sent: JsonObject, hops: Outputs) -> JsonObject:
        if self._is_first:
            return sent
        upstream: JsonObject = {
            name: one for name, one in hops.items() if name != self._construct_id
        }
        return {"episode": sent, "upstream": upstream}

    def moved(
        self, hops: Outputs, sent: JsonObject, other: JsonObject, other_hops: Outputs
    ) -> Outputs:
        """Return outputs with what was copied from their question copied from another one.

        As it was, where that has nothing at any such place.
        """
        if self._construct_id not in hops:
            return hops
        said = hops[self._construct_id]
        values = [one for place, one in _within(said, ()) if place in self._times]
        standing = _standing(self._question(sent, hops), values)
        if not standing:
            return hops
        others = dict(_sources_in(self._question(other, other_hops)))

        def moved(value: JsonValue, place: Place) -> JsonValue:
            if times := self._times.get(place):
                key = _key(value)
                least = self._alike[place][key]
                known = [(times[one], one) for one in standing.get(key, ()) if times[one] > least]
                if known:
                    # A place that differs from question to question is none the less a copy's.
                    often = [(n, one) for one, n in times.items() if n > least]
                    ranked = sorted(known, reverse=True) + sorted(often, reverse=True)
                    return next((others[one] for _, one in ranked if one in others), value)
            if isinstance(value, dict):
                return {name: moved(one, (*place, name)) for name, one in value.items()}
            if isinstance(value, list):
                return [moved(one, (*place, str(item))) for item, one in enumerate(value)]
            return value

        own = {name: moved(one, (name,)) for name, one in said.items()}
        return {**hops, self._construct_id: own}


def _key(value: JsonValue) -> Key:
    """Return what values with the same canonical bytes share, short and cheap where they are."""
    if isinstance(value, (dict, list)) or (isinstance(value, str) and len(value) > _SHORT):
        return hashlib.sha256(canonical_bytes(value)).digest()
    return isinstance(value, bool), value


def _standing(asked: JsonObject, values: Collection[JsonValue]) -> dict[Key, list[Place]]:
    """Return where in a question some values stand, the first places by their order."""
    wanted = {_key(value) for value in values}
    sizes = {(type(value), len(value)) for value in values if isinstance(value, (dict, list))}
    found: dict[Key, list[Place]] = {}
    for place, one in _sources_in(asked):
        # Bytes of what has another size than all of them are not made.
        is_alike = not isinstance(one, (dict, list)) or (type(one), len(one)) in sizes
        if is_alike and (key := _key(one)) in wanted:
            found.setdefault(key, []).append(place)
    return {key: sorted(places)[:MAX_SOURCES] for key, places in found.items()}


def _within(value: JsonValue, wanted: Collection[str]) -> Iterator[tuple[Place, JsonValue]]:
    """Yield what lies below a value, each with all below it, members in the order of their names.

    Those that are wanted first: others that no scorer asks for must not take their places.
    """
    left: list[tuple[Place, JsonValue]] = [((), value)]
    while left:
        place, one = left.pop()
        if place:
            yield place, one
        if isinstance(one, dict):
            names = sorted(one, key=lambda name: (name not in wanted, name), reverse=True)
            left.extend(((*place, name), one[name]) for name in names)
        elif isinstance(one, list):
            left.extend(((*place, str(item)), one[item]) for item in reversed(range(len(one))))


def _sources_in(asked: JsonObject) -> Iterator[tuple[Place, JsonValue]]:
    """Yield what a question holds, itself too; items also from the end, and as columns."""
    left: list[tuple[Place, Place, JsonValue]] = [((), (), asked)]
    while left:
        place, from_end, one = left.pop()
        yield place, one
        if from_end != place:
            yield from_end, one
        if isinstance(one, dict):
            left.extend(((*place, name), (*from_end, name), below) for name, below in one.items())
        elif isinstance(one, list):
            ahead = len(one)
            left.extend(
                ((*place, str(item)), (*from_end, str(item - ahead)), below)
                for item, below in enumerate(one)
            )
            records = [item for item in one if isinstance(item, dict)]
            for name in records[0] if records else ():
                yield (*place, "*", name), [item[name] for item in records if name in item]
