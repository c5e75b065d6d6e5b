"""What a judge is sent, and what can be read of its answer; requests and answers are JSON.

A request is the body of a call of the Anthropic Messages API, or of an OpenAI-compatible one for
chat completions, as the committed judge names its provider. What is judged is in one JSON document
behind the rubric, in ASCII: what is invisible or changes direction shows as an escape.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    # For its type only: it takes the HTTP of the SDKs with it, which a check does without.
    from theatre.providers import ProviderKind

ANTHROPIC, OPENAI = "anthropic", "openai"
PROVIDERS: Final = (ANTHROPIC, OPENAI)
"""Who may be asked: Anthropic's Messages, and whatever speaks OpenAI's chat completions."""

_REGISTRY: Final = SchemaRegistry()


def request(rubric: str, schema: JsonObject, judge: JsonObject, data: JsonObject) -> JsonObject:
    """Return the request that asks about `data` by `rubric`, for an answer that fits `schema`.

    `judge` gives its `provider`, `model`, `max_tokens` and `temperature` (0, or null where the
    model takes none).
    """
    asked: JsonObject = {"role": "user", "content": json.dumps(data, sort_keys=True)}
    body: JsonObject = {"model": judge["model"], "max_tokens": judge["max_tokens"]}
    if judge["provider"] == OPENAI:
        body["messages"] = [{"role": "system", "content": rubric}, asked]
        form: JsonObject = {"name": "answer", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    else:
        body |= {"system": rubric, "messages": [asked]}
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if judge["temperature"] is not None:
        body["temperature"] = judge["temperature"]
    return body


def provider_of(request: JsonObject) -> ProviderKind:
    """Return which provider's form a request of `request` has: only one has the rubric apart."""
    return "anthropic" if "system" in request else "openai"


def read_answer(schema: JsonObject, answer: JsonObject) -> JsonObject | None:
    """Return what a judge answered, or None where that is not usable.

    `answer` is what `Judge.ask` recorded. Not usable is what failed on the way, is no message,
    was refused or cut short, is no JSON document alone, or does not fit `schema`.
    Nothing is repaired. Never raises, whatever the record holds.
    """
    body = answer.get("body")
    if answer.get("reason") is not None or not isinstance(body, str):
        return None
    try:
        text = _text_of(parse_object(body.encode("utf-8", "surrogatepass")))
        said = None if text is None else parse_object(text.encode("utf-8", "surrogatepass"))
    except ParseError:
        return None
    if said is None or _REGISTRY.validate_inline(schema, said):
        return None
    return said


def answered_by(answer: JsonObject) -> str | None:
    """Return the model that an answer names as its author."""
    body = answer.get("body")
    try:
        model = parse_object(body.encode()).get("model") if isinstance(body, str) else None
    except (ParseError, UnicodeEncodeError):
        return None
    return model if isinstance(model, str) else None


def _text_of(message: JsonObject) -> str | None:
    """Return the text of a message that was written to its end, in one block of text."""
    if "choices" in message:
        return _text_of_choice(message["choices"])
    content = message.get("content")
    if message.get("stop_reason") != "end_turn" or not isinstance(content, list):
        return None
    blocks = [block for block in content if isinstance(block, dict)]
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    if len(texts) != 1 or not isinstance(texts[0], str):
        return None
    return texts[0].strip()


def _text_of_choice(choices: object) -> str | None:
    """Return the text of the one choice, where it was written to its end and is no refusal."""
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    if not isinstance(choice, dict) or choice.get("finish_reason") != "stop":
        return None
    said = choice.get("message")
    if not isinstance(said, dict) or said.get("refusal") is not None:
        return None
    text = said.get("content")
    return text.strip() if isinstance(text, str) else None
