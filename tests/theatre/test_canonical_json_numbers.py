"""Numbers in canonical JSON against RFC 8785, ECMAScript's rules, and ECMAScript itself.

`ECHELON_TEST_DOUBLES` sets how many random doubles are tried (a million with ECHELON_SOAK). They
come from SHAKE-256, so every machine tries the same ones, and fewer are the first of more.
"""

import hashlib
import itertools
import json
import math
import os
import struct
from functools import cache

import pytest
import rfc8785

from tests.theatre.ecmascript import ask_node, double, needs_node, number_to_string
from theatre.engine.canonical_json import canonical_json
from theatre.engine.canonical_json.writing import fast_canonical_bytes
from theatre.engine.errors import CanonicalisationError

SOAK = os.environ.get("ECHELON_SOAK") == "1"
DOUBLES = int(os.environ.get("ECHELON_TEST_DOUBLES", "1000000" if SOAK else "50000"))
BATCH = 10_000
NEIGHBOURS = 200 if SOAK else 10
APPENDIX_B = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@cache
def random_doubles() -> tuple[float, ...]:
    """Return DOUBLES finite numbers: half of any exponent, half between 2^-40 and 2^87.

    The second half lies round the borders of ECMAScript's notations, 1e-7, 2^53 and 1e21.
    """
    words = struct.iter_unpack(">Q", hashlib.shake_256(b"doubles").digest(8 * DOUBLES))
    bits = bytearray()
    for index, (word,) in enumerate(words):
        exponent = word >> 52 & 0x7FF
        if index % 2 or exponent == 0x7FF:
            exponent = 983 + (exponent & 0x7F)
        bits += struct.pack(">Q", word & ~(0x7FF << 52) | exponent << 52)
    return tuple(number for (number,) in struct.iter_unpack(">d", bits))


@cache
def canonical_batches() -> tuple[tuple[tuple[float, ...], str], ...]:
    """Return the random doubles in batches, each with its canonical form."""
    numbers = iter(random_doubles())
    batches = iter(lambda: tuple(itertools.islice(numbers, BATCH)), ())
    return tuple((batch, canonical_json(batch)) for batch in batches)


@pytest.mark.parametrize(("ieee754", "text"), APPENDIX_B)
def test_each_number_of_rfc_8785_appendix_b_has_its_form(ieee754: str, text: str) -> None:
    assert canonical_json(double(ieee754)) == text
    assert number_to_string(double(ieee754)) == text


@pytest.mark.parametrize(
    "ieee754", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000", "7ff8000000000001"]
)
def test_nan_and_infinity_of_appendix_b_are_errors(ieee754: str) -> None:
    with pytest.raises(CanonicalisationError, match="is not representable in JCS"):
        canonical_json(double(ieee754))


def test_the_random_doubles_are_finite_and_lie_on_every_side_of_each_border() -> None:
    numbers = [abs(number) for number in random_doubles()]
    assert len(numbers) == DOUBLES
    assert all(map(math.isfinite, numbers))
    borders = [0.0, 1e-300, 1e-7, 1e-6, 1.0, float(2**53), 1e21, 1e300, math.inf]
    for low, high in itertools.pairwise(borders):
        assert any(low <= number < high for number in numbers), (low, high)


def test_random_doubles_have_the_form_of_the_reference_package() -> None:
    for batch, form in canonical_batches():
        assert form.encode("ascii") == rfc8785.dumps(batch)


def test_random_doubles_each_have_that_form_by_the_quick_way() -> None:
    for batch, form in canonical_batches():
        for number, text in zip(batch, form[1:-1].split(","), strict=True):
            assert fast_canonical_bytes(number) == text.encode("ascii")


@cache
def neighbours() -> tuple[float, ...]:
    """Return doubles on both sides of each power of ten, of 2^53 and of where digits are halved."""
    borders = [float(f"{digits}e{power}") for power in range(-324, 309) for digits in (1, 5, 9.5)]
    borders += [2.0**power for power in (-1074, -1022, 0, 49, 50, 51, 52, 53, 54, 63, 64, 1023)]
    found = set()
    for border in borders:
        (bits,) = struct.unpack(">q", struct.pack(">d", border))
        steps = range(max(0, bits - NEIGHBOURS), bits + NEIGHBOURS + 1)
        found |= {
            number
            for step in steps
            for (number,) in struct.iter_unpack(">d", struct.pack(">q", step))
        }
    return tuple(sorted(filter(math.isfinite, found)))


def test_the_neighbours_of_each_border_have_the_form_that_ecmascript_prescribes() -> None:
    numbers = neighbours()
    assert {1e-7, math.nextafter(1e-5, 0), 2.0**53 - 1, 2.0**53, 1e16, 1e21} <= set(numbers)
    for sign in (1, -1):
        batch = [sign * number for number in numbers]
        form = fast_canonical_bytes(batch)
        assert form == rfc8785.dumps(batch)
        assert form.decode()[1:-1].split(",") == [number_to_string(number) for number in batch]


def test_random_doubles_have_the_form_that_ecmascript_prescribes() -> None:
    for batch, form in canonical_batches():
        assert form[1:-1].split(",") == [number_to_string(number) for number in batch]


def test_random_doubles_are_the_same_double_when_read_back() -> None:
    for batch, form in canonical_batches():
        assert tuple(map(float, form[1:-1].split(","))) == batch


@needs_node
def test_random_doubles_have_the_form_that_node_gives_them() -> None:
    script = """
        const forms = [];
        for (let at = 0; at < input.length; at += 8) {
            forms.push(JSON.stringify(input.readDoubleBE(at)));
        }
        process.stdout.write(forms.join(','));
    """
    numbers = random_doubles()
    forms = ask_node(script, struct.pack(f">{len(numbers)}d", *numbers)).split(",")
    assert len(forms) == len(numbers)
    for index, (_, form) in enumerate(canonical_batches()):
        assert form[1:-1].split(",") == forms[index * BATCH : (index + 1) * BATCH]


@needs_node
def test_every_character_and_the_order_of_keys_are_those_of_node() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    script = """
        const characters = Array.from(JSON.parse(input));
        const order = Object.fromEntries(characters.filter((_, at) => at % 101 === 0)
            .map((key) => [`k${key}`, 0]).sort());
        process.stdout.write(JSON.stringify([characters.join(''), order]));
    """
    answer = ask_node(script, json.dumps("".join(characters)).encode())
    keys = {f"k{character}": 0 for character in characters[::101]}
    assert canonical_json(["".join(characters), keys]) == answer
