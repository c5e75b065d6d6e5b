"""Values at the borders of RFC 8785's rules, each with its form: what a quick way must get right.

The same list lies in fixtures/vectors/jcs/boundaries.jsonl, for every implementation; a test
compares the two, and the forms with `rfc8785`, with ECMAScript's rules and with Node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

_NUMBERS: Final = """
0 1 -1 0.5 0.25 -0.75 0.1 0.30000000000000004 0.3333333333333333 -0.6666666666666666 0.95 30 100
12345.678 -273.15 3.141592653589793

9.999999999999998e-8 1e-7 1.0000000000000001e-7 9.999999999999997e-7 0.000001
0.0000010000000000000002 0.000009999999999999999 0.00001 0.000010000000000000003
0.00009999999999999999 0.0001 0.00010000000000000002 -9.999999999999998e-8 -1e-7
-1.0000000000000001e-7 -9.999999999999997e-7 -0.000001 -0.0000010000000000000002
-0.000009999999999999999 -0.00001 -0.000010000000000000003

999999999999999.9 1000000000000000 1000000000000000.1 9999999999999998 10000000000000000
10000000000000002 99999999999999980 100000000000000000 100000000000000020 99999999999999980000
100000000000000000000 100000000000000020000 999999999999999900000 1e+21 1.0000000000000001e+21
9.999999999999998e+21 1e+22 1.0000000000000002e+22 9.999999999999997e+22 1e+23
1.0000000000000001e+23 -999999999999999900000 -1e+21 -1.0000000000000001e+21

1e-12 1.5e-12 1e-11 1.5e-11 1e-10 1.5e-10 1e-9 1.5e-9 1e-8 1.5e-8 1.5e-7 0.0000015 0.000015 0.00015
0.001 0.0015 0.01 0.015 0.15 1.5 10 15 150 1000 1500 10000 15000 100000 150000 1000000 1500000
10000000 15000000 100000000 150000000 1000000000 1500000000 10000000000 15000000000 100000000000
150000000000 1000000000000 1500000000000 10000000000000 15000000000000 100000000000000
150000000000000 1500000000000000 15000000000000000 150000000000000000 1000000000000000000
1500000000000000000 10000000000000000000 15000000000000000000 150000000000000000000 1.5e+21 1.5e+22
1.5e+23

4503599627370495.5 4503599627370496 4503599627370497 9007199254740990 9007199254740991
9007199254740992 9007199254740994 -9007199254740991 -9007199254740992 1152921504606847000
9223372036854776000 18446744073709552000 1.1805916207174113e+21

5e-324 -5e-324 2.225073858507201e-308 2.2250738585072014e-308 1.7976931348623157e+308
-1.7976931348623157e+308 1e+300 1e-300 1.2e+30 9.5367431640625e-7 9.313225746154785e-10

333333333.3333332 333333333.33333325 333333333.3333333 333333333.3333334 333333333.33333343
-0.0000033333333333333333 1424953923781206.2 295147905179352830000 999999999999999700000
123456789012345680 0.00001234567890123456
"""
"""Forms of doubles, which are their own names: each reads back as the double that it is of.

