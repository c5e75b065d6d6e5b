"""Bodies: how large, by when, and of which kind, before anything is made of them."""

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from backend.api.http.middleware import MAX_DATASET_BYTES
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for

LIMIT = 4096
SECONDS = 0.3
DRIPPING = 200
PATH = "/api/v1/keys"


@pytest.fixture(scope="module")
def ada(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    settings = settings_for(
        module_database,
        tmp_path_factory.mktemp("home"),
        worker_in_api=False,
        max_body_bytes=LIMIT,
        body_seconds=SECONDS,
    )
    with served(create_app(settings)) as client:
        yield client.registered("ada")


def key_request(size: int) -> bytes:
    """Return a good body of exactly `size` bytes."""
    document = {"name": "a key", "scopes": ["read"], "expires_in_days": 1}
    body = json.dumps(document).encode()
    return body + b" " * (size - len(body))


@contextlib.contextmanager
def begun(client: Client, *headers: str) -> Iterator[socket.socket]:
    """Send the head of a POST, and leave the body to the test."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        lines = [
            f"POST {PATH} HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            *(f"{name}: {value}" for name, value in client.headers.items()),
            *headers,
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        yield connection


def whole(connection: socket.socket) -> Reply:
    """Read until the other side closes the connection."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    pairs = (header.split(": ", 1) for header in headers)
    return Reply(
        status=int(status.split()[1]),
        headers={name.lower(): value for name, value in pairs},
        body=body,
    )


def test_a_body_of_exactly_the_limit_is_read(ada: Client) -> None:
    assert ada.post(PATH, key_request(LIMIT)).status == 201


def test_a_body_that_is_announced_as_too_large_is_refused_unread(ada: Client) -> None:
    with begun(ada, f"Content-Length: {LIMIT + 1}") as connection:
        reply = whole(connection)
    assert (reply.status, reply.slug) == (413, "content-too-large")
    assert reply.document["detail"] == f"expected at most {LIMIT} bytes, got more"
    assert reply.headers["connection"] == "close"


def test_a_dataset_may_be_larger_and_has_a_limit_too(ada: Client) -> None:
    lines = {**ada.headers, "Content-Type": "application/x-ndjson"}
    sender = Client(ada.port, lines)
    assert sender.ask("POST", "/datasets", body=b"{}\n" * LIMIT).status == 201
    announced = {"Content-Length": str(MAX_DATASET_BYTES + 1)}
    refused = sender.ask("POST", "/datasets", body=b"", headers=announced)
    assert (refused.status, refused.slug) == (413, "content-too-large")


def test_a_body_that_grows_too_large_is_refused(ada: Client) -> None:
    with begun(ada, "Transfer-Encoding: chunked") as connection:
        for _ in range(LIMIT // 1024 + 1):
            connection.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        reply = whole(connection)
    assert (reply.status, reply.slug) == (413, "content-too-large")


def test_a_body_that_comes_too_slowly_is_refused(ada: Client) -> None:
    with begun(ada, "Content-Length: 100") as connection:
        connection.sendall(b"{")
        reply = whole(connection)
    assert (reply.status, reply.slug) == (408, "request-timeout")
    assert (
        reply.document["detail"] == f"expected the whole body within {SECONDS} s, got a part of it"
    )
    assert reply.headers["connection"] == "close"


def test_a_body_that_keeps_coming_is_refused_all_the_same(ada: Client) -> None:
    with begun(ada, "Transfer-Encoding: chunked") as connection:
        connection.settimeout(0.02)
        received = b""
        while not received:
            connection.sendall(b"1\r\n \r\n")
            with contextlib.suppress(TimeoutError):
                received = connection.recv(65536)
    assert received.startswith(b"HTTP/1.1 408")


def test_many_bodies_that_drip_keep_nobody_waiting(ada: Client) -> None:
    with contextlib.ExitStack() as stack:
        drips = [stack.enter_context(begun(ada, "Content-Length: 100")) for _ in range(DRIPPING)]
        for connection in drips:
            connection.sendall(b"{")
        assert ada.get("/livez").document == {"status": "alive"}
        assert {whole(connection).status for connection in drips} == {408}


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonl", ""]
)
def test_another_kind_of_body_is_refused(ada: Client, media_type: str) -> None:
    reply = ada.post(PATH, key_request(200), headers={"Content-Type": media_type})
    assert (reply.status, reply.slug) == (415, "unsupported-media-type")


def test_parameters_of_the_media_type_and_its_case_do_not_matter(ada: Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert ada.post(PATH, key_request(200), headers=headers).status == 201


@pytest.mark.parametrize("query", ["?x=1", "?username=ada", "?%00=", "?a=1&a=2"])
def test_parameters_that_a_route_does_not_have_are_refused(ada: Client, query: str) -> None:
    reply = ada.get(PATH + query)
    assert (reply.status, reply.slug) == (422, "validation-error")
    assert reply.document["errors"][0]["rule"] == "unknown-parameter"


@pytest.mark.parametrize(
    "form",
    [
        b"",
        b"grant_type=password",
        b"username=a&username=b&password=c",
        b"%zz",
        b"\xff=1",
        b"a=1&" * 30,
    ],
)
def test_a_form_that_is_none_is_refused(ada: Client, form: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = ada.ask("POST", "/auth/token", body=form, headers=headers)
    assert (reply.status, reply.slug) == (422, "validation-error")
