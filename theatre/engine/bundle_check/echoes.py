"""What answers copy from their questions, found again: it stands where in others the same does.

Source: docs/contract/earned.md §5.2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, sha256_hex

MOST_PLACES = 100
"""Of an answer, each before all below it; of its members those that are asked for first."""

MOST_SOURCES = 100
"""Of what stands in a question more often, the places that come first by their names."""

Steps = tuple[str, ...]


class Copies(NamedTuple):
    """By place of an answer: how often each value came there, and each place of its question."""

    values: dict[Steps, Counter[str]]
    pairs: dict[Steps, Counter[Steps]]

    def sources(self, steps: Steps, form: bytes, places: set[Steps]) -> list[Steps]:
        """Return from where a value was copied, the places that it stands at first.

        That is where it stands more often than it comes; none, where it stands at none of these.
        """
        times, most = self.pairs[steps], self.values[steps][sha256_hex(form)]
        often = [one for one in times if times[one] > most]
        often.sort(key=lambda one: (one in places, times[one], one), reverse=True)
        return often if often and often[0] in places else []


def copies_among(answered: Iterable[tuple[JsonObject, JsonObject, frozenset[str]]]) -> Copies:
    """Return what places of answers and of their questions have in common, and how often."""
    values: defaultdict[Steps, Counter[str]] = defaultdict(Counter)
    pairs: defaultdict[Steps, Counter[Steps]] = defaultdict(Counter)
    for asked, said, wanted in answered:
        first = first_places(said, wanted)
        held = places_by_value(asked, [value for _, value in first])
        for steps, value in first:
            form = canonical_bytes(value)
            values[steps][sha256_hex(form)] += 1
            for source in held.get(form, []):
                pairs[steps][source] += 1
    return Copies(values, dict(pairs))


def copied_from(
    other: JsonObject, said: JsonObject, asked: JsonObject, copies: Copies
) -> JsonObject:
    """Return `said`, with what it copied from `asked` copied from `other`, if that has it."""
    held = places_by_value(asked, [value for _, value in places_below(said, frozenset(), ())])
    there = dict(places_of(other)) if held else {}

    def copied(steps: Steps, value: JsonValue) -> JsonValue:
        if steps in copies.pairs:
            form = canonical_bytes(value)
            sources = copies.sources(steps, form, {*held.get(form, [])})
            if sources:
                return next((there[one] for one in sources if one in there), value)
        if isinstance(value, list):
            return [copied((*steps, str(number)), one) for number, one in enumerate(value)]
        if isinstance(value, dict):
            return {name: copied((*steps, name), one) for name, one in value.items()}
        return value

    return cast("JsonObject", copied((), said))


def places_by_value(asked: JsonObject, values: list[JsonValue]) -> dict[bytes, list[Steps]]:
    """Return the canonical bytes of those values that a question holds → the first of the places.

    What has another length than all of them is none of them: its bytes are not made.
    """
    forms = {canonical_bytes(value) for value in values}
    lengths = {len(value) for value in values if isinstance(value, (dict, list))}
    found: defaultdict[bytes, list[Steps]] = defaultdict(list)
    for steps, value in places_of(asked):
        if not isinstance(value, (dict, list)) or len(value) in lengths:
            form = canonical_bytes(value)
            if form in forms:
                found[form].append(steps)
    return {form: sorted(places)[:MOST_SOURCES] for form, places in found.items()}


def places_of(
    value: JsonValue, steps: Steps = (), from_end: Steps = ()
) -> Iterator[tuple[Steps, JsonValue]]:
    """Yield a value and all below it by its place, items also counted from the end.

    Of a list of objects, too, what all of them have under a name that the first one has.
    """
    yield steps, value
    if steps != from_end:
        yield from_end, value
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places_of(one, (*steps, name), (*from_end, name))
    if isinstance(value, list):
        for number, one in enumerate(value):
            last = str(number - len(value))
            yield from places_of(one, (*steps, str(number)), (*from_end, last))
        objects = [one for one in value if isinstance(one, dict)]
        for name in objects[0] if objects else []:
            yield (*steps, "*", name), [one[name] for one in objects if name in one]


def names_in(value: JsonValue) -> set[str]:
    """Return the names of all members in a value."""
    if isinstance(value, dict):
        return set(value).union(*map(names_in, value.values()))
    return set().union(*map(names_in, value)) if isinstance(value, list) else set()


def first_places(said: JsonObject, wanted: frozenset[str]) -> list[tuple[Steps, JsonValue]]:
    """Return the first places below an answer's root, each before all below it."""
    return [*islice(places_below(said, wanted, ()), MOST_PLACES)]


def places_below(
    value: JsonValue, wanted: frozenset[str], steps: Steps
) -> Iterator[tuple[Steps, JsonValue]]:
    """Yield what lies below a value by its place."""
    below: list[tuple[str, JsonValue]] = []
    if isinstance(value, dict):
        names = sorted(wanted & value.keys()) + sorted(value.keys() - wanted)
        below = [(name, value[name]) for name in names]
    elif isinstance(value, list):
        below = [(str(number), one) for number, one in enumerate(value)]
    for step, one in below:
        yield (*steps, step), one
        yield from places_below(one, wanted, (*steps, step))
