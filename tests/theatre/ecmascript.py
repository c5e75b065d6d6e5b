"""ECMAScript: its rule for numbers written anew, and Node to ask."""

import shutil
import struct
import subprocess

import pytest

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="node is not installed: ECMAScript's own JSON.stringify was not asked"
)


def double(ieee754: str) -> float:
    """Return the double with these 16 hexadecimal digits."""
    (number,) = struct.unpack(">d", bytes.fromhex(ieee754))
    return float(number)


def number_to_string(number: float) -> str:
    """Return ECMA-262's Number::toString(number) from the digits that `repr` finds shortest."""
    if number == 0:
        return "0"
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point - 1:+d}"
    return f"-{text}" if number < 0 else text


def ask_node(script: str, data: bytes) -> str:
    """Return what `script` prints; it finds the bytes of `data` in the variable `input`."""
    assert NODE is not None
    program = f"const input = require('fs').readFileSync(0);\n{script}"
    finished = subprocess.run(
        [NODE, "-e", program], input=data, capture_output=True, timeout=120, check=True
    )
    return finished.stdout.decode("utf-8")
