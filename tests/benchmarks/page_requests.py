"""Certificate pages from the cache, per second of CPU time.

Started with `python -m tests.benchmarks.page_requests`. The service's own middleware answers; the
server that parses HTTP is not counted.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from backend.api.certificate_cache import CachedPage, CertificateCache, CertificateCacheMiddleware
from backend.api.http.metrics import Metrics
from backend.api.http.middleware import RequestMiddleware, SafeMethodsMiddleware

CERTIFICATE_ID = "018f0000-0000-7000-8000-00000000dead"
PAGE_BYTES = 60_000
REQUESTS = 10_000


async def _send(message: Any) -> None:  # noqa: ANN401 - ASGI
    assert message.get("status", 200) == 200, message


async def _measure() -> float:
    moment = datetime(2026, 11, 23, tzinfo=UTC)
    cache = CertificateCache(lambda: moment)
    cache.put_page(CachedPage.of(CERTIFICATE_ID, b"x" * PAGE_BYTES, at=moment, lapses=None))
    kept: Any = CertificateCacheMiddleware(_missing, cache=cache)
    app = RequestMiddleware(SafeMethodsMiddleware(kept), metrics=Metrics())
    scope = {"type": "http", "method": "GET", "query_string": b"", "headers": [], "state": {}}
    began = time.process_time()
    for _ in range(REQUESTS):
        await app({**scope, "path": f"/c/{CERTIFICATE_ID}"}, _missing, _send)
    return REQUESTS / (time.process_time() - began)


async def _missing(*_: Any) -> Any:  # noqa: ANN401 - ASGI
    raise AssertionError("expected every answer from the cache, got a request behind it")


if __name__ == "__main__":
    print(f"{asyncio.run(_measure()):,.0f} pages/s of CPU time")  # noqa: T201 - its result
