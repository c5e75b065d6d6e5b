"""The description of the interface: committed, complete, and its examples valid by its schemas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from jsonschema import Draft202012Validator

from backend.cli.serve_command import openapi
from tests.backend.recorded_examples import BYTES
from tests.backend.test_described_examples import REFUSED_ALWAYS

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"
DESCRIBED: dict[str, Any] = json.loads(COMMITTED.read_bytes())

Body = tuple[str, str, dict[str, Any]]


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DESCRIBED["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def bodies() -> Iterator[Body]:
    """Yield what operations read and answer: operation id, which body, the media type's object."""
    for _, _, operation in operations():
        requested = operation.get("requestBody", {"content": {}})
        for media_type, described in requested["content"].items():
            yield operation["operationId"], media_type, described
        for status, answer in operation["responses"].items():
            for media_type, described in whole(answer).get("content", {}).items():
                yield operation["operationId"], f"{status} {media_type}", described


def whole(described: dict[str, Any]) -> dict[str, Any]:
    """Return what a reference names, or what is no reference."""
    if "$ref" not in described:
        return described
    found: Any = DESCRIBED
    for part in described["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def examples(described: dict[str, Any]) -> list[object]:
    named = [one["value"] for one in described.get("examples", {}).values()]
    return [*named, *([described["example"]] if "example" in described else [])]


def test_the_committed_description_is_that_of_the_application() -> None:
    printed = CliRunner().invoke(openapi)
    assert printed.output == COMMITTED.read_text(encoding="utf-8"), (
        "docs/openapi.json is not that of the application any more: "
        "echelon openapi > docs/openapi.json"
    )


def test_every_body_has_valid_examples() -> None:
    for operation, media_type, described in bodies():
        shown = examples(described)
        if operation not in REFUSED_ALWAYS and media_type.rpartition(" ")[2] not in BYTES:
            # Ranges are parts of what is shown whole, and a bundle has files of many kinds.
            is_binary = described["schema"].get("format") == "binary"
            assert shown or is_binary, (operation, media_type)
        schema = {**described["schema"], "components": DESCRIBED["components"]}
        validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for example in shown:
            assert [*validator.iter_errors(example)] == [], (operation, media_type)


def test_every_operation_says_what_it_refuses_and_nothing_is_left_to_the_framework() -> None:
    seen = set()
    for _, path, operation in operations():
        assert operation["operationId"] not in seen
        seen.add(operation["operationId"])
        refused = {
            status: whole(answer)
            for status, answer in operation["responses"].items()
            if int(status) >= 400
        }
        assert {"422", "500"} <= set(refused), path
        for status, answer in refused.items():
            assert list(answer["content"]) == ["application/problem+json"]
            (example, *_) = examples(answer["content"]["application/problem+json"])
            assert isinstance(example, dict)
            assert example["status"] == int(status)
    assert "ValidationError" not in COMMITTED.read_text(encoding="utf-8").replace(
        "RequestValidationError", ""
    )


def test_links_lead_to_operations_that_there_are() -> None:
    known = {operation["operationId"] for _, _, operation in operations()}
    links = [
        link
        for _, _, operation in operations()
        for answer in operation["responses"].values()
        for link in whole(answer).get("links", {}).values()
    ]
    assert {link["operationId"] for link in links} >= {
        "commit_theatre",
        "run_theatre",
        "get_theatre_certificate",
        "get_certificate_document",
    }
    assert {link["operationId"] for link in links} <= known
