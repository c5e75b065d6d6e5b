"""GitHub's REST interface: one request at a time, its limits kept, its failures tried again.

Source: docs.github.com, "Rate limits for the REST API" and "Best practices": a primary limit by
`X-RateLimit-…`, secondary ones by `Retry-After`, conditional requests by `ETag`.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

from yarl import URL

from theatre.engine.clock import Clock, Sleep
from theatre.oracles.http_client import Connection, HttpClient, NoResponseError
from theatre.verification.errors import RateLimitedError, RepositoryError

# A range of commits as GitHub answers for it: which commits lie in `A..B`, or behind `B`.


Pages = Callable[[str, str | None], AsyncIterator[list[dict[str, Any]]]]
"""Reads a paged list: its URL, and the member of each page that holds it, if one does."""

_PAGE = 100


async def find_commits(commit_range: str, repository: str, pages: Pages) -> frozenset[str]:
    """Return the ids of the commits of a range, as git means it.

    `A..B`: what B has and A has not; a single name: it, and all before it. `repository` is the
    URL of the repository in the interface. Raises RepositoryError for what is no such range, and
    as the interface where a name is not known.
    """
    before, dots, last = commit_range.rpartition("..")
    if not last or (dots and not before) or "..." in commit_range or commit_range[0] == "-":
        raise RepositoryError(f"expected A..B, or one commit, got {commit_range:.100}")
    if dots:
        # GitHub compares with the common ancestor: that leaves what git's two dots leave.
        names = f"{quote(before, safe='')}...{quote(last, safe='')}"
        read = pages(f"{repository}/compare/{names}?per_page={_PAGE}", "commits")
    else:
        read = pages(f"{repository}/commits?sha={quote(last, safe='')}&per_page={_PAGE}", None)
    return frozenset([commit["sha"] async for page in read for commit in page])


JSON = "application/vnd.github+json"
DIFF = "application/vnd.github.diff"
_VERSION = "2022-11-28"
_OK, _NOT_MODIFIED, _FORBIDDEN, _TOO_MANY, _SERVER_ERROR = 200, 304, 403, 429, 500
_NEXT = re.compile(r'<([^<>]{1,2000})>;\s{0,5}rel="next"')
_SECONDARY_SECONDS = 60
"""How long to wait where GitHub says that a limit is reached, and not until when."""
_LEAST_SECONDS = 5

MAX_PAGE_BYTES = 32 * 1024 * 1024
"""A page of a hundred entries with the longest texts that GitHub takes is well below."""

TRIES = 6
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A body, as far as it was kept, what came after it, and where the next page is."""

    body: bytes
    unread_bytes: int = 0
    next_url: str | None = None
    etag: str | None = None


class PageCache(Protocol):
    """Keeps pages by URL, so that an unchanged one costs nothing of the limit."""

    def page(self, url: str) -> Answer | None:
        """Return what was kept under `url`."""

    def keep(self, url: str, answer: Answer) -> None:
        """Keep a page that has an entity tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Time as the reader sees it.

    `jitter` returns numbers in [0, 1). `on_wait` is called with the seconds before each wait. All
    waits of one reading together take at most `longest_wait` seconds.
    """

    clock: Clock
    sleep: Sleep
    jitter: Callable[[], float]
    on_wait: Callable[[float, str], None]
    longest_wait: float = 3600


