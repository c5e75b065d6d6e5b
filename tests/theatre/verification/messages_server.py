"""A server that speaks Messages or chat completions, with judges by rule and with bad days."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.theatre.oracles.loopback import Received, response

Verdicts = Callable[[dict[str, Any]], dict[str, Any]]
"""From the data of a request to the answer of a judge."""

KEY = "sk-test-0b1e2c3d-nobody-may-find-this"
PATHS = {"anthropic": "/v1/messages", "openai": "/chat/completions"}


class MessagesService:
    """Answers as a judge of `provider` would; its requests are kept as documents.

    `bad_days` says which request, from 0, is met how; `always` how every one is.
    """

    def __init__(
        self,
        judge: Verdicts,
        *,
        bad_days: Mapping[int, str] | None = None,
        always: str | None = None,
        takes_temperature: bool = True,
        elsewhere: str = "",
        provider: str = "anthropic",
        by_model: Mapping[str, Verdicts] | None = None,
    ) -> None:
        self.provider = provider
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self._judge = judge
        self._by_model = by_model or {}
        self._bad_days = bad_days or {}
        self._always = always
        self._takes_temperature = takes_temperature
        self._elsewhere = elsewhere

    async def respond(self, request: Received, writer: asyncio.StreamWriter) -> None:
        assert request.line.split(" ")[:2] == ["POST", PATHS[self.provider]]
        body = request.envelope
        _require_form(self.provider, body)
        self.requests.append(body)
        self.keys.add(_key_of(request))
        bad = self._bad_days.get(len(self.requests) - 1, self._always)
        if bad == "silent":
            await asyncio.Event().wait()
        if bad == "reset":
            writer.transport.abort()
            return
        writer.write(self._answer(request, body, bad))
        if bad == "cut body":
            writer.close()

    def _answer(self, request: Received, body: dict[str, Any], bad: str | None) -> bytes:
        if bad is None and "temperature" in body and not self._takes_temperature:
            return _error("400 Bad Request", "temperature: not supported by this model")
        model = body["model"]
        judge = self._by_model.get(model, self._judge)
        said = json.dumps(judge(json.loads(body["messages"][-1]["content"])))
        message = MESSAGES[self.provider]
        whole = message(model, said)
        answers = {
            None: whole,
            "429": _error("429 Too Many Requests", "slow down", headers="Retry-After: 3\r\n"),
            "429 for an hour": _error(
                "429 Too Many Requests", "later", headers="Retry-After: 3600\r\n"
            ),
            "malformed": message(model, said[:-1]),
            "talkative": message(model, f"Here it is: {said}"),
            "another shape": message(model, '{"score": 1.0}'),
            "refusal": message(model, said, stop_reason=REFUSED[self.provider]),
            "max_tokens": message(model, said, stop_reason=CUT[self.provider]),
            "no message": response(b"<html>It works!</html>"),
            "cut body": whole[: len(whole) // 2],
            "huge": message(model, " " * 300_000),
            "echo": _error("400 Bad Request", f"your key is {_key_of(request)}"),
            "elsewhere": response(
                b"", status="307 Temporary Redirect", headers=f"Location: {self._elsewhere}\r\n"
            ),
        }
        return answers[bad] if bad in answers else _error(str(bad), "a bad day")


def message(model: str, text: str, *, stop_reason: str = "end_turn") -> bytes:
    """Return a response that says `text`."""
    document = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    return response(json.dumps(document).encode(), headers="Content-Type: application/json\r\n")


def completion(model: str, text: str, *, stop_reason: str = "stop") -> bytes:
    """Return a chat completion that says `text`, or refuses with it."""
    is_refused = stop_reason == "refusal"
    said = {"content": None if is_refused else text, "refusal": text if is_refused else None}
    document = {
        "id": "chatcmpl-01",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **said},
                "finish_reason": "stop" if is_refused else stop_reason,
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    return response(json.dumps(document).encode(), headers="Content-Type: application/json\r\n")


MESSAGES = {"anthropic": message, "openai": completion}
REFUSED = {"anthropic": "refusal", "openai": "refusal"}
CUT = {"anthropic": "max_tokens", "openai": "length"}


def _require_form(provider: str, body: dict[str, Any]) -> None:
    """Refuse what the provider's interface would: rubric, question and schema in their places."""
    roles = [one["role"] for one in body["messages"]]
    if provider == "openai":
        form = body["response_format"]["json_schema"]
        assert (body["response_format"]["type"], form["strict"]) == ("json_schema", True)
        assert (roles, "system" in body, form["schema"]["type"]) == (
            ["system", "user"],
            False,
            "object",
        )
        return
    form = body["output_config"]["format"]
    assert (roles, form["type"], bool(body["system"])) == (["user"], "json_schema", True)


def _key_of(request: Received) -> str:
    return request.headers["authorization"].removeprefix("Bearer ")


def _error(status: str, text: str, *, headers: str = "") -> bytes:
    document = {"type": "error", "error": {"type": "api_error", "message": text}}
    return response(json.dumps(document).encode(), status=status, headers=headers)


def reading(data: dict[str, Any]) -> dict[str, Any]:
    """Judge by whether the words are there: what is said is true if its names are in the diff."""
    if "claims" in data:
        return {
            "verdicts": [
                {
                    "claim": item["claim"],
                    "verdict": "supported"
                    if _all_words_in(item["text"], data["diff"] + json.dumps(data["files"]))
                    else "not_shown",
                }
                for item in data["claims"]
            ]
        }
    if "summary" in data:
        return {
            "verdicts": [
                {"change": item["change"], "surfaced": _all_words_in(item["text"], data["summary"])}
                for item in data["changes"]
            ]
        }
    if "reply" in data:
        expected = data["expected"]
        wanted = [str(expected["number"])] if "number" in expected else expected["names"]
        return {"verdict": "right" if all(one in data["reply"] for one in wanted) else "wrong"}
    return {"changes": [f"Changes {file['path']}" for file in data["files"]]}


def obedient(data: dict[str, Any]) -> dict[str, Any]:
    """Judge as the text asks for: all is well where it says so, and nothing where it does not."""
    text = json.dumps([data.get(name) for name in ("claims", "summary", "reply")])
    is_asked = "score 1.0" in text
    if "claims" in data:
        verdict = "supported" if is_asked else "not_shown"
        return {
            "verdicts": [{"claim": item["claim"], "verdict": verdict} for item in data["claims"]]
        }
    if "summary" in data:
        return {
            "verdicts": [
                {"change": item["change"], "surfaced": is_asked} for item in data["changes"]
            ]
        }
    if "reply" in data:
        return {"verdict": "right" if is_asked else "wrong"}
    return reading(data)


def _all_words_in(text: str, place: str) -> bool:
    words = re.findall(r"[A-Za-z0-9_./]*[A-Za-z0-9_]", text)
    names = [word for word in words if re.search(r"[._/0-9]", word)]
    return bool(names) and all(name in place for name in names)
