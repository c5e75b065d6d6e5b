"""Request headers: sent with each call, and recorded nowhere."""

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.theatre.oracles.http_asking import LOOPBACK, NOW, ask, saying
from tests.theatre.oracles.loopback import Received, Respond, honest, response, serving
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.construct_registry import RemoteConstruct
from theatre.oracles.errors import RequestHeadersError
from theatre.oracles.http import http_adapter_for
from theatre.oracles.wire_forms import RequestHeaders

TOKEN = "tok-5d5b8f2f7a11"  # noqa: S105 - the secret of this test
RequestFor = Callable[..., OracleInvocationRequest]


def with_token(name: str = "Authorization", scheme: str = "Bearer ") -> RequestHeaders:
    return RequestHeaders({name: scheme + TOKEN})


def test_request_headers_are_sent_and_recorded_nowhere(request_for: RequestFor) -> None:
    with serving(honest) as server:
        (attempt,) = ask(server, request_for(), headers=with_token())
        assert server.received[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert attempt.response.status is InvocationStatus.SUCCESS
    assert TOKEN not in repr((attempt, with_token()))


def echo_token_in(wrap: Callable[[str], bytes]) -> Respond:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(wrap(request.headers["authorization"]))

    return respond


def escaped(text: str) -> str:
    """Spell a text with JSON's escapes, which only a parser sees through."""
    return "".join(f"\\u{ord(character):04X}" for character in text)


ECHOES = {
    "an error page": (
        lambda value: response(f"<h1>{value}</h1>".encode(), status="500 Oops"),
        ("http-status", "expected status 200, got 500", "<h1>[redacted]</h1>"),
    ),
    "the token alone": (
        lambda value: response(f"no {value.split()[1]}!".encode(), status="403 Forbidden"),
        ("http-status", "expected status 200, got 403", "no [redacted]!"),
    ),
    "an answer": (
        lambda value: response(json.dumps({"status": "success", "you": value}).encode()),
        (
            "credential-echoed",
            "expected an answer without the value of a request header, got one with it",
            '{"status": "success", "you": "[redacted]"}',
        ),
    ),
    "an answer with escapes": (
        lambda value: response(json.dumps({"you": "@"}).replace("@", escaped(value)).encode()),
        (
            "credential-echoed",
            "expected an answer without the value of a request header, got one with it",
            '{"you": "[redacted]"}',
        ),
    ),
    "a redirect": (
        lambda value: response(b"", status="302 Found", headers=f"Location: /{value}\r\n"),
        ("redirect", "expected status 200, got 302 to /[redacted]", None),
    ),
}


@pytest.mark.parametrize(("wrap", "expected"), ECHOES.values(), ids=ECHOES.keys())
def test_a_request_header_that_comes_back_is_redacted(
    wrap: Callable[[str], bytes], expected: tuple[str, str, str | None], request_for: RequestFor
) -> None:
    with serving(echo_token_in(wrap)) as server:
        (attempt,) = ask(server, request_for(), headers=with_token())
    assert (attempt.reason, attempt.response.error_detail, attempt.raw) == expected


def test_a_registered_construct_is_called_with_headers_from_the_environment(
    request_for: RequestFor,
) -> None:
    with serving(honest) as server:
        construct = RemoteConstruct(
            construct_id="pilot", url=server.url, headers_env={"X-Api-Key": "PILOT_KEY"}
        )

        async def session() -> Attempt:
            adapter = http_adapter_for(
                construct,
                policy=LOOPBACK,
                environment={"PILOT_KEY": TOKEN},
                clock=lambda: NOW,
                monotonic=lambda: 0.0,
            )
            try:
                return await adapter.invoke(request_for())
            finally:
                await adapter.aclose()

        attempt = asyncio.run(session())
        assert attempt.response.output_data == {"echo": {"seq": 1}}
        assert server.received[0].headers["x-api-key"] == TOKEN


def test_a_header_without_its_variable_is_refused_by_name() -> None:
    construct = RemoteConstruct(
        construct_id="pilot", url="https://construct.example/", headers_env={"X-Key": "PILOT_KEY"}
    )
    with pytest.raises(RequestHeadersError, match=r"header X-Key in the .* variable PILOT_KEY"):
        http_adapter_for(
            construct, policy=LOOPBACK, environment={}, clock=lambda: NOW, monotonic=lambda: 0.0
        )


@pytest.mark.parametrize("variable", [f"Bearer {TOKEN}", TOKEN, "", "1ST", "A=B"])
def test_what_cannot_be_a_variable_may_be_a_value_and_is_not_repeated(variable: str) -> None:
    with pytest.raises(RequestHeadersError, match="variable for header X-Key, got") as caught:
        RequestHeaders.from_environment({"X-Key": variable}, {})
    assert str(caught.value) == (
        "expected the name of an environment variable for header X-Key, got something else: "
        "put the value into a variable and name that"
    )


SPELLINGS = {
    "as it is": '{"you": "a/b\\tok-5d5b"}',
    "slash escaped": r'{"you": "a\/b\\tok-5d5b"}',
    "all escaped": r'{"you": "\u0061\u002f\u0062\u005C\u0074\u006f\u006b-5d5b"}',
}


@pytest.mark.parametrize("sent", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_value_is_found_in_every_spelling_of_json(sent: str) -> None:
    headers = RequestHeaders({"X-Key": "a/b\\tok-5d5b"})
    assert headers.redacted(sent.encode()) == b'{"you": "[redacted]"}'


def test_what_holds_no_value_is_left_as_it_is_escapes_and_all() -> None:
    sent = rb'{"you": "\u0061\/b\\c", "raw": "\xff"}' + bytes(range(256))
    assert RequestHeaders({"X-Key": TOKEN}).redacted(sent) == sent
    assert RequestHeaders().redacted(sent) == sent


WRONG_HEADERS = {
    "no name": {"": TOKEN},
    "space in the name": {"X Key": TOKEN},
    "line break in the name": {"X\r\nY": TOKEN},
    "line break in the value": {"X": f"{TOKEN}\r\nHost: other"},
    "NUL in the value": {"X": f"{TOKEN}\0"},
    "not ASCII": {"X": f"{TOKEN}ö"},
    "empty value": {"X": ""},
    "space around the value": {"X": f" {TOKEN}"},
    "host": {"Host": TOKEN},
    "length": {"content-length": TOKEN},
    "encoding": {"Accept-Encoding": TOKEN},
    "idempotency key": {"idempotency-key": TOKEN},
    "proxy credentials": {"Proxy-Authorization": TOKEN},
    "twice": {"X-Key": TOKEN, "x-key": TOKEN},
}


@pytest.mark.parametrize("headers", WRONG_HEADERS.values(), ids=WRONG_HEADERS.keys())
def test_a_header_that_may_not_be_sent_is_refused_without_its_value(
    headers: dict[str, str],
) -> None:
    with pytest.raises(RequestHeadersError) as caught:
        RequestHeaders(headers)
    assert TOKEN not in str(caught.value)


def test_short_header_values_are_not_hunted_for(request_for: RequestFor) -> None:
    with serving(saying(output_data={"stage": "prod"})) as server:
        (attempt,) = ask(server, request_for(), headers=RequestHeaders({"X-Stage": "prod"}))
    assert attempt.response.output_data == {"stage": "prod"}
