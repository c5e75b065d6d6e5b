"""What constructs without a wrapper are asked, how they are read, and what stops them."""

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from yarl import URL

from tests.theatre.cli.plain_constructs import KEY, openai_server, tool_server
from tests.theatre.oracles.loopback import Received, Respond, response, serving
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.command import CommandSettings, ContainerAdapter, container_argv, find_runtime
from theatre.oracles.construct_registry import RemoteConstruct, construct_from_argv, source_of
from theatre.oracles.endpoints import Endpoint
from theatre.oracles.errors import ConstructUnreachableError, OutboundRefusedError
from theatre.oracles.guarded_client import GuardedTransport
from theatre.oracles.key_origins import PROVIDERS_ONLY
from theatre.oracles.mcp_tool import ToolAdapter
from theatre.oracles.models import read_message
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.oracles.plain_adapters import Surroundings, make_plain_adapter
from theatre.oracles.plain_call import AnswerForm, PromptError, fill, fill_text
from theatre.oracles.wire_forms import CallFailure, Postponed
from theatre.providers import ProviderKind, open_provider

RequestFor = Callable[..., OracleInvocationRequest]
AROUND = Surroundings(
    policy=lambda: OutboundPolicy(allow=("127.0.0.0/8",)),
    environment={"TEST_API_KEY": KEY},
    clock=lambda: datetime.now(UTC),
    monotonic=time.monotonic,
    keys=PROVIDERS_ONLY,
)
IMAGE = "registry.example/twice@sha256:" + "0" * 64


def test_a_prompt_is_filled_in_one_pass() -> None:
    value: JsonObject = {"text": "{{/secret}} {{}}", "secret": "x", "list": [{"a/b": 1.5}]}
    assert fill_text("say {{/text}}!", value) == "say {{/secret}} {{}}!"
    assert fill_text("{{/list/0/a~1b}} of {{/list}}", value) == '1.5 of [{"a/b":1.5}]'
    assert fill({"whole": "{{}}", "one": "{{/list/0/a~1b}}", "n": 1}, value) == {
        "whole": value,
        "one": 1.5,
        "n": 1,
    }
    for pointer in ("{{/none}}", "{{/list/1}}", "{{/list/-1}}", "{{/text/0}}"):
        with pytest.raises(PromptError, match="expected a value at"):
            fill_text(pointer, value)


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ({"from": "text"}, " so \n", {"answer": "so"}),
        ({"from": "text", "field": "label"}, "so", {"label": "so"}),
        ({"from": "json"}, '{"a": 1}', {"a": 1}),
        ({"from": "json"}, "[1]", {"answer": [1]}),
        ({"from": "json", "pointer": "/a"}, '{"a": {"b": 2}}', {"b": 2}),
        ({"from": "json", "pointer": "/a", "field": "f"}, '{"a": {"b": 2}}', {"f": {"b": 2}}),
        ({"from": "json", "pointer": "/b"}, '{"a": 1}', "answer-not-found"),
        ({"from": "json"}, "a: 1", "not-json"),
        ({"from": "json"}, '{"a": NaN}', "non-finite"),
        ({"from": "json"}, '"\ud800"', "not-utf8"),
        ({"from": "json"}, '{"a": 1, "a": 2}', "duplicate-key"),
        ({"from": "regex", "regex": r"is (\w+)"}, "it is so", {"answer": "so"}),
        ({"from": "regex", "regex": r"\d+"}, "7 or 8", {"answer": "7"}),
        ({"from": "regex", "regex": r"\d+"}, "none", "answer-not-found"),
        ({"from": "regex", "regex": r"is (\w+)|none"}, "none", "answer-not-found"),
        ({"from": "regex", "regex": r"is (\w*)"}, "it is ", {"answer": ""}),
    ],
)
def test_an_answer_is_read_as_the_template_says(form: Any, text: str, expected: object) -> None:  # noqa: ANN401 - as written
    found = AnswerForm.model_validate(form).read(text)
    assert (found.reason if isinstance(found, CallFailure) else found) == expected


def asked(
    kind: str,
    place: str,
    settings: JsonObject,
    request_for: RequestFor,
    folder: Path = Path(),
    *,
    version: str | None = None,
) -> Attempt:
    """Return what one call comes to."""
    endpoint = Endpoint(construct_id="doubler", adapter_type=kind, place=place, settings=settings)
    construct = (
        construct_from_argv("doubler", place, folder)
        if kind == "command"
        else RemoteConstruct(construct_id="doubler", url=place)
    )

    async def session() -> Attempt:
        adapter = make_plain_adapter(endpoint, construct, AROUND)
        try:
            pinned = version or adapter.computed_version
            return await adapter.invoke(request_for(input_data={"number": 4}, version=pinned))
        finally:
            await adapter.aclose()

    return asyncio.run(session())


