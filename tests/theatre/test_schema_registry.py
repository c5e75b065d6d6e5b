"""JSON Schema as the registry applies it: whole matches, checked formats, no network."""

import inspect
import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.drawn import drawn
from theatre.engine.errors import ResourceMissingError
from theatre.engine.schema_registry import (
    SchemaRegistry,
    SchemaViolation,
    json_pointer,
    quote,
    resource_root,
    without_values,
)
from theatre.engine.schema_registry import registry as resources
from theatre.engine.schema_registry.dialect import ecma_pattern

UNUSABLE = "schema:unusable"
SHIPPED = sorted(path.name for path in (resource_root() / "docs" / "schemas").iterdir())


def found(schema: Mapping[str, object], document: object) -> list[tuple[str, str]]:
    violations = SchemaRegistry().validate_inline(schema, document)
    return [(violation.pointer, violation.rule) for violation in violations]


def test_resources_of_a_checkout_lie_at_the_repository_root() -> None:
    assert resource_root() == Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_schema_is_valid_refers_only_to_itself_and_has_a_urn(name: str) -> None:
    schema = json.loads((resource_root() / "docs" / "schemas" / name).read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    assert SchemaRegistry().inline_faults(schema) == []
    assert schema["$id"].startswith("urn:echelon:schema:")


def test_resources_of_a_wheel_lie_inside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "theatre"
    monkeypatch.setattr(resources, "_PACKAGE", package)
    with pytest.raises(ResourceMissingError, match="install the package again"):
        resource_root()
    (package.parent / "docs" / "schemas").mkdir(parents=True)
    assert resource_root() == package.parent
    # What ships inside the package goes before anything that happens to lie beside it.
    (package / "_resources" / "docs" / "schemas").mkdir(parents=True)
    assert resource_root() == package / "_resources"


def test_a_schema_that_does_not_ship_is_named() -> None:
    with pytest.raises(ResourceMissingError, match=r"expected the schema absent\.json"):
        SchemaRegistry().validate("absent.json", {})


def test_a_violation_says_where_what_rule_expected_and_seen() -> None:
    schema = {"type": "object", "properties": {"path": {"enum": ["replay", "market"]}}}
    violations = SchemaRegistry().validate_inline(schema, {"path": "reply"})
    detail = "expected one of replay, market; got 'reply'"
    assert violations == [SchemaViolation("/path", "schema:enum", detail)]
    assert violations[0].as_document() == {
        "pointer": "/path",
        "rule": "schema:enum",
        "detail": detail,
    }


@pytest.mark.parametrize(
    ("value", "told", "described"),
    [
        ("reply", "'reply'", "a text of 5 characters"),
        (7, "7", "an integer"),
        (1.5, "1.5", "a number"),
        (True, "true", "a boolean"),
        (None, "null", "null"),
        ([1, 2], "an array of 2", "an array of 2"),
        ({"a": 1}, "an object of 1", "an object of 1"),
    ],
)
def test_a_violation_is_told_with_the_value_or_without(
    value: object, told: str, described: str
) -> None:
    (violation,) = SchemaRegistry().validate_inline({"const": "other"}, value)
    assert violation.detail == f"expected 'other', got {told}"
    assert without_values(violation.detail) == f"expected 'other', got {described}"


def test_alternatives_are_told_without_the_value_each() -> None:
    schema = {"anyOf": [{"type": "integer"}, {"enum": ["a"]}, {"pattern": "^b$"}]}
    (violation,) = SchemaRegistry().validate_inline(schema, "secret")
    assert without_values(violation.detail) == (
        "expected integer, got string; or expected one of a; got a text of 6 characters; "
        "or expected text that fits its pattern, got a text of 6 characters"
    )


def test_all_violations_are_reported_sorted_by_pointer() -> None:
    schema: dict[str, object] = {
        "required": ["z", "y"],
        "properties": {"b": {"type": "string"}, "a": {"minimum": 1, "multipleOf": 2}},
    }
    violations = SchemaRegistry().validate_inline(schema, {"b": 1, "a": -1})
    assert [(v.pointer, v.rule, v.detail) for v in violations] == [
        ("", "schema:required", "expected member y, got an object without it"),
        ("", "schema:required", "expected member z, got an object without it"),
        ("/a", "schema:minimum", "expected a number ≥ 1, got -1"),
        ("/a", "schema:multipleOf", "expected a multiple of 2, got -1"),
        ("/b", "schema:type", "expected string, got integer"),
    ]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("^(a|b)$", "b\n", False),
        (r"^a\$$", "a$", True),
        ("^[a$]+$", "$a", True),
        ("^[a$]+$", "$a\n", False),
        (r"^\d$", "7", True),
        (r"^\d$", "٣", False),
        ("a", "bab", True),
        ("^[[&]$", "&", True),
        ("^[^]$", "\n", True),
        ("[]", "a", False),
    ],
)
def test_patterns_mean_what_they_mean_in_ecma_262(
    pattern: str, text: str, *, matches: bool
) -> None:
    expected = [] if matches else [("", "schema:pattern")]
    assert found({"pattern": pattern}, text) == expected
    assert (ecma_pattern(pattern).search(text) is not None) is matches


