"""Constructs without a wrapper for tests: a model's server, a tool's server, a program."""

import asyncio
import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from jsonschema import Draft202012Validator

from tests.theatre.oracles.loopback import Received, Respond, response

KEY = "sk-planted-0123456789abcdef"

# What the providers publish of their request bodies, closed: an unknown member is refused, as
# theirs do. OpenAI: POST /v1/chat/completions. Anthropic: POST /v1/messages.
_TEXT = {"type": "string", "minLength": 1}
OPENAI_BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "messages"],
    "properties": {
        "model": _TEXT,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["role", "content"],
                "properties": {"role": {"enum": ["system", "user"]}, "content": _TEXT},
            },
        },
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "top_p": {"type": "number", "minimum": 0, "maximum": 1},
        "max_tokens": {"type": "integer", "minimum": 1},
        "seed": {"type": "integer"},
    },
}
ANTHROPIC_BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "max_tokens", "messages"],
    "properties": {
        "model": _TEXT,
        "max_tokens": {"type": "integer", "minimum": 1},
        "system": _TEXT,
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["role", "content"],
                "properties": {"role": {"enum": ["user", "assistant"]}, "content": _TEXT},
            },
        },
    },
}

Say = Callable[[str], str]


def double(asked: str) -> str:
    """Answer as a model that can double."""
    number = re.search(r"-?\d+", asked)
    assert number is not None
    return json.dumps({"result": 2 * int(number[0])})


def openai_server(
    say: Say = double, *, key: str | None = KEY, model: str = "small-1", counts: bool = True
) -> Respond:
    """Return a server of chat completions that refuses what its schema does not allow."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        method, path, _ = request.line.split(" ", 2)
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            sent = request.headers.get("authorization")
            writer.write(_error("401 Unauthorized", f"Incorrect API key provided: {sent}"))
        elif method == "GET" and path == "/v1/models":
            listed: Any = {"object": "list", "data": [{"id": model, "object": "model"}]}
            writer.write(_json(listed))
        elif method == "GET" and path == f"/v1/models/{model}":
            writer.write(_json({"id": model, "object": "model"}))
        elif method != "POST" or path != "/v1/chat/completions":
            writer.write(_error("404 Not Found", f"no such path: {path}"))
        else:
            writer.write(_answered(request, OPENAI_BODY, completion))

    def completion(body: Any) -> Any:  # noqa: ANN401 - any JSON
        said = say(body["messages"][-1]["content"])
        message = {"role": "assistant", "content": said, "refusal": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
            if counts
            else None,
        }

    return respond


def anthropic_server(say: Say = double, *, model: str = "small-1") -> Respond:
    """Return a server of Messages that refuses what its schema does not allow."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        method, path, _ = request.line.split(" ", 2)
        if request.headers.get("x-api-key") != KEY or not request.headers.get("anthropic-version"):
            writer.write(_error("401 Unauthorized", "invalid x-api-key"))
        elif method == "GET" and path == f"/v1/models/{model}":
            writer.write(_json({"type": "model", "id": model}))
        elif method != "POST" or path != "/v1/messages":
            writer.write(_error("404 Not Found", f"no such path: {path}"))
        else:
            writer.write(_answered(request, ANTHROPIC_BODY, message))

    def message(body: Any) -> Any:  # noqa: ANN401 - any JSON
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": say(body["messages"][-1]["content"])}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 5},
        }

    return respond


def _answered(request: Received, schema: Any, reply: Callable[[Any], Any]) -> bytes:  # noqa: ANN401 - any JSON
    body = json.loads(request.body)
    for fault in Draft202012Validator(schema).iter_errors(body):
        return _error("400 Bad Request", fault.message)
    return _json(reply(body))


def _json(document: Any) -> bytes:  # noqa: ANN401 - any JSON
    return response(json.dumps(document).encode())


def _error(status: str, message: str) -> bytes:
    body = {"error": {"type": "invalid_request_error", "message": message, "code": None}}
    return response(json.dumps(body).encode(), status=status)


TOOL_SERVER = '''
"""An MCP server of the official SDK, on stdio or streamable HTTP."""
import sys
from mcp.server import MCPServer

server = MCPServer("numbers")

@server.tool()
def double(number: int) -> dict[str, int]:
    """Return twice the number."""
    print("asked", file=sys.stderr)
    return {"result": 2 * number}

@server.tool()
def speak(number: int) -> str:
    """Return as many letters."""
    return "x" * number

@server.tool()
def fail(number: int) -> str:
    """Fail."""
    raise ValueError("no such number")

if __name__ == "__main__":
    server.run("stdio")
'''

DOUBLER = """
import sys
asked = sys.stdin.read() if len(sys.argv) == 1 else sys.argv[1]
asked = open(asked).read() if asked.startswith("/") else asked
number = int(asked)
if number < 0:
    sys.exit("no negative numbers")
print('{"twice": %d}' % (2 * number))
"""


@contextlib.contextmanager
def tool_server(port: int = 0) -> Iterator[str]:
    """Serve the same tools by streamable HTTP, in a thread; yield the URL."""
    module: dict[str, Any] = {"__name__": "tool_server"}
    exec(TOOL_SERVER, module)  # noqa: S102 - the module above
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        module["server"].streamable_http_app(),
        log_level="critical",
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
