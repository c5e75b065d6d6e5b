"""What is asked of a construct without a wrapper, where a draft leaves it to its data.

`pin` writes it into the template: what is committed says it in full.
"""

from collections.abc import Mapping, Sequence

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.schema_registry import json_pointer

ASKED_ADAPTERS = ("openai", "anthropic", "command", "container")
"""Those that are asked a text and answer one."""


def default_prompt(input_data: Mapping[str, JsonValue]) -> str:
    """Return the placeholder for what is asked: the only member of an input, or all of it."""
    names = [*input_data]
    return f"{{{{{json_pointer(names[0])}}}}}" if len(names) == 1 else "{{}}"


def default_answer(fields: Sequence[str], expected: Mapping[str, JsonValue]) -> JsonObject:
    """Return how an answer is read: a member that is a text as it is, anything else as JSON."""
    if len(fields) != 1:
        return {"from": "json"}
    (name,) = fields
    return {"from": "text" if isinstance(expected.get(name), str) else "json", "field": name}