def test_a_trailing_newline_makes_another_member_name() -> None:
    schema: dict[str, object] = {
        "patternProperties": {"^a$": {"type": "string"}},
        "additionalProperties": False,
    }
    assert found(schema, {"a": "x"}) == []
    assert found(schema, {"a": 1}) == [("/a", "schema:type")]
    assert found(schema, {"a\n": "x"}) == [("/a\n", "schema:additionalProperties")]
    open_schema: dict[str, object] = {
        "patternProperties": {"^a$": {}},
        "additionalProperties": {"type": "integer"},
    }
    assert found(open_schema, {"a\n": "x"}) == [("/a\n", "schema:type")]
    assert found({"patternProperties": {"^a$": {"type": "string"}}}, {"a\n": 1}) == []


@pytest.mark.parametrize(
    ("schema", "document", "rule"),
    [
        ({"type": "integer"}, True, "schema:type"),
        ({"type": "number"}, False, "schema:type"),
        ({"const": 1}, True, "schema:const"),
        ({"enum": [0]}, False, "schema:enum"),
        ({"multipleOf": 0.1}, float("inf"), "schema:multipleOf"),
        ({"multipleOf": 3}, float("nan"), "schema:multipleOf"),
        ({"uniqueItems": True}, [1, 1.0], "schema:uniqueItems"),
        ({"uniqueItems": True}, [{"a": [1], "b": 2}, {"b": 2, "a": [1]}], "schema:uniqueItems"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "schema:dependentRequired"),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "a", "schema:oneOf"),
        ({"not": {}}, None, "schema:not"),
        ({"not": True}, None, "schema:not"),
        ({"allOf": [False]}, None, "schema:false"),
        ({"maxItems": 0}, [1], "schema:maxItems"),
    ],
)
def test_a_document_breaks_a_keyword(
    schema: dict[str, object], document: object, rule: str
) -> None:
    assert found(schema, document) == [("", rule)]


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"type": "integer"}, 1.0),
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": 2}, True),
        ({"uniqueItems": True}, [1, True, 0, False, "1", [1], {"1": 1}]),
        ({"uniqueItems": False}, [1, 1]),
        ({"$anchor": "x", "properties": {"a": {"$ref": "#x"}}}, {"a": {"a": 1}}),
        ({"$id": "https://example.com/s", "$ref": "#/$defs/t", "$defs": {"t": {}}}, 1),
        ({"required": ["a"], "dependentRequired": {"b": ["c"]}, "pattern": "^x$"}, 5),
        ({"additionalProperties": False, "patternProperties": {"a": {}}, "uniqueItems": True}, 5),
    ],
)
def test_a_document_fits(schema: dict[str, object], document: object) -> None:
    assert found(schema, document) == []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-02-28T00:00:00.5Z", "2026-02-28T00:00:00+00:00"),
        ("date-time", "2024-02-29T23:59:59Z", "2026-02-29T23:59:59Z"),
        ("date-time", "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z\n"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2026-02-28", "20260228"),
        ("date", "2026-02-28", "2026-W09-6"),
        ("uuid", "0F0E0D0C-0b0a-0908-0706-050403020100", "0f0e0d0c0b0a09080706050403020100"),
        ("uuid", "00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000}"),
        ("uuid", "0f0e0d0c-0b0a-0908-0706-050403020100", "0f0e0d0c-0b0a-0908-0706-050403020100\n"),
        ("uri", "https://example.com/a?b=c#d", "//example.com/a"),
        ("uri", "urn:echelon:x", "https://exa mple.com"),
        ("uri", "http://[::1]/", "http://[::1"),
        ("regex", "^a$", "("),
    ],
)
def test_formats_are_checked_not_merely_noted(name: str, good: str, bad: str) -> None:
    assert found({"format": name}, good) == []
    assert found({"format": name}, bad) == [("", "schema:format")]
    assert found({"format": name}, 5) == []


