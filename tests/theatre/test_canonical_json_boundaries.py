"""Values at the borders of RFC 8785: one list for us, for others, and for the self-test."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import rfc8785

from tests.theatre.boundary_vectors import vector_lines
from tests.theatre.echelon_process import REPOSITORY
from tests.theatre.ecmascript import ask_node, double, needs_node, number_to_string
from theatre.engine.bundle_check import plain_json
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.canonical_json.writing import IS_TRUSTED, fast_canonical_bytes
from theatre.engine.errors import CanonicalisationError

VECTORS = REPOSITORY / "fixtures" / "vectors" / "jcs" / "boundaries.jsonl"
LINES: list[dict[str, str]] = [json.loads(line) for line in VECTORS.read_text().splitlines()]
WRITTEN = [line for line in LINES if "form" in line]
REFUSED = [line for line in LINES if "refused" in line]
MESSAGES = {
    "non-finite": "is not representable in JCS",
    "unsafe-integer": "exceeds safe integer domain",
    "lone-surrogate": "got a lone surrogate|non-UTF-8 codepoints",
}


def value_of(line: dict[str, str]) -> JsonValue:
    value: JsonValue
    value = double(line["double"]) if "double" in line else json.loads(line["text"])
    return value


def named(line: dict[str, str]) -> str:
    return line.get("double") or line["text"][:40]


def test_the_file_is_the_list_that_the_engine_tries_when_it_is_loaded() -> None:
    assert vector_lines() == VECTORS.read_text(encoding="ascii")
    assert len(LINES) > 200
    assert {frozenset(line) for line in LINES} == {
        frozenset({key, outcome}) for key in ("double", "text") for outcome in ("form", "refused")
    }


@pytest.mark.reproducibility
@pytest.mark.parametrize("line", WRITTEN, ids=named)
def test_a_value_at_a_border_has_its_form_by_either_way(line: dict[str, str]) -> None:
    value, form = value_of(line), bytes.fromhex(line["form"])
    assert canonical_bytes(value) == form
    assert rfc8785.dumps(value) == form
    assert canonical_bytes({"a": [value]}) == b'{"a":[' + form + b"]}"


@pytest.mark.parametrize("line", REFUSED, ids=named)
def test_a_value_without_a_form_is_refused_by_its_name(line: dict[str, str]) -> None:
    value = value_of(line)
    assert fast_canonical_bytes(value) is None
    with pytest.raises(CanonicalisationError, match=MESSAGES[line["refused"]]):
        canonical_bytes(value)


def test_each_double_at_a_border_has_the_form_that_ecmascript_prescribes() -> None:
    doubles = [line for line in WRITTEN if "double" in line]
    assert [number_to_string(double(line["double"])) for line in doubles] == [
        bytes.fromhex(line["form"]).decode() for line in doubles
    ]


def test_verify_bundle_writes_the_same_forms_and_lets_nothing_in_that_has_none() -> None:
    forms = [plain_json.canonical(value_of(line)).hex() for line in WRITTEN]
    assert forms == [line["form"] for line in WRITTEN]
    refused = [
        partial(plain_json.parsed, line["text"].encode(), "a document")
        if "text" in line
        else partial(plain_json.canonical, double(line["double"]))
        for line in REFUSED
    ]
    for refuse in refused:
        with pytest.raises(plain_json.DefectError):
            refuse()


@needs_node
def test_each_form_is_that_of_node() -> None:
    script = """
        const form = (value) => Array.isArray(value) ? `[${value.map(form)}]`
            : value !== null && typeof value === 'object'
            ? `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${form(value[k])}`)}}`
            : JSON.stringify(value);
        const forms = input.toString().split('\\n').filter(Boolean).map((line) => {
            const {double, text} = JSON.parse(line);
            const value = text === undefined
                ? Buffer.from(double, 'hex').readDoubleBE() : JSON.parse(text);
            return Buffer.from(form(value)).toString('hex');
        });
        process.stdout.write(forms.join('\\n'));
    """
    given = "\n".join(json.dumps(line) for line in WRITTEN)
    assert ask_node(script, given.encode()).split("\n") == [line["form"] for line in WRITTEN]


# The installed orjson, changed in one way: what comes from it is the expression in the last line.
CHANGED = """
import importlib.util, json
found = importlib.util.spec_from_file_location("orjson", {binary!r})
real = importlib.util.module_from_spec(found)
found.loader.exec_module(real)
Fragment = real.Fragment
OPT_SORT_KEYS, OPT_STRICT_INTEGER = real.OPT_SORT_KEYS, real.OPT_STRICT_INTEGER

def dumps(value, default, option):
    form = lambda: real.dumps(value, default, option)
    return {change}
"""
PROGRAM = """
import json, sys
from theatre.engine.canonical_json import canonical_bytes
from theatre.engine.canonical_json.writing import IS_TRUSTED, fast_canonical_bytes
value = json.load(sys.stdin)
is_quick = fast_canonical_bytes(value) is not None
print(json.dumps([IS_TRUSTED, is_quick, canonical_bytes(value).decode()]))
"""
RECORD: JsonObject = {
    "b": [1.0, 1e-7, 0.30000000000000004, 2.5, 1e16, 9007199254740991],
    "a": {"path": "a/b", "é": "\x7f\x0b\u2028", "none": None},
    "A": {},
}
CHANGES = {
    "digits": 'form().replace(b"0.30000000000000004", b"0.3")',
    "an exponent": 'form().replace(b"0.00015", b"1.5e-4")',
    "a point": 'form() + b".0" if form() == b"1500000" else form()',
    "slashes escaped": 'form().replace(b"/", b"\\\\/")',
    "delete escaped": 'form().replace(b"\\x7f", b"\\\\u007f")',
    "upper-case digits in an escape": 'form().replace(b"u000b", b"u000B")',
    "separators escaped": 'form().replace("\\u2028".encode(), b"\\\\u2028")',
    "half a pair written": 'json.dumps(value).encode() if "\\\\ud8" in ascii(value) else form()',
    "all escaped": "json.dumps(form().decode()).encode()",
    "null": 'form().replace(b"null", b"0")',
    "empty containers": 'form().replace(b"{}", b"[]")',
    "order of insertion": "real.dumps(value, default, OPT_STRICT_INTEGER)",
    "integers beyond 2^53": "real.dumps(value, default, OPT_SORT_KEYS)",
    "a line feed": "real.dumps(value, default, option | real.OPT_APPEND_NEWLINE)",
    "indented": "real.dumps(value, default, option | real.OPT_INDENT_2)",
}


def told_with(orjson: str | None, folder: Path) -> list[object]:
    """Return what PROGRAM says where `orjson` is the source of the module of that name."""
    if orjson is not None:
        (folder / "orjson.py").write_text(orjson, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(folder)},
        input=json.dumps(RECORD),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    told: list[object] = json.loads(ended.stdout)
    return told


def changed(change: str) -> str:
    binary = sys.modules["orjson.orjson"].__file__
    return CHANGED.format(binary=binary, change=change)


def test_orjson_as_it_is_is_trusted(tmp_path: Path) -> None:
    form = rfc8785.dumps(RECORD).decode()
    assert IS_TRUSTED
    assert told_with(None, tmp_path) == [True, True, form]
    assert told_with(changed("form()"), tmp_path) == [True, True, form]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_orjson_that_writes_otherwise_is_not_asked(change: str, tmp_path: Path) -> None:
    assert told_with(changed(change), tmp_path) == [False, False, rfc8785.dumps(RECORD).decode()]


@pytest.mark.parametrize(
    "source",
    [
        'raise ImportError("not built for this machine")',
        "",
        "OPT_SORT_KEYS = OPT_STRICT_INTEGER = 0",
    ],
)
def test_without_a_whole_orjson_the_form_is_the_same(source: str, tmp_path: Path) -> None:
    assert told_with(source, tmp_path) == [False, False, rfc8785.dumps(RECORD).decode()]
