"""No message shows a regular expression: what is asked for is said in words."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.backend.serving import Client, Reply
from tests.backend.test_interface import DESCRIBED, operations, whole
from tests.backend.theatre_templates import cartograph
from tests.theatre.echelon_process import CARTOGRAPH, REPOSITORY
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.schema_registry.dialect import ecma_pattern
from theatre.engine.schema_registry.pattern_words import WORDS, model_message, pattern_words

SCHEMAS = sorted(
    [
        *(REPOSITORY / "docs" / "schemas").glob("*.json"),
        *(REPOSITORY / "theatre" / "axion" / "schemas").glob("*.json"),
    ]
)
BAD = ("no!such@pattern fits ", "\x00", "a\x01b", '"', "..", "")
"""Each pattern has one among these that does not fit it."""
NAMED = re.compile(r"\{\w+\}")
NOBODYS = "018f0000-0000-7000-8000-00000000dead"

Place = tuple[str, ...]


def patterns_in(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        for one in node.values():
            yield from patterns_in(one)
    elif isinstance(node, list):
        for one in node:
            yield from patterns_in(one)


ALL = sorted(
    {
        pattern
        for document in (DESCRIBED, *(json.loads(path.read_bytes()) for path in SCHEMAS))
        for pattern in patterns_in(document)
    }
)


def places(schema: dict[str, Any], at: Place = (), kind: Any = None) -> Iterator[Any]:  # noqa: ANN401
    """Yield place, pattern and, of an alternative, what names it; arrays by their first item."""
    schema = whole(schema)
    if "pattern" in schema:
        yield at, schema["pattern"], kind
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        named = whole(one).get("properties", {}).get("kind", {}).get("const")
        yield from places(one, at, (at, named) if named else kind)
    for name, one in schema.get("properties", {}).items():
        yield from places(one, (*at, name), kind)
    if isinstance(schema.get("items"), dict):
        yield from places(schema["items"], (*at, "0"), kind)


def unfit(pattern: str) -> str:
    return next(text for text in BAD if not ecma_pattern(pattern).search(text))


def changed(body: Any, place: Place, value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a document with `value` at a place, which is made where it is not there."""
    if not place:
        return value
    first, *rest = place
    if first == "0":
        items = body if isinstance(body, list) and body else [{}]
        return [changed(items[0], tuple(rest), value)]
    members = dict(body) if isinstance(body, dict) else {}
    members[first] = changed(members.get(first), tuple(rest), value)
    return members


def in_parameters() -> Iterator[tuple[str, str, dict[str, Any], str]]:
    for method, path, operation in operations():
        for parameter in operation["parameters"]:
            if "pattern" in parameter["schema"]:
                yield method, path, parameter, parameter["schema"]["pattern"]


def in_bodies() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield path, media type, a body with one text that does not fit, and its pattern."""
    for _, path, operation in operations():
        requested = operation.get("requestBody", {"content": {}})["content"]
        for media_type, described in requested.items():
            for place, pattern, kind in places(described["schema"]):
                body = copy.deepcopy(described.get("example", {}))
                if kind is not None:
                    body = changed(body, kind[0], {"kind": kind[1]})
                yield path, media_type, changed(body, place, unfit(pattern)), pattern


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


def text_of(reply: Reply) -> str:
    """Return all texts of a refusal; none of them has a pattern."""
    assert 400 <= reply.status < 500, reply
    texts = "\n".join([reply.document["detail"], *(e["detail"] for e in reply.document["errors"])])
    assert [pattern for pattern in (*ALL, *WORDS) if pattern in texts] == []
    assert "^" not in texts.replace("/ ~ ^ -", "")
    assert "[" not in texts
    return texts


@pytest.mark.parametrize("pattern", ALL)
def test_every_pattern_of_schemas_and_interface_has_words(pattern: str) -> None:
    assert pattern in WORDS
    assert not re.search(r"[\\^\[\]{}$]", pattern_words(pattern).replace("/ ~ ^ -", ""))


def test_a_parameter_that_does_not_fit_is_told_so_in_words(ada: Client) -> None:
    asked = 0
    for method, template, parameter, pattern in in_parameters():
        value, path, headers = unfit(pattern), template, {"Content-Type": "application/json"}
        if parameter["in"] == "header":
            headers[parameter["name"]] = '"'
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(value, safe=""))
        path = NAMED.sub(NOBODYS, path)
        if parameter["in"] == "query":
            path += "?" + urlencode({parameter["name"]: value})
        texts = text_of(ada.ask(method, path, headers=headers))
        is_said = f"expected {pattern_words(pattern)}" in texts
        assert is_said or parameter["in"] != "query", (path, texts)
        asked += 1
    assert asked > 20


def test_a_member_that_does_not_fit_is_told_so_in_words(ada: Client) -> None:
    asked = 0
    for template, media_type, body, pattern in in_bodies():
        path, is_json = NAMED.sub(NOBODYS, template), media_type == "application/json"
        reply = ada.post(path, body) if is_json else ada.form(path, **body)
        assert f"expected {pattern_words(pattern)}" in text_of(reply), (path, body)
        asked += 1
    assert asked > 15


def test_no_place_of_a_template_brings_a_pattern_back(ada: Client) -> None:
    def leaves(node: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        if isinstance(node, dict | list):
            for key, one in node.items() if isinstance(node, dict) else enumerate(node):
                yield from leaves(one, (*at, key))
        else:
            yield at

    worded = 0
    for path in leaves(cartograph()):
        template: Any = copy.deepcopy(cartograph())
        holder = template
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = "a\x01!b"
        reply = ada.post("/theatres?dry_run=true", {"template_json": template})
        if reply.status != 200:
            worded += any(words in text_of(reply) for words in WORDS.values())
    assert worded > 5


def test_the_command_line_has_the_same_words() -> None:
    template = {**json.loads(CARTOGRAPH.read_bytes()), "theatre_id": "Nobody"}
    (violation,) = SchemaRegistry().validate("echelon_theatre_schema_v2_1.json", template)
    assert violation.detail == (
        "expected lower-case letters and underscores that end in a version, for example "
        "product_observer_v1, got 'Nobody'"
    )


def test_a_pattern_that_is_not_ours_is_not_shown_either() -> None:
    (violation,) = SchemaRegistry().validate_inline({"pattern": "^x{3}$"}, "y")
    assert violation.detail == "expected text that fits its pattern, got 'y'"
    message = {"type": "string_pattern_mismatch", "msg": "String should match pattern '^x{3}$'"}
    assert model_message(message) == "expected text that fits its pattern"
