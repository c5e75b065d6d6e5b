"""What a judge of summaries is asked by which rubric, and which answers fit."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.judging import messages

# The prompts, as files in this folder; their digest is the version of the methodology.


PARSER = "1"
"""The version of what is asked besides the rubric, and of how answers are read and counted."""

_NAMES = ("claims", "changes", "coverage", "reply")

RUBRICS: Final = MappingProxyType(
    {
        name: files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
        for name in _NAMES
    }
)
"""Name → text of each prompt: the system prompt of its requests."""

PROMPTS_SHA256: Final = canonical_sha256(dict(RUBRICS))
VERSION: Final = f"{PARSER}-{PROMPTS_SHA256[:12]}"
"""The version of the scorer: with other prompts, or another reading, it is another one."""

METHODOLOGY: Final = f"judge-{VERSION}"


def _object(**properties: JsonValue) -> JsonObject:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def _array(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _one_of(values: Sequence[str]) -> JsonObject:
    return {"type": "string", "enum": list(values)}


CLAIM_VERDICTS = ("supported", "contradicted", "not_shown")
REPLY_VERDICTS = ("right", "partly", "wrong")

ANSWER_SCHEMAS: Final[dict[str, JsonObject]] = {
    "claims": _object(
        verdicts=_array(_object(claim={"type": "integer"}, verdict=_one_of(CLAIM_VERDICTS)))
    ),
    "changes": _object(changes=_array({"type": "string"})),
    "coverage": _object(
        verdicts=_array(_object(change={"type": "integer"}, surfaced={"type": "boolean"}))
    ),
    "reply": _object(verdict=_one_of(REPLY_VERDICTS)),
}
"""Name of a prompt → JSON Schema of its answers; the API gets it, and answers are checked by it."""


def request(prompt: str, judge: JsonObject, data: JsonObject) -> JsonObject:
    """Return the request that asks about `data` by the rubric `prompt`; `judge` is committed."""
    return messages.request(RUBRICS[prompt], ANSWER_SCHEMAS[prompt], judge, data)


def read_answer(prompt: str, answer: JsonObject) -> JsonObject | None:
    """Return what a judge answered to `prompt`, or None where that is not usable."""
    return messages.read_answer(ANSWER_SCHEMAS[prompt], answer)
