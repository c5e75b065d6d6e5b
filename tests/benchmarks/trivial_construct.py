"""A construct that answers every call alike, over HTTP, with as little work as can be.

`python trivial_construct.py [SECONDS]` prints its port and serves until its stdin ends. Each answer
waits so many seconds (0), as a model's does, and takes no processor time meanwhile.
"""

import asyncio
import json
import re
import sys

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Connection(asyncio.Protocol):
    """One kept-alive connection; a request at a time, as an HTTP/1.1 client sends them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer as soon as the request is whole."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if found and length and len(body) >= int(length[1]) and self._transport is not None:
            self._received = b""
            answer = answer_to(body)
            if self._seconds:
                loop = asyncio.get_running_loop()
                loop.call_later(self._seconds, self._transport.write, answer)
            else:
                self._transport.write(answer)


def answer_to(body: bytes) -> bytes:
    """Return the whole HTTP response to one envelope."""
    request = json.loads(body)
    envelope = {
        "construct_id": request["construct_id"],
        "construct_version": request["construct_version"],
        "invocation_id": request["invocation_id"],
        "output_data": {"answer": "yes"},
        "status": "success",
    }
    content = json.dumps(envelope, separators=(",", ":")).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    return head.encode() + b"\r\n\r\n" + content


async def serve(seconds: float) -> None:
    """Listen on a free port of the loopback interface."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(seconds), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) if sys.argv[1:] else 0.0))
