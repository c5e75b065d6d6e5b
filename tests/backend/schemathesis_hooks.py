"""What Schemathesis cannot know of the service; its program loads it (`test_schemathesis`)."""

import itertools
from typing import Any

import schemathesis

HEADER = "Idempotency-Key"
_numbers = itertools.count()


def _lines(ctx: Any, value: Any) -> bytes:  # noqa: ANN401, ARG001 - whatever was drawn
    return value if isinstance(value, bytes) else str(value).encode()


def before_call(ctx: Any, case: Any, kwargs: Any) -> None:  # noqa: ANN401, ARG001 - Schemathesis's
    """Give each request a key of its own: it draws the same one for different requests."""
    if case.headers and case.headers.get(HEADER) and case.meta.generation.mode.is_positive:
        case.headers[HEADER] = f"{next(_numbers)}-{case.headers[HEADER]}"[:255]


# Called, not as decorators: those would need its types, with hundreds of modules that they need.
schemathesis.serializer("application/x-ndjson")(_lines)
schemathesis.hook(before_call)
