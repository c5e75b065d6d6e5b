"""The kit over HTTP, as a real process: routes, limits, threads, repeats, and how it ends."""

import os
import signal
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.theatre.construct_kit.kit_process import (
    PATIENCE_SECONDS,
    VERSION,
    Service,
    WriteModule,
    answer,
    encoded,
    http_service,
    kit,
    question,
    read_reply,
)

ECHO = """
from theatre.construct_kit import Refusal, construct

@construct(id="pilot")
def answer(input_data):
    if input_data["seq"] == 2:
        raise Refusal("not the second")
    if input_data["seq"] == 3:
        raise ValueError("not the third")
    return {"echo": input_data}
"""

TOGETHER = """
import threading

together = threading.Barrier(8)

def answer(input_data):
    together.wait(timeout=60)
    return {}
"""

COUNTING = """
from theatre.construct_kit import Refusal

calls = 0

def answer(input_data):
    global calls
    calls += 1
    if input_data.get("refuse"):
        raise Refusal(f"refused {calls} times")
    if input_data.get("fail"):
        raise ValueError(f"failed {calls} times")
    return {"calls": calls, "padding": "x" * input_data.get("padding", 0)}
"""

GATED = """
def answer(input_data):
    open(input_data["gate"]).read()
    return {"gate": "passed"}
"""


BODY_BYTES = 1000
HEAD = (
    f"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
).encode()


def until_refused(service: Service) -> None:
    """Return once nothing listens any more."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", service.port)).close()
        except ConnectionResetError:
            continue  # It was queued by a socket that closed before it was taken.
        except ConnectionRefusedError:
            return
    raise TimeoutError("expected the server to stop listening, it did not")


def counted(service: Service, seq: int, **input_data: object) -> object:
    """Ask a counting construct, and return what it counted or said."""
    document = service.ask(encoded(question(seq, input_data=input_data))).document
    return document.get("error_detail") or document["output_data"]["calls"]


def test_an_envelope_gets_its_answer(write_module: WriteModule) -> None:
    with http_service(write_module(ECHO)) as service:
        replies = [service.ask(encoded(question(seq))) for seq in (1, 2, 3)]
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert [reply.document for reply in replies] == [
        answer(1, output_data={"echo": {"seq": 1}}),
        answer(2, status="refused", error_detail="not the second"),
        answer(3, status="error", error_detail="ValueError: not the third"),
    ]
    headers = replies[0].headers
    assert (headers["Content-Type"], headers["Server"]) == ("application/json", "echelon-construct")


def test_one_connection_serves_many_calls(write_module: WriteModule) -> None:
    with http_service(write_module(ECHO)) as service:
        connection = service.connection()
        seen = []
        for seq in (1, 4, 5):
            connection.request(
                "POST", "/", encoded(question(seq)), {"Content-Type": "application/json"}
            )
            socket_used = connection.sock
            seen.append((socket_used, read_reply(connection).document["output_data"]))
        connection.close()
    assert [output for _, output in seen] == [{"echo": {"seq": seq}} for seq in (1, 4, 5)]
    assert len({used for used, _ in seen}) == 1


def test_it_says_who_it_is_and_where(write_module: WriteModule) -> None:
    with http_service(write_module(ECHO)) as service:
        health = service.ask(b"", method="GET", path="/healthz")
    assert (health.status, health.document) == (
        200,
        {"status": "ok", "construct_id": "pilot", "construct_version": VERSION},
    )
    where = f"http://127.0.0.1:{service.port}"
    assert service.announcement == f"construct pilot version {VERSION} listens on {where}\n"


REFUSED: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "GET /": ({"method": "GET"}, b"", 405, "expected POST /, got GET"),
    "HEAD /": ({"method": "HEAD"}, b"", 405, ""),
    "PUT /": ({"method": "PUT"}, b"{}", 405, "expected POST /, got PUT"),
    "DELETE /": ({"method": "DELETE"}, b"", 405, "expected POST /, got DELETE"),
    "BREW /": ({"method": "BREW"}, b"", 501, "Unsupported method ('BREW')"),
    "POST /healthz": ({"path": "/healthz"}, b"{}", 405, "expected GET /healthz, got POST"),
    "POST /else": ({"path": "/else"}, b"{}", 404, "expected POST / or GET /healthz, got /else"),
    "text": (
        {"Content_Type": "text/plain"},
        b"{}",
        415,
        "expected Content-Type application/json, got text/plain",
    ),
    "no length": ({"Transfer_Encoding": "chunked"}, b"0\r\n\r\n", 411, "expected a Content-Length"),
    "two lengths": (
        {"Transfer_Encoding": "chunked", "Content_Length": "2"},
        b"{}",
        411,
        "expected a Content-Length",
    ),
    "a negative length": (
        {"Content_Length": "-1"},
        b"{}",
        400,
        "expected a number as Content-Length, got -1",
    ),
    "too large": (
        {"Content_Length": "33554433"},
        b"{",
        413,
        "expected at most 33554432 bytes, got 33554433",
    ),
    "far too large": (
        {"Content_Length": "9" * 5000},
        b"{",
        413,
        "expected at most 33554432 bytes, got 99999999999999999999",
    ),
    "not JSON": ({}, b"nonsense", 400, "no envelope: expected JSON, got something else"),
    "no envelope": ({}, b"{}", 400, "no envelope: expected input_data as an object, got null"),
    "an array": ({}, b"[]", 400, "no envelope: expected a JSON object, got array"),
    "deep": ({}, b"[" * 100_000, 400, "no envelope: expected at most 64 levels of nesting"),
}


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a construct that the tests below do not even call."""
    folder = tmp_path_factory.mktemp("echo")
    (folder / "pilot.py").write_text(ECHO, encoding="utf-8")
    return folder


