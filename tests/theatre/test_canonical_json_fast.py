"""The quick way to canonical JSON: the bytes of `rfc8785`, or silence."""

import datetime as dt
import enum
import math
import uuid
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from theatre.engine.canonical_json import JsonValue, canonical_bytes, parse_json
from theatre.engine.canonical_json.writing import fast_canonical_bytes
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import FrozenArray, FrozenObject, InvocationStatus

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors" / "jcs"

# What an invocation record holds: whole and other floats, a gap, words that need escapes.
RECORD: JsonValue = {
    "seq": 17,
    "episode_id": "épisode-17\u2028",
    "calls": [
        {
            "hop": 0,
            "request": {
                "input_data": {"text": 'a "quoted"\tline\x00\x7f\n', "größe": [1.5, -0.0, 1.0]},
                "metadata": {"timeout_seconds": 30.0, "sanitised": False},
            },
            "attempts": [{"response": {"output_data": {"p": 0.25}}, "reason": None}],
        }
    ],
}

BORDERS = [0.0001, 1e-5, 1e-6, 1e-7, 2.0**53 - 1, 2.0**53, 1e16, 1e17, 1e21, 1e22, 5e-324]
FLOATS = (
    st.floats()
    | st.floats(-1, 1)
    | st.integers(-(2**60), 2**60).map(float)
    | st.sampled_from([sign * step(border) for border in BORDERS for sign in (1, -1) for step in (
        lambda number: number,
        lambda number: math.nextafter(number, 0),
        lambda number: math.nextafter(number, math.inf),
    )])
)  # fmt: skip
TEXT = st.text(st.characters(), max_size=6) | st.text(
    st.sampled_from('a"\\/\x00\x1f\x7f\x80\u2028\ud7ff\ud800\udfff\ue000\uffff😀'), max_size=6
)
INTEGERS = st.integers() | st.integers(2**53 - 2, 2**53 + 2) | st.integers(-(2**53) - 2, -(2**53))
SCALARS = st.none() | st.booleans() | INTEGERS | FLOATS | TEXT
KEYS = TEXT | st.integers(0, 3) | st.booleans() | st.none()
# Not only JSON: keys of other types, tuples, bytes, and subclasses of what JSON has.
ANYTHING = st.recursive(
    SCALARS | st.binary(max_size=2) | st.sampled_from(InvocationStatus),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXT, inner, max_size=6)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(TEXT, inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=20,
)


def reference(value: object) -> bytes | None:
    """Return what `rfc8785` writes, or None where it refuses."""
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # refusing is what is asked of it
    except (ValueError, RecursionError):
        return None


@given(ANYTHING)
@example({"\ufb33": 0, "😀": 1})
@example({"\ud7ff": 0, "é": 1, "z": 2})
@example([True, 1, 1.0, "1"])
@example({"a": {"b": [2.0**53]}})
def test_a_quick_form_is_the_form_of_the_reference_package(value: object) -> None:
    assert fast_canonical_bytes(value) in (None, reference(value))


@given(ANYTHING)
def test_canonical_bytes_are_those_of_the_reference_package_or_refused_as_there(
    value: object,
) -> None:
    expected = reference(value)
    if expected is not None:
        assert canonical_bytes(value) == expected
        return
    with pytest.raises(CanonicalisationError):
        canonical_bytes(value)


@pytest.mark.reproducibility
def test_a_record_has_a_quick_form() -> None:
    assert fast_canonical_bytes(RECORD) == rfc8785.dumps(RECORD)


@pytest.mark.reproducibility
@pytest.mark.parametrize(
    ("name", "is_quick"),
    [
        ("arrays", True),
        ("french", True),
        ("structures", True),
        ("unicode", True),
        ("values", True),
        ("weird", False),
    ],
)
def test_each_vector_has_its_form_by_either_way(name: str, *, is_quick: bool) -> None:
    value = parse_json((VECTORS / "input" / f"{name}.json").read_bytes())
    expected = (VECTORS / "output" / f"{name}.json").read_bytes()
    assert fast_canonical_bytes(value) == (expected if is_quick else None)
    assert reference(value) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-0.0, "0"),
        (1.0, "1"),
        (-30.0, "-30"),
        (0.0001, "0.0001"),
        (-0.1, "-0.1"),
        (123456789.125, "123456789.125"),
        (4503599627370495.5, "4503599627370495.5"),
        (2.0**53 - 1, "9007199254740991"),
        (2.0**53, "9007199254740992"),
        (1e16, "10000000000000000"),
        (-1e21, "-1e+21"),
        (9.999e-5, "0.00009999"),
        (-9.999e-6, "-0.000009999"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        ([1e-7, (2.0, {"a": 1e17})], '[1e-7,[2,{"a":100000000000000000}]]'),
        (2**53 - 1, "9007199254740991"),
        ('\b\f\n\r\t\x1f\x7f"\\/é😀\u2028', '"\\b\\f\\n\\r\\t\\u001f\x7f\\"\\\\/é😀\u2028"'),
        ({"b": [], "a": {}, "\ud7ff": 1, "B": 2.0}, '{"B":2,"a":{},"b":[],"\ud7ff":1}'),
    ],
)
def test_what_is_common_has_a_quick_form(value: object, text: str) -> None:
    assert fast_canonical_bytes(value) == text.encode("utf-8") == reference(value)


class Level(enum.IntEnum):
    LOW = 1


class Spelling(str):
    __slots__ = ()


class Pair(NamedTuple):
    left: str
    right: int


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53,
        -(2**53),
        10**5000,
        "\ud800",
        {"\udfff": 1},
        {"\ue000": 1},
        {"😀": 1},
        {1: "a"},
        {None: "a"},
        {Spelling("a"): 1},
        Spelling("a"),
        InvocationStatus.SUCCESS,
        Level.LOW,
        OrderedDict(a=1),
        FrozenObject(a=1),
        FrozenArray([1]),
        {b"a": 1},
        {("a",): 1},
        Pair("a", 1),
        orjson.Fragment(b"1"),
        uuid.UUID(int=1),
        dt.datetime(2026, 11, 23, tzinfo=dt.UTC),
        b"bytes",
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_sure_has_no_quick_form_at_any_depth(value: object) -> None:
    assert fast_canonical_bytes(value) is None
    assert fast_canonical_bytes([{"a": [value]}]) is None


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [64, 65, 253, 254, 255, 300])
def test_depth_changes_no_form(levels: int) -> None:
    value = nested(levels)
    assert canonical_bytes(value) == reference(value)
    assert fast_canonical_bytes(value) in (None, reference(value))
    assert (fast_canonical_bytes(value) is None) is (levels > 254)


def test_what_holds_itself_has_no_quick_form() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    assert fast_canonical_bytes(cycle) is None


def test_a_value_is_written_and_not_changed() -> None:
    value = {"whole": 1.0, "list": [2.0, {"deep": 3.0}], "pair": (1e-7, 4.0)}
    assert fast_canonical_bytes(value) == b'{"list":[2,{"deep":3}],"pair":[1e-7,4],"whole":1}'
    assert repr(value) == "{'whole': 1.0, 'list': [2.0, {'deep': 3.0}], 'pair': (1e-07, 4.0)}"


@pytest.mark.reproducibility
def test_every_character_has_its_form() -> None:
    for code in range(0x110000):
        character = chr(code)
        assert fast_canonical_bytes(character) == reference(character)