MODEL: JsonObject = {"model": "small-1", "prompt": "{{/number}}", "key_env": "TEST_API_KEY"}


def answering(body: object, status: str = "200 OK", headers: str = "") -> Respond:
    async def respond(_: Received, writer: asyncio.StreamWriter) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        writer.write(response(raw, status=status, headers=headers))

    return respond


def said(content: object, ended: object = "stop", **more: object) -> JsonObject:
    message = {"role": "assistant", "content": content, **more}
    return {"choices": [{"message": message, "finish_reason": ended}]}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("respond", "status", "reason"),
    [
        (answering(said("8")), "success", None),
        (answering(said(None, refusal="I may not")), "refused", None),
        (answering(said("8", refusal="")), "success", None),
        (answering(said("no", "content_filter")), "refused", None),
        (answering(said("8", "length")), "error", "cut-short"),
        (answering(said("8", "error")), "error", "server-error"),
        (answering(said("8", {"a": "word"})), "success", None),
        (answering(said([{"type": "text", "text": "8"}])), "success", None),
        (answering({**said("8"), "seed": 2**63}), "success", None),
        (answering(said("the name is [redacted]")), "success", None),
        (answering(said(None)), "error", "not-a-message"),
        (answering(said(None, tool_calls=[])), "error", "not-a-message"),
        (answering(b"[1]"), "error", "not-a-message"),
        (answering(b"[" * 100_000), "error", "not-json"),
        (answering(b"<html>"), "error", "not-json"),
        (answering(said(f"your key is {KEY}")), "error", "credential-echoed"),
        (answering({"error": KEY}, "401 Unauthorized"), "error", "key-refused"),
        (answering({}, "404 Not Found"), "error", "unknown-model"),
        (answering({}, "429 Too Many Requests"), "error", "rate-limited"),
        (answering({}, "500 Oops"), "error", "server-error"),
        (answering({}, "302 Found", "Location: http://127.0.0.1:1/\r\n"), "error",
         "refused-request"),
        (answering(b"x" * 2_000_000), "error", "unreachable"),
        (answering(said("8"), headers="Content-Encoding: gzip\r\n"), "error", "unreachable"),
    ],
)  # fmt: skip
def test_whatever_a_provider_does_is_an_attempt_without_the_key(
    respond: Respond, status: str, reason: str | None, request_for: RequestFor
) -> None:
    with serving(respond) as one:
        attempt = asked("openai", f"http://127.0.0.1:{one.port}/v1", MODEL, request_for)
        # The SDK's own retries are off: each attempt is recorded.
        assert len(one.received) == 1
    assert (attempt.response.status.value, attempt.reason) == (status, reason)
    assert KEY not in json.dumps(attempt.as_document())


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Overloaded", "529 Overloaded"])
def test_a_provider_says_when_to_ask_again(kind: str, status: str, request_for: RequestFor) -> None:
    with serving(answering({}, status, headers="Retry-After: 7\r\n")) as one:
        attempt = asked(kind, f"http://127.0.0.1:{one.port}/v1", MODEL, request_for)
    assert isinstance(attempt, Postponed)
    assert attempt.wait == 7
    assert attempt.as_document().keys() == {"response", "reason", "raw", "stderr"}


CALLS: JsonValue = [{"type": "tool_use", "name": "double"}]


@pytest.mark.parametrize(
    ("kind", "message", "text"),
    [
        ("openai", said("", "tool_calls", tool_calls=CALLS), json.dumps(CALLS, sort_keys=True)),
        ("openai", said("8", "tool_calls", tool_calls=CALLS), "8"),
        ("anthropic", {"content": CALLS}, json.dumps(CALLS, sort_keys=True)),
        ("anthropic", {"content": [{"type": "text", "text": "8"}]}, "8"),
        ("anthropic", {"content": [{"type": "text", "text": None}]}, "not-a-message"),
        (
            "anthropic",
            {
                "content": [{"type": "text", "text": "8"}],
                "stop_reason": "model_context_window_exceeded",
            },
            "cut-short",
        ),
    ],
)
def test_what_a_model_said_is_its_words_or_the_calls_that_it_would_make(
    kind: ProviderKind, message: JsonObject, text: str
) -> None:
    found = read_message(kind, json.dumps(message))
    assert (found.reason if isinstance(found, CallFailure) else found.text) == text


