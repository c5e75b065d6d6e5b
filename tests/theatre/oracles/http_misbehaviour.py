"""What a construct behind HTTP may do instead of answering, and what the attempt says of it."""

import asyncio
import gzip
import socket
import struct

from tests.theatre.oracles.http_asking import answering, closing, saying
from tests.theatre.oracles.loopback import Received, Respond, response

MEBIBYTE = 1024 * 1024


async def hang(_: Received, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hang_in_the_body(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await asyncio.Event().wait()


async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def preliminary_for_ever(_: Received, writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)
        await writer.drain()
        await asyncio.sleep(0)


async def endless_body(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def endless_chunks(_: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def reset(_: Received, writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# How a construct behaves: what the attempt says (status, reason, detail, raw).
CUT = "x" * MEBIBYTE
Outcome = tuple[str, str | None, str | None, str | None]
SLOW = ("timeout", "timeout", "expected an answer within 0.4 s, got none", None)
GONE = (
    "error",
    "disconnected",
    "expected an answer from {origin}, got: the end of the connection",
    None,
)
TOO_LARGE = ("error", "too-large", "expected at most 1048576 bytes, got more", CUT)
HOSTILE: dict[str, tuple[Respond, Outcome]] = {
    "hangs": (hang, SLOW),
    "hangs in the body": (hang_in_the_body, SLOW),
    "drips": (drip, SLOW),
    "sends 1xx for ever": (preliminary_for_ever, SLOW),
    "endless body": (endless_body, TOO_LARGE),
    "endless chunks": (endless_chunks, TOO_LARGE),
    "2 MiB": (answering(response(b"x" * 2 * MEBIBYTE)), TOO_LARGE),
    "reset": (
        reset,
        (
            "error",
            "disconnected",
            "expected an answer from {origin}, got: [Errno 104] Connection reset by peer",
            None,
        ),
    ),
    "closes without a word": (closing(b""), GONE),
    "ends within the head": (closing(b"HTTP/1.1 200 OK\r\nContent-Le"), GONE),
    "302": (
        answering(
            response(b"", status="302 Found", headers="Location: http://169.254.169.254/\r\n")
        ),
        ("error", "redirect", "expected status 200, got 302 to http://169.254.169.254/", None),
    ),
    "308 to nowhere": (
        answering(response(b"", status="308 Permanent Redirect")),
        ("error", "redirect", "expected status 200, got 308 to nowhere", None),
    ),
    "500": (
        answering(response(b"no luck\x00\xff", status="500 Oops")),
        ("error", "http-status", "expected status 200, got 500", "no luck\x00\\xff"),
    ),
    "500 with an endless body": (
        answering(response(b"x" * 2 * MEBIBYTE, status="500 Oops")),
        ("error", "http-status", "expected status 200, got 500", CUT),
    ),
    "404 in gzip": (
        answering(response(b"x", status="404 Not Found", headers="Content-Encoding: gzip\r\n")),
        (
            "error",
            "content-encoding",
            "expected an answer without a content encoding, got ['gzip']",
            None,
        ),
    ),
    "204": (
        answering(b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("error", "http-status", "expected status 200, got 204", ""),
    ),
    "201": (
        answering(response(b"{}", status="201 Created")),
        ("error", "http-status", "expected status 200, got 201", "{}"),
    ),
    "gzip": (
        answering(response(gzip.compress(b"{}"), headers="Content-Encoding: gzip\r\n")),
        (
            "error",
            "content-encoding",
            "expected an answer without a content encoding, got ['gzip']",
            None,
        ),
    ),
    "identity, then gzip": (
        answering(response(b"", headers="Content-Encoding: identity\r\nContent-Encoding: br\r\n")),
        (
            "error",
            "content-encoding",
            "expected an answer without a content encoding, got ['identity', 'br']",
            None,
        ),
    ),
    "empty": (
        answering(response(b"")),
        (
            "error",
            "not-json",
            "expected JSON, got something else at line 1 column 1: Expecting value",
            "",
        ),
    ),
    "not JSON": (
        answering(response(b"<html>")),
        (
            "error",
            "not-json",
            "expected JSON, got something else at line 1 column 1: Expecting value",
            "<html>",
        ),
    ),
    "deep JSON": (
        answering(response(b"[" * 49 + b"]" * 49)),
        (
            "error",
            "too-deep",
            "expected at most 48 levels of nesting, got more",
            "[" * 49 + "]" * 49,
        ),
    ),
    "NaN": (
        answering(response(b'{"a":NaN}')),
        ("error", "non-finite", "expected finite numbers, got NaN", '{"a":NaN}'),
    ),
    "list": (
        answering(response(b"[]")),
        ("error", "not-envelope", "expected an envelope object, got array", "[]"),
    ),
    "refuses": (
        saying(status="refused", error_detail="not my field", output_data=None),
        ("refused", None, "not my field", None),
    ),
    "reports an error": (
        saying(status="error", output_data=None),
        ("error", None, "no reason given", None),
    ),
}