def test_what_is_no_call_is_refused_with_a_reason_and_the_next_call_is_answered(echo: Path) -> None:
    with http_service(echo) as service:
        seen = {name: service.ask(body, **how) for name, (how, body, _, _) in REFUSED.items()}
        alive = service.ask(encoded(question()))
        service.process.terminate()
        _, stderr = service.process.communicate(timeout=PATIENCE_SECONDS)
    assert {name: reply.status for name, reply in seen.items()} == {
        name: status for name, (_, _, status, _) in REFUSED.items()
    }
    for name, (_, _, _, reason) in REFUSED.items():
        said = seen[name].document["error"] if seen[name].body else ""
        assert said[: len(reason)] == reason, name
    assert {reply.headers["Connection"] for reply in seen.values()} == {"close"}
    assert seen["PUT /"].headers["Allow"] == "POST"
    assert alive.document == answer(output_data={"echo": {"seq": 1}})
    assert stderr == ""


def test_a_body_that_is_sent_in_spite_of_its_size_does_not_cost_the_reason(echo: Path) -> None:
    with http_service(echo) as service:
        reply = service.ask(b"x" * (34 * 1024 * 1024))
    assert (reply.status, reply.document) == (
        413,
        {"error": "expected at most 33554432 bytes, got 35651584"},
    )