class _NoteSeconds(httpx2.AsyncBaseTransport):
    """Keeps how long the client would wait for the answer, and sends nothing."""

    def __init__(self) -> None:
        self.waits: list[object] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.waits.append(request.extensions["timeout"]["read"])
        return httpx2.Response(200, json=said("8"))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_model_may_think_as_long_as_the_template_allows(kind: ProviderKind) -> None:
    async def waits() -> list[object]:
        transport = _NoteSeconds()
        async with open_provider(
            kind, "http://127.0.0.1:9", key=None, max_bytes=999, transport=transport
        ) as client:
            await client.find_model("small-1")
            await client.call({}, seconds=3600)
        return transport.waits

    assert asyncio.run(waits()) == [180, 3600]


OPENAI_TOKENS = {"prompt_tokens": 9, "completion_tokens": 4}
ANTHROPIC_TOKENS = {"input_tokens": 9, "output_tokens": 4, "cache_creation_input_tokens": None}
CACHED_TOKENS = {**ANTHROPIC_TOKENS, "cache_creation_input_tokens": 200}
TOO_MANY = {"cache_read_input_tokens": 10**9 - 1}


@pytest.mark.parametrize(
    ("kind", "message", "usage"),
    [
        ("openai", said("8"), OPENAI_TOKENS),
        ("openai", said("8", "length"), OPENAI_TOKENS),
        ("openai", said(None), OPENAI_TOKENS),
        ("anthropic", {"stop_reason": "max_tokens", "content": []}, ANTHROPIC_TOKENS),
        ("anthropic", {"content": []}, CACHED_TOKENS | {"cache_read_input_tokens": 1000}),
    ],
)
def test_tokens_count_whatever_becomes_of_the_answer(
    kind: ProviderKind, message: JsonObject, usage: JsonObject
) -> None:
    found = read_message(kind, json.dumps({**message, "usage": usage}))
    is_cached = "cache_read_input_tokens" in usage
    assert found.usage == {"input_tokens": 1209 if is_cached else 9, "output_tokens": 4}


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 2}, {**CACHED_TOKENS, **TOO_MANY}])
def test_what_no_server_counts_is_not_guessed(usage: JsonObject | None) -> None:
    found = read_message("anthropic", json.dumps({"content": [], "usage": usage}))
    assert found.usage is None


