"""Examples of the description: requests that were sent to a service, and what it answered.

`examples.json` is recorded by a test (docs/design/service.md, "Examples of the interface are
recorded") and holds, by operation id, a request's body and the answer's by status and media type.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, cast

RECORDED = Path(__file__).with_name("examples.json")
BARE = "application/vnd.theatre.template+json"


@cache
def read_examples() -> dict[str, dict[str, Any]]:
    """Return what was recorded, by operation id."""
    return cast("dict[str, dict[str, Any]]", json.loads(RECORDED.read_bytes()))


def add_examples(operation: dict[str, Any]) -> None:
    """Put the recorded bodies into the description of an operation."""
    kept = read_examples().get(operation["operationId"], {"responses": {}})
    body = kept.get("request")
    if body is not None:
        for media_type, described in operation["requestBody"]["content"].items():
            described["example"] = body["template_json"] if media_type == BARE else body
    for status, answers in kept["responses"].items():
        for media_type, answer in answers.items():
            operation["responses"][status]["content"][media_type]["example"] = answer
