"""Writes fixtures/vectors/jcs/boundaries.jsonl from the engine's list of values at the borders."""

import json
import struct
import sys

from theatre.engine.canonical_json.boundaries import REFUSED, WRITTEN


def vector_lines() -> str:
    """Return the file: a line for each value, with its form or why it has none."""
    vectors = [
        *(of_value(value) | {"form": form.encode().hex()} for value, form in WRITTEN),
        *(of_value(value) | {"refused": reason} for reason, value in REFUSED),
    ]
    return "".join(json.dumps(vector, sort_keys=True) + "\n" for vector in vectors)


def of_value(value: object) -> dict[str, str]:
    if isinstance(value, float):
        return {"double": struct.pack(">d", value).hex()}
    return {"text": json.dumps(value)}


if __name__ == "__main__":
    sys.stdout.write(vector_lines())