Common values; neighbours of 1e-7 to 1e-4, and of 1e15 to 1e23; powers of ten; round 2^53; extremes;
the numbers of RFC 8785's appendix B.
"""

_NESTED: Final[list[Any]] = []
for _ in range(63):
    _NESTED[:] = [_NESTED.copy()]

WRITTEN: Final[tuple[tuple[object, str], ...]] = (
    *((float(form), form) for form in _NUMBERS.split()),
    (-0.0, "0"),
    (0, "0"),
    (9007199254740991, "9007199254740991"),
    (-9007199254740991, "-9007199254740991"),
    (None, "null"),
    (True, "true"),
    (False, "false"),
    ("", '""'),
    ("\b\t\n\f\r", '"\\b\\t\\n\\f\\r"'),
    ("\x00\x01\x02\x03\x04\x05\x06\x07", r'"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007"'),
    ("\x0b\x0e\x0f\x10\x11\x12\x13\x14", r'"\u000b\u000e\u000f\u0010\u0011\u0012\u0013\u0014"'),
    ("\x15\x16\x17\x18\x19\x1a\x1b", r'"\u0015\u0016\u0017\u0018\u0019\u001a\u001b"'),
    ("\x1c\x1d\x1e\x1f\x20\x7f", '"\\u001c\\u001d\\u001e\\u001f \x7f"'),
    ('"\\/', r'"\"\\/"'),
    ("<>&'", "\"<>&'\""),
    ("\x80\x85\xa0\u2028\u2029\ufeff", '"\x80\x85\xa0\u2028\u2029\ufeff"'),
    ("\ud7ff\ue000\ufdd0\ufffd\ufffe\uffff", '"\ud7ff\ue000\ufdd0\ufffd\ufffe\uffff"'),
    ("\U00010000\U0001f600\U0010ffff", '"\U00010000\U0001f600\U0010ffff"'),
    ("\xe9 is not e\u0301", '"\xe9 is not e\u0301"'),
    ([], "[]"),
    ({}, "{}"),
    ([[], {}, [{}], {"a": []}], '[[],{},[{}],{"a":[]}]'),
    (_NESTED, "[" * 64 + "]" * 64),
    ([1, 1.0, True, "1", None, -0.0], '[1,1,true,"1",null,0]'),
    ({"b": 1.0, "a": {"d": [2.0, 0.5], "c": 1e-7}}, '{"a":{"c":1e-7,"d":[2,0.5]},"b":1}'),
    ({"10": 1, "2": 2, "1": 3, "": 4}, '{"":4,"1":3,"10":1,"2":2}'),
    ({"a": 1, "B": 2, "_": 3, "aa": 4, "A": 5}, '{"A":5,"B":2,"_":3,"a":1,"aa":4}'),
    ({'"': 1, "\\": 2, "!": 3, "\n": 4, "\x7f": 5}, '{"\\n":4,"!":3,"\\"":1,"\\\\":2,"\x7f":5}'),
    ({"e\u0301": 1, "\xe9": 2, "f": 3, "\x80": 4}, '{"e\u0301":1,"f":3,"\x80":4,"\xe9":2}'),
    ({"\uffff": 1, "\ud7ff": 2}, '{"\ud7ff":2,"\uffff":1}'),
    ({"\ue000": 1, "\U00010000": 2}, '{"\U00010000":2,"\ue000":1}'),
    ({"\ufb33": 1, "\U0001f600": 2, "\u20ac": 3}, '{"\u20ac":3,"\U0001f600":2,"\ufb33":1}'),
    ({"a\uffff": 1, "a\U0010ffff": 2, "a": 3}, '{"a":3,"a\U0010ffff":2,"a\uffff":1}'),
    ([{"k": {"\U0001f600": 1, "\ufffd": 2}}], '[{"k":{"\U0001f600":1,"\ufffd":2}}]'),
)  # fmt: skip
"""A value and its form. Keys come in the order of UTF-16, numbers as ECMAScript writes them."""

REFUSED: Final[tuple[tuple[str, object], ...]] = (
    ("non-finite", math.nan),
    ("non-finite", math.inf),
    ("non-finite", -math.inf),
    ("unsafe-integer", 2**53),
    ("unsafe-integer", -(2**53)),
    ("unsafe-integer", 2**53 + 1),
    ("unsafe-integer", 2**63),
    ("unsafe-integer", 2**64),
    ("unsafe-integer", 10**30),
    ("lone-surrogate", "\ud800"),
    ("lone-surrogate", "a\udfffb"),
    ("lone-surrogate", "\ude00\ud83d"),
    ("lone-surrogate", {"\ud800": 1}),
    ("lone-surrogate", {"a": ["\udbff"]}),
    ("unsafe-integer", {"a": [2**53]}),
)
"""Why a value has no form, and the value."""


# What JSON holds, and the limits that reading and writing share.


JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 64
MAX_INPUT_DEPTH = 48
"""Levels of what comes from outside (answers, episodes, templates): our own records wrap it in
more, and must stay within MAX_DEPTH to be read back."""


def json_type(value: object) -> str:
    """Name the JSON type of `value`, for error messages."""
    names: list[tuple[type | tuple[type, ...], str]] = [
        (type(None), "null"),
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (Mapping, "object"),
        ((list, tuple), "array"),
    ]
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)