def test_pointers_escape_tilde_and_slash_as_rfc_6901_says() -> None:
    assert json_pointer("a/b", 0, "m~n", "~1", "") == "/a~1b/0/m~0n/~01/"
    schema = {"additionalProperties": {"items": {"type": "string"}}}
    assert found(schema, {"a/b~": ["x", 1]}) == [("/a~1b~0/1", "schema:type")]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"$ref": "other.json"}}},
        {"$ref": "#/nowhere"},
        {"$dynamicRef": "#nowhere"},
        {"$ref": "#/title", "title": "no schema"},
        {"$ref": "#/x", "x": {"type": 5}},
        {"$defs": {"a": {"$id": "https://example.com/inner"}}},
        {"$ref": "#"},
        {"type": 5},
        {"pattern": "("},
        {"patternProperties": {"(": {}}},
        {"minimum": float("nan")},
    ],
)
def test_an_inline_schema_that_reaches_out_or_is_none_is_unusable(
    schema: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("expected no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert found(schema, {"a": 1}) == [("", UNUSABLE)]


def test_faults_of_an_inline_schema_point_into_it() -> None:
    schema = {"properties": {"a": {"$ref": "b.json"}, "c": {"items": {"$ref": "#/d"}}}}
    assert SchemaRegistry().inline_faults(schema) == [
        SchemaViolation(
            "/properties/a/$ref", UNUSABLE, "expected a local reference (#…), got 'b.json'"
        ),
        SchemaViolation(
            "/properties/c/items/$ref",
            UNUSABLE,
            "expected a reference that leads to a schema, got '#/d'",
        ),
    ]
    assert SchemaRegistry().inline_faults({"type": ["string", "null"]}) == []


def nested(levels: int) -> object:
    document: object = 1
    for _ in range(levels):
        document = [document]
    return document


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        (nested(65), "schema:depth"),
        (nested(100_000), "schema:depth"),
        ({1: "a"}, "schema:json"),
        ({"a": (1, 2)}, "schema:json"),
        ({"a": 10**5000}, "schema:json"),
        ({"a": object()}, "schema:json"),
    ],
)
def test_what_is_no_json_document_is_refused_whole(document: object, rule: str) -> None:
    assert found({"type": "string"}, document) == [("", rule)]


def test_an_inline_schema_that_is_no_json_is_unusable() -> None:
    deep = {"enum": [nested(64)]}
    assert found(deep, 1) == [("", UNUSABLE)]
    assert [fault.rule for fault in SchemaRegistry().inline_faults(deep)] == ["schema:depth"]


def test_a_stack_that_is_nearly_full_makes_a_schema_unusable_not_a_crash() -> None:
    schema: dict[str, object] = {}
    for _ in range(60):
        schema = {"not": schema}

    def at_depth(frames: int) -> list[tuple[str, str]]:
        if frames:
            return at_depth(frames - 1)
        faults = SchemaRegistry().inline_faults(schema)
        return [(fault.pointer, fault.rule) for fault in faults] + found(schema, 1)

    free = sys.getrecursionlimit() - len(inspect.stack(0))
    assert at_depth(free - 120) == [("", UNUSABLE), ("", UNUSABLE)]
    # Nothing of that is remembered: from here the same schema can be used.
    assert at_depth(0) == []


def test_sixty_four_levels_are_looked_at() -> None:
    assert found({"type": "array"}, nested(64)) == []


def test_messages_repeat_at_most_eighty_characters_of_a_value() -> None:
    assert quote("a" * 80) == repr("a" * 80)
    assert quote("a" * 81) == repr("a" * 80) + "… (cut)"
    assert quote("line\nforged") == r"'line\nforged'"
    values: list[object] = [None, True, 1.5, 2**70, [1], {}]
    assert [quote(value) for value in values] == [
        *("null", "true", "1.5", "an integer of 71 bits", "an array of 1", "an object of 0"),
    ]


KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "pattern", "patternProperties", "additionalProperties"),
        *("$ref", "$id", "required", "enum", "const", "anyOf", "not", "$defs", "minimum"),
        *("multipleOf", "uniqueItems", "format", "if", "then", "dependentRequired"),
    ]
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
JSON = st.recursive(
    VALUES | st.sampled_from(["#", "#/$defs/a", "string", "^[a$]$", "date-time"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYWORDS | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=drawn(200))
@given(schema=st.dictionaries(KEYWORDS, JSON, max_size=3), document=JSON)
def test_no_schema_and_no_document_make_it_raise(
    schema: dict[str, object], document: object
) -> None:
    registry = SchemaRegistry()
    violations = registry.validate_inline(schema, document)
    assert violations == sorted(violations)
    assert {type(fault) for fault in registry.inline_faults(schema)} <= {SchemaViolation}
