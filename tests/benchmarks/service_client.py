"""Asks one path over and over: `service_client.py PORT PATH REQUESTS CONNECTIONS [CREDENTIAL]`.

A process of its own, with as little work as can be: every connection sends the same bytes again as
soon as the whole answer is there. Ends with an error unless all answers are 200.
"""

from __future__ import annotations

import asyncio
import re
import sys

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


async def ask(port: int, request: bytes, times: int) -> None:
    """Send one request `times` times on one kept-alive connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(times):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not head.startswith(b"HTTP/1.1 200 ") or length is None:
            raise RuntimeError(f"expected 200 with a length, got {head[:200]!r}")
        await reader.readexactly(int(length[1]))
    writer.close()
    await writer.wait_closed()


async def ask_all(arguments: list[str]) -> None:
    """Share the requests out to the connections."""
    port, path, requests, connections, *credential = arguments
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "".join(f"Authorization: Bearer {one}\r\n" for one in credential)
    each = int(requests) // int(connections)
    asked = (ask(int(port), f"{head}\r\n".encode(), each) for _ in range(int(connections)))
    await asyncio.gather(*asked)


if __name__ == "__main__":
    asyncio.run(ask_all(sys.argv[1:]))