class GitHubRest:
    """Reads from one origin; a token goes nowhere else, and into no message."""

    def __init__(
        self, client: HttpClient, origin: URL, *, token: str | None, pages: PageCache, pace: Pace
    ) -> None:
        self._client = client
        self._origin = origin
        self._pages = pages
        self._pace = pace
        self._token = token
        self._waited = 0.0
        self._not_before = 0.0

    async def page(self, url: str) -> Answer:
        """Return a page of JSON, from the cache where GitHub says that it has not changed.

        Raises RepositoryError for one above MAX_PAGE_BYTES, and as all that fails for good.
        """
        known = self._pages.page(url)
        etag = {} if known is None or known.etag is None else {"If-None-Match": known.etag}
        answer = await self._get(url, JSON, headers=etag, limit=MAX_PAGE_BYTES)
        if answer is None:
            assert known is not None  # noqa: S101  # only then is the request conditional
            return known
        if answer.unread_bytes:
            raise RepositoryError(
                f"expected a page of at most {MAX_PAGE_BYTES} bytes from {self._origin}, got more"
            )
        if answer.etag is not None:
            self._pages.keep(url, answer)
        return answer

    async def diff(self, url: str, *, limit: int) -> Answer | None:
        """Return the first `limit` bytes of a diff; None where GitHub says it is too large."""
        return await self._get(url, DIFF, headers={}, limit=limit, absent=frozenset({406}))

    async def _get(
        self,
        url: str,
        accept: str,
        *,
        headers: Mapping[str, str],
        limit: int,
        absent: frozenset[int] = frozenset({_NOT_MODIFIED}),
    ) -> Answer | None:
        """Return an answer, or None for a status in `absent`; tries again what may pass."""
        target = self._own(url)
        problem = ""
        read = partial(self._read, limit=limit, absent=absent)
        for failed in range(TRIES):
            if failed:
                pause = min(_LONGEST_PAUSE, 2.0**failed) * (0.5 + self._pace.jitter() / 2)
                await self._wait(pause, problem)
            try:
                while True:
                    await self._wait(self._not_before - self._now(), "its limit is reached")
                    sent = {**self._headers(accept), **headers}
                    status, answer, is_limited = await self._client.ask(
                        "GET", target, read=read, headers=sent
                    )
                    if answer is None:
                        return None
                    if not is_limited:
                        break
                is_whole = accept != JSON or answer.unread_bytes or _is_json(answer.body)
                if status == _OK and is_whole:
                    return answer
                problem = "a body that was cut"
                if status == _OK:
                    continue
                problem = f"status {status}"
                if status < _SERVER_ERROR:
                    raise RepositoryError(
                        f"expected {target.path} of {self._origin}, got {problem}: is the name "
                        "right, and does the token (GITHUB_TOKEN) reach it?"
                    )
            except (NoResponseError, TimeoutError) as error:
                problem = str(error) or "no answer in time"
        raise RepositoryError(
            f"expected {target.path} of {self._origin}, got {problem} {TRIES} times; what was "
            "read is kept: try again later"
        )

    async def _read(
        self, response: Connection, *, limit: int, absent: frozenset[int]
    ) -> tuple[int, Answer | None, bool]:
        """Return status and answer, and whether the request was refused for its limit."""
        answer = None if response.status in absent else await _answer(response, limit)
        is_limited = self._note_limit(response, b"" if answer is None else answer.body)
        return response.status, answer, is_limited

    def _own(self, url: str) -> URL:
        target = URL(url, encoded=True)
        if target.origin() != self._origin.origin():
            raise RepositoryError(f"expected a page of {self._origin}, got {url:.200}")
        return target

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {
            "Accept": accept,
            "User-Agent": "echelon-theatre",
            "X-GitHub-Api-Version": _VERSION,
        }
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _note_limit(self, response: Connection, body: bytes) -> bool:
        """Remember until when to wait; say whether this very request was refused for it."""
        after, reset = _seconds(response, "retry-after"), _seconds(response, "x-ratelimit-reset")
        used_up = response.value("x-ratelimit-remaining") == "0"
        refused = response.status == _TOO_MANY or (
            response.status == _FORBIDDEN
            and (used_up or after is not None or b"rate limit" in body.lower())
        )
        if after is not None and refused:
            self._not_before = self._now() + after
        elif used_up and reset is not None:
            self._not_before = float(reset)
        elif refused:
            self._not_before = self._now() + _SECONDARY_SECONDS
        if refused:
            # The two clocks may differ: a reset in the past must not make this a busy loop.
            self._not_before = max(self._not_before, self._now() + _LEAST_SECONDS)
        return refused

    def _now(self) -> float:
        return self._pace.clock().timestamp()

    async def _wait(self, seconds: float, why: str) -> None:
        if seconds <= 0:
            return
        if self._waited + seconds > self._pace.longest_wait:
            raise RateLimitedError(
                f"expected to wait at most {self._pace.longest_wait:g} s for {self._origin}, got "
                f"{seconds:.0f} s more to wait ({why}); what was read is kept: the same command "
                "goes on, and a token (GITHUB_TOKEN) raises the limit"
            )
        self._waited += seconds
        self._pace.on_wait(seconds, why)
        await self._pace.sleep(seconds)


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


async def _answer(response: Connection, limit: int) -> Answer:
    body, unread = bytearray(), 0
    while chunk := await response.read_some():
        room = max(0, limit - len(body))
        body += chunk[:room]
        unread += len(chunk) - min(room, len(chunk))
    following = _NEXT.search(response.value("link") or "")
    return Answer(
        body=bytes(body),
        unread_bytes=unread,
        next_url=following[1] if following else None,
        etag=response.value("etag"),
    )


def _seconds(response: Connection, header: str) -> int | None:
    value = response.value(header) or ""
    return int(value) if re.fullmatch(r"[0-9]{1,12}", value) else None
