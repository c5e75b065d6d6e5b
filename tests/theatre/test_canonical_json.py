"""Canonical JSON against the RFC author's vectors, and what has no canonical form."""

import datetime as dt
import decimal
import enum
import hashlib
import types
from collections import OrderedDict
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.canonical_json import (
    JsonValue,
    canonical_bytes,
    canonical_json,
    canonical_line,
    canonical_sha256,
    json_type,
    parse_json,
    sha256_hex,
)
from theatre.engine.errors import CanonicalisationError

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors" / "jcs"
NAMES = ("arrays", "french", "structures", "unicode", "values", "weird")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Whole numbers from 2^53 up to 1e21 have a canonical form, but one that no parser lets in.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not 2**53 <= abs(number) < 1e21
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXT, inner, max_size=6),
    max_leaves=30,
)


@pytest.mark.reproducibility
def test_the_vectors_are_all_there() -> None:
    for folder in ("input", "output"):
        assert tuple(sorted(path.stem for path in (VECTORS / folder).iterdir())) == NAMES


@pytest.mark.reproducibility
@pytest.mark.parametrize("name", NAMES)
def test_each_vector_canonicalises_to_its_output_and_its_hex(name: str) -> None:
    given_bytes = (VECTORS / "input" / f"{name}.json").read_bytes()
    expected = (VECTORS / "output" / f"{name}.json").read_bytes()
    spelt_out = bytes.fromhex((VECTORS / "outhex" / f"{name}.txt").read_text())
    assert spelt_out == expected
    assert canonical_bytes(parse_json(given_bytes)) == expected
    assert canonical_bytes(parse_json(expected)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (1.0, "1"),
        (0.0, "0"),
        (-0.0, "0"),
        (1e-5, "0.00001"),
        (1e-7, "1e-7"),
        (1e16, "10000000000000000"),
        (1e21, "1e+21"),
        (2**53 - 1, "9007199254740991"),
        (-(2**53) + 1, "-9007199254740991"),
        ("", '""'),
        ("\x00\x1f\x7f", '"\\u0000\\u001f\x7f"'),
        ('\b\t\n\f\r"\\/', '"\\b\\t\\n\\f\\r\\"\\\\/"'),
        ("\u2028é😀", '"\u2028é😀"'),
        ([], "[]"),
        ({}, "{}"),
        ([[], {}, [1]], "[[],{},[1]]"),
        ((1, (2,)), "[1,[2]]"),
        (OrderedDict([("b", 1), ("a", 2)]), '{"a":2,"b":1}'),
        ({"": 1, "a": {"c": None, "b": True}}, '{"":1,"a":{"b":true,"c":null}}'),
    ],
)
def test_a_value_has_exactly_this_form(value: object, text: str) -> None:
    assert canonical_json(value) == text
    assert canonical_bytes(value) == text.encode("utf-8")
    assert canonical_line(value) == text.encode("utf-8") + b"\n"


def test_keys_are_ordered_by_utf_16_and_not_by_code_point() -> None:
    document = dict.fromkeys(["\ufb33", "😀", "€", "ö", "1", "\r", "\x80", "aa", "a", "A"], 0)
    assert list(parse_object_keys(document)) == [
        "\r", "1", "A", "a", "aa", "\x80", "ö", "€", "😀", "\ufb33",
    ]  # fmt: skip
    assert sorted(document)[-2:] == ["\ufb33", "😀"]


def parse_object_keys(document: dict[str, int]) -> list[str]:
    parsed = parse_json(canonical_bytes(document))
    assert isinstance(parsed, dict)
    return list(parsed)


class Colour(enum.Enum):
    RED = 1


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "nan is not representable"),
        (float("inf"), "inf is not representable"),
        (float("-inf"), "-?inf is not representable"),
        (2**53, "9007199254740992 exceeds safe integer domain"),
        (-(2**53), "-9007199254740992 exceeds safe integer domain"),
        pytest.param(10**5000, "got a huge one", id="5001 digits"),
        pytest.param(-(10**5000), "got a huge one", id="-5001 digits"),
        ("\ud800", "non-UTF-8 codepoints"),
        ("a\udfffb", "non-UTF-8 codepoints"),
        ({"\ud800": 1}, "got a lone surrogate"),
        ({1: "a"}, "object keys must be strings"),
        ({None: "a"}, "object keys must be strings"),
        ({b"a": 1}, "object keys must be strings"),
        ({"a": 1, 2: 3}, "object keys must be strings"),
        (b"bytes", "unsupported type: <class 'bytes'>"),
        ({1, 2}, "unsupported type: <class 'set'>"),
        (frozenset(), "unsupported type: <class 'frozenset'>"),
        (dt.date(2026, 11, 21), "unsupported type: <class 'datetime.date'>"),
        (decimal.Decimal(1), "unsupported type: <class 'decimal.Decimal'>"),
        (1j, "unsupported type: <class 'complex'>"),
        (Colour.RED, "unsupported type: "),
        (range(3), "unsupported type: <class 'range'>"),
        (types.MappingProxyType({"a": 1}), "unsupported type: <class 'mappingproxy'>"),
        (object(), "unsupported type: <class 'object'>"),
        pytest.param(CYCLE, "one too deep", id="cycle"),
    ],
)
def test_what_is_no_json_is_refused_at_any_depth(value: object, message: str) -> None:
    with pytest.raises(CanonicalisationError, match=message):
        canonical_bytes(value)
    with pytest.raises(CanonicalisationError, match=message):
        canonical_json({"a": [1, {"b": value}]})


@given(JSON)
def test_the_canonical_form_parses_back_to_the_same_canonical_form(value: JsonValue) -> None:
    form = canonical_json(value)
    assert canonical_json(parse_json(form.encode("utf-8"))) == form


@given(JSON)
def test_the_form_is_that_of_the_reference_package(value: JsonValue) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)
    assert canonical_json(value).encode("utf-8") == canonical_bytes(value)


@given(
    st.dictionaries(TEXT, st.integers(0, 9), max_size=8).flatmap(
        lambda document: st.tuples(st.just(document), st.permutations(list(document.items())))
    )
)
def test_the_order_of_insertion_changes_nothing(
    reordered: tuple[dict[str, int], list[tuple[str, int]]],
) -> None:
    document, items = reordered
    assert canonical_bytes(dict(items)) == canonical_bytes(document)


def test_hashes_are_taken_over_the_canonical_bytes() -> None:
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    document = {"b": 1.0, "a": "é"}
    assert canonical_sha256(document) == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.5, "number"),
        ("a", "string"),
        ({}, "object"),
        ([], "array"),
        ((), "array"),
        (b"a", "bytes"),
    ],
)
def test_types_are_named_as_json_names_them(value: object, name: str) -> None:
    assert json_type(value) == name
