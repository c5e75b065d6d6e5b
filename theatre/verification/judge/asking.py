"""What a judge of summaries is asked by which rubric, and which answers fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.judging import messages
from theatre.verification.judge.prompts import RUBRICS


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
