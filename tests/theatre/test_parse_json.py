"""The strict parser: everything that a lenient one would repair is refused, and cheaply."""

import json
import time
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.canonical_json import (
    DEFAULT_MAX_BYTES,
    MAX_DEPTH,
    JsonValue,
    canonical_bytes,
    parse_json,
    parse_object,
    read_canonical,
)
from theatre.engine.canonical_json.writing import NotCanonical, fast_canonical_bytes
from theatre.engine.errors import CanonicalisationError, ParseError

MEBIBYTE = 2**20


def reason_of(data: bytes) -> str:
    with pytest.raises(ParseError) as caught:
        parse_json(data)
    return caught.value.reason


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"null", None),
        (b" \t\r\n[ 1 , 2 ]\n", [1, 2]),
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"1E+2", 100.0),
        (b"9007199254740991", 2**53 - 1),
        (b"-9007199254740991", -(2**53) + 1),
        (b"9007199254740991.0", float(2**53 - 1)),
        (b"1e21", 1e21),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"5e-324", 5e-324),
        (b"1e-400", 0.0),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"😀\ufeff"'.encode(), "😀\ufeff"),
        (b'"\\u0000\\/"', "\x00/"),
        (b'{"a":{"a":1},"b":[{"a":2}]}', {"a": {"a": 1}, "b": [{"a": 2}]}),
    ],
)
def test_strict_json_is_read_with_its_types(data: bytes, value: JsonValue) -> None:
    parsed = parse_json(data)
    assert parsed == value
    assert type(parsed) is type(value)
    assert str(parsed) == str(value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":1,"a":2}', "duplicate-key"),
        (b'{"a":1,"a":1}', "duplicate-key"),
        (b'{"a":1,"\\u0061":2}', "duplicate-key"),
        (b'[{"x":{"b":0,"c":0,"b":0}}]', "duplicate-key"),
        (b"NaN", "non-finite"),
        (b"[Infinity]", "non-finite"),
        (b'{"a":-Infinity}', "non-finite"),
        (b"1e400", "number-overflow"),
        (b"-1e400", "number-overflow"),
        (b"1.7976931348623159e308", "number-overflow"),
        (b"9007199254740992", "unsafe-integer"),
        (b"-9007199254740992", "unsafe-integer"),
        (b"10000000000000000", "unsafe-integer"),
        (b"100000000000000000000000000000", "unsafe-integer"),
        (b"9007199254740992.0", "unsafe-integer"),
        (b"-1e17", "unsafe-integer"),
        (b"99999999999999980000", "unsafe-integer"),
        (b"999999999999999900000.0", "unsafe-integer"),
        (b'"\\ud800"', "lone-surrogate"),
        (b'"\\udc00\\ud800"', "lone-surrogate"),
        (b'{"a":["\\udfff"]}', "lone-surrogate"),
        (b'{"\\ud800":1}', "lone-surrogate"),
        (b'"\xed\xa0\x80"', "not-utf8"),
        (b'"\xc0\x80"', "not-utf8"),
        (b'"\xff"', "not-utf8"),
        (b'"\xe2\x82"', "not-utf8"),
        (b"\xef\xbb\xbf{}", "byte-order-mark"),
        (b"\xff\xfe{\x00}\x00", "not-utf8"),
        (b"", "not-json"),
        (b" ", "not-json"),
        (b"{} {}", "not-json"),
        (b"[1,]", "not-json"),
        (b'{"a":1,}', "not-json"),
        (b"{'a':1}", "not-json"),
        (b"{a:1}", "not-json"),
        (b"[1 2]", "not-json"),
        (b"01", "not-json"),
        (b"+1", "not-json"),
        (b".5", "not-json"),
        (b"1.", "not-json"),
        (b"0x10", "not-json"),
        (b"1_000", "not-json"),
        ("\u0661".encode(), "not-json"),
        (b"nan", "not-json"),
        (b"True", "not-json"),
        (b"undefined", "not-json"),
        (b'"a\nb"', "not-json"),
        (b'"\x00"', "not-json"),
        (b'"\\x41"', "not-json"),
        (b'"\\u00g0"', "not-json"),
        (b'"open', "not-json"),
        (b"[1", "not-json"),
        (b"// no\n1", "not-json"),
        (b"1\x00", "not-json"),
        ("\u00a01".encode(), "not-json"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    assert reason_of(data) == reason


def test_the_message_names_the_place_and_the_duplicate() -> None:
    with pytest.raises(ParseError, match=r"^expected unique keys, got 'b' twice$"):
        parse_json(b'{"a":1,"b":2,"b":3}')
    with pytest.raises(ParseError, match=r"at line 2 column 2: Expecting value$"):
        parse_json(b"[1,\n }")


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"]]":', "}]"), ('["\\"[",', "]")]
)
def test_nesting_is_allowed_down_to_64_levels_and_not_to_65(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{") - opening.count('\\"[')
    at_limit = MAX_DEPTH // levels
    assert parse_json((opening * at_limit + "1" + closing * at_limit).encode())
    deeper = f"[{opening * at_limit}1{closing * at_limit}]"
    assert reason_of(deeper.encode()) == "too-deep"


def test_brackets_side_by_side_or_inside_strings_are_no_nesting() -> None:
    assert parse_json(b"[" + b"[]," * 1000 + b"{}]") == [[]] * 1000 + [{}]
    brackets = "[{" * 1000
    assert parse_json(json.dumps([brackets, f'"\\{brackets}']).encode()) == [
        brackets,
        f'"\\{brackets}',
    ]


JSON_VALUES = st.recursive(
    st.none() | st.text(alphabet='a"\\\n[]{}ä', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='"\\[]{}', max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(value=JSON_VALUES, limit=st.integers(0, 5), escaped=st.booleans())
def test_the_depth_is_that_of_the_value_whatever_its_strings_hold(
    value: JsonValue,
    limit: int,
    escaped: bool,  # noqa: FBT001  # drawn
) -> None:
    data = json.dumps(value, ensure_ascii=escaped).encode()
    if depth_of(value) <= limit:
        assert parse_json(data, max_depth=limit) == value
    else:
        with pytest.raises(ParseError) as caught:
            parse_json(data, max_depth=limit)
        assert caught.value.reason == "too-deep"


def test_the_depth_can_be_bounded_by_the_caller() -> None:
    assert parse_json(b"[[1]]", max_depth=2) == [[1]]
    with pytest.raises(ParseError, match="expected at most 1 levels of nesting, got more"):
        parse_json(b"[[1]]", max_depth=1)


def test_the_size_is_bounded_to_the_byte() -> None:
    assert parse_json(b'"abc"', max_bytes=5) == "abc"
    with pytest.raises(ParseError, match=r"^expected at most 5 bytes, got 6$") as caught:
        parse_json(b'"abcd"', max_bytes=5)
    assert caught.value.reason == "too-large"
    assert reason_of(b" " * (DEFAULT_MAX_BYTES + 1)) == "too-large"


@pytest.mark.parametrize("data", [b"[]", b"null", b'"a"', b"1", b"true"])
def test_an_object_is_asked_for_and_nothing_else_taken(data: bytes) -> None:
    assert parse_object(b'{"a":1}') == {"a": 1}
    with pytest.raises(ParseError, match=r"^expected a JSON object, got ") as caught:
        parse_object(data)
    assert caught.value.reason == "not-object"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[" * MEBIBYTE, "too-deep"),
        (b'{"a":' * (MEBIBYTE // 5), "too-deep"),
        (b"1" * MEBIBYTE, "unsafe-integer"),
        (b"-" + b"9" * MEBIBYTE, "unsafe-integer"),
        (b"1" * MEBIBYTE + b".5", "number-overflow"),
        (b"1e" + b"9" * MEBIBYTE, "number-overflow"),
        (b'"' + b"\\" * MEBIBYTE, "not-json"),
        (b"[" * 64 + b'"' + b"[" * MEBIBYTE, "not-json"),
        (
            b"{" + b",".join(b'"k%d":0' % (number % 199_999) for number in range(200_000)) + b"}",
            "duplicate-key",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[:6]!r}",
)
def test_a_hostile_document_is_refused_in_well_under_a_second(data: bytes, reason: str) -> None:
    started = time.process_time()
    assert reason_of(data) == reason
    assert time.process_time() - started < 1


@given(st.binary(max_size=60) | st.text('[]{}",:\\u0dEe-+.19 ntf', max_size=30).map(str.encode))
def test_any_bytes_give_a_value_or_a_parse_error(data: bytes) -> None:
    try:
        value = parse_json(data)
    except ParseError as error:
        assert error.reason  # noqa: PT017  # both ends are expected: which one is the data's choice
    else:
        form = canonical_bytes(value)
        assert canonical_bytes(parse_json(form)) == form


OTHER_SPELLINGS = [
    *(b'{"a":1,"a":1}', b'{"b":1,"a":2}', b"[1, 2]", b'{"a": 1}', b"1.0", b"-0", b"-0.0", b"1e2"),
    # As orjson writes them.
    *(b"[1.0]", b"[0,-1.0]", b'{"a":1.0}', '{"\ufb33":0,"😀":1}'.encode()),
    *(b"1e21", b'"\\u0041"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\/"', b"9007199254740993"),
    *(
        *(b"1e400", b"NaN", b"\xef\xbb\xbf{}", b'"\xff"', b"{}\n\n", b" {}", b"", b"\n", b"nul"),
        b"{} {}",
    ),
]


@pytest.mark.parametrize("data", OTHER_SPELLINGS)
def test_what_is_no_canonical_form_is_left_to_the_strict_parser(data: bytes) -> None:
    assert isinstance(read_canonical(data), NotCanonical)


@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec="utf-8")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=8,
    ),
    spelling=st.sampled_from(
        [canonical_bytes, lambda value: json.dumps(value, separators=(",", ":")).encode()]
    ),
    end=st.sampled_from([b"", b"\n"]),
)
def test_a_canonical_form_is_read_as_the_strict_parser_reads_it(
    value: JsonValue, spelling: Callable[[JsonValue], bytes], end: bytes
) -> None:
    try:
        data = spelling(value) + end
    except CanonicalisationError:  # an integer beyond what RFC 8785 has
        return
    quick = read_canonical(data)
    try:
        # The space is in no canonical form.
        strict = parse_json(b" " + data)
    except ParseError:
        assert isinstance(quick, NotCanonical)
        return
    if not isinstance(quick, NotCanonical):
        assert canonical_bytes(strict) + end == data
        assert repr(quick) == repr(strict)
    elif canonical_bytes(strict) + end == data:
        # Only where orjson differs from RFC 8785, or might.
        is_as_orjson = orjson.dumps(strict, option=orjson.OPT_SORT_KEYS) + end == data
        assert b'": ' in data or not is_as_orjson or fast_canonical_bytes(value) is None


def test_a_canonical_form_that_is_too_deep_is_refused_as_any_other() -> None:
    assert reason_of(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)) == "too-deep"
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert read_canonical(deep) == parse_json(deep)
