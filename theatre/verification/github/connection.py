"""Reads a repository's pull requests behind the root of a GitHub interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from theatre.verification.errors import RepositoryError
from theatre.verification.github.pull_requests import PullRequests
from theatre.verification.github.reading_cache import ReadingCache
from theatre.verification.github.rest import GitHubRest, Pace

_TIMEOUT = aiohttp.ClientTimeout(total=300, sock_connect=30, sock_read=60)
_THIS_MACHINE = frozenset({"127.0.0.1", "::1"})


@asynccontextmanager
async def connect(
    root: str, repository: str, *, token: str | None, cache: ReadingCache, pace: Pace
) -> AsyncIterator[PullRequests]:
    """Open the pull requests of `repository`, `owner/name`, behind the interface at `root`.

    Raises RepositoryError where a token would go over a network unencrypted.
    """
    origin = URL(root)
    if token and origin.scheme != "https" and origin.host not in _THIS_MACHINE:
        raise RepositoryError(f"expected https to send a token, got {origin.scheme}")
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        rest = GitHubRest(session, origin, token=token, pages=cache, pace=pace)
        yield PullRequests(rest, root, repository, cache)