@pytest.mark.parametrize(
    ("kind", "key_header"), [("openai", "authorization"), ("anthropic", "x-api-key")]
)
def test_headers_that_an_sdk_finds_in_the_environment_are_not_sent(
    kind: ProviderKind, key_header: str, request_for: RequestFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(variable, f"X-Gateway: of-another-place\n{key_header}: another")
    for variable in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(variable, "of-another-place")
    with serving(answering(said("8"))) as one:
        asked(kind, f"http://127.0.0.1:{one.port}", MODEL, request_for)
    (received,) = one.received
    assert received.headers[key_header] in {KEY, f"Bearer {KEY}"}
    assert {"of-another-place", "Bearer none"}.isdisjoint(received.headers.values())


def test_a_model_is_looked_up_by_its_whole_name() -> None:
    async def look_up(port: int) -> None:
        async with open_provider(
            "openai", f"http://127.0.0.1:{port}/v1", key=None, max_bytes=9
        ) as client:
            await client.find_model("meta/Llama 3.1?x#y:free")

    with serving(openai_server()) as one:
        asyncio.run(look_up(one.port))
    line = one.received[0].line
    assert line.split(" ")[1] == "/v1/models/meta/Llama%203.1%3Fx%23y:free"


def test_a_session_that_ended_is_opened_anew(request_for: RequestFor) -> None:
    async def session() -> list[str | None]:
        with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
            url = first.enter_context(tool_server())
            listed = await tool_adapter(url, "0" * 64).tools()
            adapter = tool_adapter(url, listed["double"])
            request = request_for(input_data={"number": 4}, version=adapter.computed_version)
            attempts = [await adapter.invoke(request)]
            # In a thread: the server waits for the end of the session, which this loop has.
            await asyncio.to_thread(first.close)
            attempts.append(await adapter.invoke(request))
            second.enter_context(tool_server(URL(url).port or 0))
            attempts.append(await adapter.invoke(request))
            await adapter.aclose()
            await asyncio.to_thread(second.close)
        return [attempt.reason for attempt in attempts]

    assert asyncio.run(session()) == [None, "unreachable", None]


def tool_adapter(url: str, digest: str, tool: str = "double") -> ToolAdapter:
    settings: JsonObject = {"tool": tool, "tool_sha256": digest}
    endpoint = Endpoint(construct_id="doubler", adapter_type="mcp", place=url, settings=settings)
    construct = RemoteConstruct(construct_id="doubler", url=url)
    adapter = make_plain_adapter(endpoint, construct, AROUND)
    assert isinstance(adapter, ToolAdapter)
    return adapter


def test_a_tool_behind_http_may_answer_as_much_as_any_construct(request_for: RequestFor) -> None:
    """It comes twice, as text and as what is structured: with one event of more than the limit."""

    async def session(url: str) -> list[str | None]:
        listed = await tool_adapter(url, "0" * 64).tools()
        async with contextlib.aclosing(tool_adapter(url, listed["speak"], "speak")) as adapter:
            version = adapter.computed_version
            return [
                (
                    await adapter.invoke(request_for(input_data={"number": n}, version=version))
                ).reason
                for n in (1_000_000, 1_100_000)
            ]

    with tool_server() as url:
        assert asyncio.run(session(url)) == [None, "too-large"]


RAW_TOOL = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, given = asked["method"], asked.get("params") or {}
    result = {
        "initialize": {
            "protocolVersion": given.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
    }.get(method)
    if method == "tools/call":
        number = given["arguments"]["number"]
        if number == 5:
            sys.exit("no fives")
        said = "8" * (9 << 20) if number == 9 else "8"
        result = {"content": [{"type": "text", "text": said}]}
    print("heard", file=sys.stderr, flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def test_a_server_on_stdio_that_ends_or_says_too_much_says_so_at_once(
    tmp_path: Path, request_for: RequestFor
) -> None:
    (tmp_path / "raw.py").write_text(RAW_TOOL, encoding="utf-8")
    place = json.dumps(["{python}", "raw.py"])
    listed = {"name": "say", "inputSchema": {"type": "object"}}
    settings: JsonObject = {"tool": "say", "tool_sha256": canonical_sha256(listed)}
    endpoint = Endpoint(construct_id="doubler", adapter_type="mcp", place=place, settings=settings)

    async def attempts() -> list[Attempt]:
        construct = construct_from_argv("doubler", place, tmp_path)
        adapter = make_plain_adapter(endpoint, construct, AROUND)
        version = adapter.computed_version
        try:
            return [
                await adapter.invoke(request_for(input_data={"number": one}, version=version))
                for one in (4, 9, 5, 4)
            ]
        finally:
            await adapter.aclose()

    before, too_much, ended, after = asyncio.run(attempts())
    assert [before.reason, too_much.reason, ended.reason, after.reason] == [
        *(None, "unreachable", "unreachable", None)
    ]
    assert "it printed: a line of more than 8388608 bytes" in str(too_much.response.error_detail)
    assert "it printed: no fives" in str(ended.response.error_detail)


def test_a_request_for_another_version_is_not_sent(request_for: RequestFor) -> None:
    with serving(openai_server()) as one:
        attempt = asked(
            "openai", f"http://127.0.0.1:{one.port}/v1", MODEL, request_for, version="0" * 64
        )
        assert one.received == []
    assert (attempt.response.status.value, attempt.reason) == ("error", "version-mismatch")


def test_an_address_that_is_not_allowed_is_not_connected(request_for: RequestFor) -> None:
    # Without a key, which would have been refused before.
    model = {name: value for name, value in MODEL.items() if name != "key_env"}
    with pytest.raises(OutboundRefusedError):
        asked("openai", "http://169.254.169.254/v1", model, request_for)
    with serving(openai_server()) as one:
        # The name is judged by what it resolves to, when it is connected.
        attempt = asked("openai", f"http://localhost.invalid:{one.port}/v1", model, request_for)
    assert attempt.reason == "unreachable"
    assert one.received == []


def test_a_name_is_judged_by_the_address_that_is_connected() -> None:
    async def inside(_: str, __: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    async def ask() -> None:
        transport = GuardedTransport(OutboundPolicy(), max_bytes=9, lookup=inside)
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            await client.get("http://model.example/v1")

    with pytest.raises(httpx2.ConnectError, match="expected a public address for model"):
        asyncio.run(ask())


def test_a_request_that_a_strict_server_refuses_is_no_answer(request_for: RequestFor) -> None:
    settings: JsonObject = {**MODEL, "parameters": {"temprature": 0}}
    with serving(openai_server()) as one:
        attempt = asked("openai", f"http://127.0.0.1:{one.port}/v1", settings, request_for)
    assert attempt.reason == "refused-request"
    assert "temprature" in (attempt.response.error_detail or "")


COMMANDS: dict[str, tuple[str, str, str | None]] = {
    "stdin": ("import sys; print(2 * int(sys.stdin.read()))", "stdin", None),
    "file": ("import sys; print(2 * int(open(sys.argv[1]).read()))", "file", None),
    "argument": ("import sys; print(2 * int(sys.argv[1]))", "argument", None),
    "byte order mark": ("import sys; sys.stdout.buffer.write(b'\\xef\\xbb\\xbf8')", "stdin", None),
    "exit code": ("import sys; sys.exit('no numbers today')", "stdin", "exit-code"),
    "no Unicode": ("import sys; sys.stdout.buffer.write(bytes([255]))", "stdin", "not-utf-8"),
    "too much": ("print('x' * 2_000_000)", "stdin", "too-large"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_program_is_asked_as_the_template_says(
    case: str, tmp_path: Path, request_for: RequestFor
) -> None:
    source, way, reason = COMMANDS[case]
    (tmp_path / "twice.py").write_text(source, encoding="utf-8")
    words = ["{python}", "twice.py", *(["{input}"] if way != "stdin" else [])]
    settings: JsonObject = {"prompt": "{{/number}}", "input": way}
    attempt = asked("command", json.dumps(words), settings, request_for, tmp_path)
    assert attempt.reason == reason, attempt
    assert attempt.response.output_data == (None if reason else {"answer": "8"})
    if case == "exit code":
        assert "exit code 1; stderr: no numbers today" in (attempt.response.error_detail or "")


def test_a_file_that_a_command_names_makes_its_version(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text("print(1)", encoding="utf-8")
    place = json.dumps(["{python}", "twice.py"])
    program = source_of(construct_from_argv("doubler", place, tmp_path)).version()

    def version(settings: JsonObject) -> str | None:
        endpoint = Endpoint(
            construct_id="doubler", adapter_type="command", place=place, settings=settings
        )
        construct = construct_from_argv("doubler", place, tmp_path)
        return make_plain_adapter(endpoint, construct, AROUND).computed_version

    first = version({"prompt": "a"})
    assert len({program, first, version({"prompt": "b"})}) == 3
    (tmp_path / "twice.py").write_text("print(2)", encoding="utf-8")
    assert version({"prompt": "a"}) != first


def test_a_container_has_no_network_and_nothing_to_write_to() -> None:
    settings = CommandSettings(input="file", argv=("twice", "{input}"))
    argv = container_argv(
        "/usr/bin/podman", IMAGE, settings, name="echelon-1", mounted=Path("/srv/x/input")
    )
    assert argv == [
        *("/usr/bin/podman", "run", "--rm", "--interactive", "--name", "echelon-1"),
        *("--pull", "never", "--network", "none", "--read-only", "--tmpfs", "/tmp"),  # noqa: S108
        *("--log-driver", "none"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *("--memory", "2048m", "--pids-limit", "256", "--stop-timeout", "0"),
        *("--volume", "/srv/x/input:/echelon/input:ro", IMAGE, "twice", "/echelon/input"),
    ]


def test_without_podman_and_docker_one_message_says_so() -> None:
    with pytest.raises(ConstructUnreachableError, match="expected podman or docker on PATH"):
        find_runtime(lambda _: None)
    assert find_runtime(lambda name: f"/bin/{name}" if name == "docker" else None) == "/bin/docker"


def _container() -> ContainerAdapter:
    return ContainerAdapter(
        IMAGE, CommandSettings(), version="0" * 64, clock=AROUND.clock, monotonic=AROUND.monotonic
    )


def test_what_a_container_could_reach_is_not_known() -> None:
    assert not asyncio.run(_container().probe_isolation([])).holds


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo Cannot connect >&2; exit 1", "expected a daemon that answers .*Cannot connect.*;"),
        ('echo No such image >&2; test "$1" = version', "expected the image .*; docker pull"),
    ],
)
def test_a_runtime_without_its_daemon_is_another_fault_than_an_image_that_is_not_here(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConstructUnreachableError, match=said):
        asyncio.run(_container().check_reachable())


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker client here")
def test_a_docker_client_without_a_daemon_says_what_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").symlink_to(str(shutil.which("docker")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(ConstructUnreachableError, match=r"expected a daemon .*DOCKER_HOST"):
        asyncio.run(_container().check_reachable())
