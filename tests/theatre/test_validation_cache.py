"""Documents that are alike, one after another: each is told the same as if it came alone."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.theatre.rlmf_runs import every_ending, export
from tests.theatre.template_leaves import leaves, with_leaf
from theatre.engine.canonical_json import JsonObject
from theatre.engine.rlmf_export import RLMF_SCHEMA
from theatre.engine.schema_registry import SchemaRegistry

# Some are equal in Python and not in JSON Schema.
TRIED: tuple[Any, ...] = (None, True, False, 0, 1, 1.0, 2, "", "red", [], ["a", "a"], {}, {"a": 1})


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[JsonObject]:
    """Seven records of a run that has every ending."""
    return export(every_ending(tmp_path_factory.mktemp("finished")).bundle)


def put(value: Any) -> Callable[[Any, str | int], None]:  # noqa: ANN401 - JSON
    def change(holder: Any, key: str | int) -> None:  # noqa: ANN401 - JSON
        holder[key] = value

    return change


def without(holder: Any, key: str | int) -> None:  # noqa: ANN401 - JSON
    del holder[key]


def changes(record: JsonObject) -> list[JsonObject]:
    """Return copies of a record, each without one place, or with another value there."""
    places = [*((name,) for name in record), *leaves(record)]
    made = [
        with_leaf(record, place, change)
        for place in places
        for change in (without, *map(put, TRIED))
    ]
    return [*made, {**record, "more": 1}, {}]


def test_each_is_told_what_it_breaks_whatever_has_fitted_before(records: list[JsonObject]) -> None:
    registry = SchemaRegistry()
    validate = registry.validate_cached(RLMF_SCHEMA)
    told = []
    for document in [*records, *changes(records[0]), *records]:
        told.append(validate(document))
        assert told[-1] == registry.validate(RLMF_SCHEMA, document), document
    fitting = [found == [] for found in told]
    assert all(fitting[: len(records)] + fitting[-len(records) :])
    assert 100 < fitting.count(False) < len(fitting) - 2 * len(records)


def test_a_member_that_never_repeats_is_looked_at_each_time(records: list[JsonObject]) -> None:
    registry = SchemaRegistry()
    validate = registry.validate_cached(RLMF_SCHEMA)
    for number in range(1, 200):
        assert validate({**records[0], "timestep": number}) == []
    long = {**records[0], "source_episode_id": "x" * 10_000}
    assert validate(long) == validate(long) == []
    for name, value in (("timestep", 0), ("timestep", True), ("source_episode_id", "")):
        broken = {**records[0], name: value}
        assert validate(broken) == registry.validate(RLMF_SCHEMA, broken) != []


@pytest.mark.parametrize("document", [None, [], "text", 1, {1: 2}, {"timestep": object()}])
def test_what_is_no_json_object_is_told_so(document: object) -> None:
    registry = SchemaRegistry()
    found = registry.validate_cached(RLMF_SCHEMA)(document)
    assert found == registry.validate(RLMF_SCHEMA, document) != []
