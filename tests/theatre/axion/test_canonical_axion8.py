"""The profile `axion8`: one spelling for each value, whichever way it is written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.axion.common.canonical_json import _write, canonical_bytes, format_number
from theatre.axion.common.hashing import hash_json
from theatre.engine.canonical_json import MAX_DEPTH, MAX_SAFE_INTEGER, parse_json
from theatre.engine.errors import CanonicalisationError

NUMBERS = st.floats(-1e12, 1e12) | st.floats(-1, 1) | st.integers(-(10**12), 10**12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.text() | NUMBERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (-1e-9, "0"),
        (1e-9, "0"),
        (5e-9, "0.00000001"),
        (4.9e-9, "0"),
        (1e-8, "0.00000001"),
        (0.00005, "0.00005"),
        (0.1 + 0.2, "0.3"),
        (1 / 3, "0.33333333"),
        (-2 / 3, "-0.66666667"),
        (100000.5, "100000.5"),
        (1e15, "1000000000000000"),
        (123456789.123456789, "123456789.12345679"),
        (MAX_SAFE_INTEGER, "9007199254740991"),
        (True, "true"),
        (None, "null"),
        ("\u00e9\u2028\n", '"\u00e9\u2028\\n"'),
        ((1, 2), "[1,2]"),
        ({"b": 1, "a": [1.50, {}], "\U0001f600": "", "\ufffd": ""}, None),
    ],
)
def test_a_value_has_one_spelling(value: object, text: str | None) -> None:
    if text is None:
        # Sorted by code point: U+FFFD comes before U+1F600, which UTF-16 would turn round.
        text = '{"a":[1.5,{}],"b":1,"\ufffd":"","\U0001f600":""}'
    assert canonical_bytes(value).decode("utf-8") == text


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53,
        1e16,
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 2},
        object(),
        b"bytes",
        {"set": {1}},
    ],
)
def test_what_has_no_spelling_is_refused(value: object) -> None:
    with pytest.raises(CanonicalisationError):
        canonical_bytes(value)


def test_depth_has_an_end() -> None:
    value: object = 0
    for _ in range(MAX_DEPTH):
        value = [value]
    canonical_bytes(value)
    with pytest.raises(CanonicalisationError, match="at most 64 levels"):
        canonical_bytes([value])


@given(VALUES)
def test_the_quick_way_writes_what_the_slow_one_writes(value: object) -> None:
    assert canonical_bytes(value) == _write(value, MAX_DEPTH).encode("utf-8")


@given(VALUES)
def test_the_form_is_stable_under_reading_it_back(value: object) -> None:
    data = canonical_bytes(value)
    assert canonical_bytes(parse_json(data)) == data


@given(st.floats(-1e15, 1e15))
def test_a_number_has_at_most_eight_decimals_and_no_exponent(value: float) -> None:
    text = format_number(value)
    whole, _, decimals = text.partition(".")
    assert len(decimals) <= 8
    assert not decimals.endswith("0")
    assert int(whole) == int(json.loads(text))
    assert abs(float(text) - value) <= 5.1e-9 + abs(value) * 2**-52


def test_a_hash_does_not_depend_on_the_order_of_members() -> None:
    assert hash_json({"a": 1, "b": [2.0]}) == hash_json({"b": [2], "a": 1})
    assert hash_json({"a": 1}) != hash_json({"a": True})