@pytest.mark.parametrize(
    "sent",
    [b"nonsense\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"POST / HTTP/1.1\r\nA: " + b"b" * 70_000],
    ids=["no request line", "another HTTP", "endless header"],
)
def test_what_is_not_even_http_gets_a_status_and_no_page(echo: Path, sent: bytes) -> None:
    with (
        http_service(echo) as service,
        socket.create_connection(("127.0.0.1", service.port), PATIENCE_SECONDS) as connection,
    ):
        connection.sendall(sent + b"\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b'{"error": "' in received
    assert b"<html" not in received.lower()


def test_a_client_that_leaves_in_mid_question_leaves_no_trace(echo: Path) -> None:
    with http_service(echo) as service:
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.sendall(HEAD + b"{")
        alive = service.ask(encoded(question()))
        service.process.terminate()
        _, stderr = service.process.communicate(timeout=PATIENCE_SECONDS)
    assert (alive.status, stderr) == (200, "")


def test_a_client_that_leaves_in_mid_call_leaves_no_trace(
    write_module: WriteModule, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    body = encoded(question(input_data={"gate": str(gate)})).ljust(BODY_BYTES)
    with http_service(write_module(GATED)) as service:
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.sendall(HEAD + body)
            writer = gate.open("wb")
            # Closed with nothing left to linger for, a connection is reset.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        alive = service.ask(b"", method="GET", path="/healthz")
        service.process.terminate()
        _, stderr = service.process.communicate(timeout=PATIENCE_SECONDS)
    assert (alive.status, stderr) == (200, "")


def test_calls_that_come_at_once_run_at_once(write_module: WriteModule) -> None:
    with http_service(write_module(TOGETHER)) as service, ThreadPoolExecutor(8) as callers:
        replies = list(callers.map(service.ask, [encoded(question(seq)) for seq in range(8)]))
    assert [reply.document for reply in replies] == [
        answer(seq, output_data={}) for seq in range(8)
    ]


def test_a_repeat_is_answered_from_memory_but_an_error_is_tried_again(
    write_module: WriteModule,
) -> None:
    with http_service(write_module(COUNTING)) as service:
        assert [counted(service, 1), counted(service, 1)] == [1, 1]
        assert [counted(service, 2, refuse=1), counted(service, 2, refuse=1)] == [
            "refused 2 times",
            "refused 2 times",
        ]
        assert [counted(service, 3, fail=1), counted(service, 3, fail=1)] == [
            "ValueError: failed 3 times",
            "ValueError: failed 4 times",
        ]


def test_another_input_under_the_same_id_is_another_question(write_module: WriteModule) -> None:
    with http_service(write_module(COUNTING)) as service:
        assert [counted(service, 1), counted(service, 1, other=1), counted(service, 1)] == [1, 2, 1]


def test_a_repeat_after_a_crash_of_the_engine_has_another_time_and_is_recognised(
    write_module: WriteModule,
) -> None:
    with http_service(write_module(COUNTING)) as service:
        service.ask(encoded(question(input_data={})))
        later = question(input_data={}, metadata={"invoked_at": "2026-11-22T00:00:00.000000Z"})
        repeated = service.ask(encoded(later)).document
    assert repeated["output_data"]["calls"] == 1


def test_the_oldest_answers_are_forgotten_first(write_module: WriteModule) -> None:
    with http_service(write_module(COUNTING)) as service:
        room = 900_000
        first_round = [counted(service, seq, padding=room) for seq in range(20)]
        assert [counted(service, 19, padding=room), counted(service, 0, padding=room)] == [20, 21]
    assert first_round == list(range(1, 21))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server_even_with_connections_open(
    echo: Path, number: signal.Signals
) -> None:
    with http_service(echo) as service:
        connection = service.connection()
        connection.request("GET", "/healthz")
        assert read_reply(connection).status == 200
        service.process.send_signal(number)
        stdout, stderr = service.process.communicate(timeout=PATIENCE_SECONDS)
        connection.close()
    assert (stdout, stderr, service.process.returncode) == ("", "", 0)


def test_a_call_that_is_under_way_is_finished_before_the_end(
    write_module: WriteModule, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    asked = encoded(question(input_data={"gate": str(gate)}))
    with http_service(write_module(GATED)) as service, ThreadPoolExecutor(1) as callers:
        call = callers.submit(service.ask, asked)
        with gate.open("wb"):
            service.process.terminate()
            until_refused(service)
        reply = call.result(timeout=PATIENCE_SECONDS)
        assert service.process.wait(timeout=PATIENCE_SECONDS) == 0
    assert reply.document == answer(output_data={"gate": "passed"})


def test_a_taken_port_is_an_error_and_no_traceback(echo: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = kit(echo, "--port", str(port))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        f"error (address-unavailable): expected to listen on 127.0.0.1 port {port}, got: [Errno"
    )


def test_a_port_that_does_not_exist_is_an_error(echo: Path) -> None:
    ended = kit(echo, "--port", "70000")
    assert ended.returncode == 1
    assert ended.stderr == (
        "error (address-unavailable): expected to listen on 127.0.0.1 port 70000, "
        "got: bind(): port must be 0-65535.; take another one, or a free one with --port 0\n"
    )
