"""A server that speaks GitHub's REST for pull requests, with its limits and its bad days."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.theatre.oracles.loopback import Received, response
from theatre.verification.github.rest import MAX_PAGE_BYTES

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class FakeTime:
    """A clock that only sleeping moves."""

    now: datetime = START
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)


def commit(number: int) -> str:
    """The id of the commit that merged a pull request."""
    return f"{number:040x}"


def pull(number: int) -> dict[str, Any]:
    """A closed pull request; every fifth was not merged."""
    merged = START - timedelta(days=400 - number)
    stamp = merged.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "number": number,
        "title": f"Change {number}",
        "body": None if number % 2 else f"Because of {number}.\r\nReally.",
        "user": None if number == 7 else {"login": f"dev{number % 3}"},
        "labels": [{"name": "api"}] if number % 3 == 0 else [],
        "merge_commit_sha": commit(number),
        "merged_at": None if number % 5 == 0 else stamp,
        "updated_at": stamp,
    }


def diff(number: int) -> str:
    return (
        f"diff --git a/m{number}.py b/m{number}.py\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/m{number}.py\n@@ -0,0 +1 @@\n+def added_{number}(): pass\n"
    )


def _commits(behind: int, last: int) -> list[dict[str, Any]]:
    return [{"sha": commit(number)} for number in range(behind + 1, last + 1)]


class GitHubService:
    """Answers `GET …/pulls`, `/pulls/N` as a diff, `/pulls/N/files`, `/compare` and `/commits`.

    Commit `vN` is the one that merged pull request N.

    `bad_days` says which request, from 0, is met how. `allowance` is how many requests an hour
    takes; those that came although it was used up are in `beyond_limit`.
    """

    def __init__(
        self,
        *,
        pulls: int = 250,
        time: FakeTime,
        bad_days: Mapping[int, str] | None = None,
        allowance: int = 5000,
        too_large: int | None = None,
        next_host: str | None = None,
    ) -> None:
        self.requests: list[str] = []
        self.not_modified = 0
        self.beyond_limit = 0
        self.tokens: set[str] = set()
        self._pulls = [pull(number) for number in range(pulls, 0, -1)]
        self._time = time
        self._bad_days = bad_days or {}
        self._allowance = self._left = allowance
        self._reset = time.now + timedelta(hours=1)
        self._too_large = too_large
        self._next_host = next_host

    async def respond(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request.line)
        self.tokens.add(request.headers.get("authorization", ""))
        bad = self._bad_days.get(len(self.requests) - 1)
        if bad != "hang up":
            writer.write(self._bad(bad) if bad else self._good(request))
        if bad in {"hang up", "cut body"}:
            writer.close()

    def _bad(self, bad: str) -> bytes:
        answers: dict[str, Callable[[], bytes]] = {
            "502": lambda: response(b"<html>", status="502 Bad Gateway"),
            "secondary": lambda: response(
                b"{}", status="403 Forbidden", headers="Retry-After: 7\r\n"
            ),
            "too many": lambda: response(b"{}", status="429 Too Many Requests"),
            "cut json": lambda: response(b'[{"number": 1, "tit', headers='ETag: "cut"\r\n'),
            "endless": lambda: response(b"[" + b" " * MAX_PAGE_BYTES + b"]"),
            "bottomless": lambda: response(b"[" * 200_000),
            "cut body": lambda: (
                b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n[]"
            ),
        }
        return answers[bad]() if bad in answers else response(b"{}", status=bad)

    def _good(self, request: Received) -> bytes:
        if self._time.now >= self._reset:
            self._left, self._reset = self._allowance, self._time.now + timedelta(hours=1)
        limits = f"X-RateLimit-Reset: {int(self._reset.timestamp())}\r\n"
        if self._left == 0:
            self.beyond_limit += 1
            limits += "X-RateLimit-Remaining: 0\r\n"
            return response(b"{}", status="403 Forbidden", headers=limits)
        body, link, status = self._content(request)
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if request.headers.get("if-none-match") == tag:
            self.not_modified += 1
            limits += f"X-RateLimit-Remaining: {self._left}\r\n"
            return response(b"", status="304 Not Modified", headers=limits)
        self._left -= 1
        headers = f"{limits}X-RateLimit-Remaining: {self._left}\r\nETag: {tag}\r\n{link}"
        return response(body, status=status, headers=headers)

    def _content(self, request: Received) -> tuple[bytes, str, str]:
        target = urlsplit(request.line.split(" ")[1])
        if not target.path.startswith("/repos/o/n/pulls/"):
            return self._list(request, target.path, parse_qs(target.query))
        match = re.fullmatch(r"/repos/o/n/pulls/(\d+)(/files)?", target.path)
        if match is None:
            return b'{"message": "Not Found"}', "", "404 Not Found"
        if match[2]:
            file = {"filename": f"m{match[1]}.py", "status": "added"}
            patch = f"@@ -0,0 +1 @@\n+def added_{match[1]}(): pass"
            return json.dumps([{**file, "patch": patch}]).encode(), "", "200 OK"
        if int(match[1]) == self._too_large:
            return b"{}", "", "406 Not Acceptable"
        return diff(int(match[1])).encode(), "", "200 OK"

    def _list(
        self, request: Received, path: str, query: dict[str, list[str]]
    ) -> tuple[bytes, str, str]:
        page, last = int(query.get("page", ["1"])[0]), query.get("sha", ["v0"])[0]
        between = re.fullmatch(r"/repos/o/n/compare/v(\d+)\.\.\.v(\d+)", path)
        if between is not None:
            commits = _commits(int(between[1]), int(between[2]))
            return self._paged(request, commits, f"{path}?", page, member="commits")
        if path == "/repos/o/n/commits":
            return self._paged(request, _commits(0, int(last[1:])), f"{path}?sha={last}", page)
        if path == "/repos/o/n/pulls":
            return self._paged(request, self._pulls, f"{path}?state=closed", page)
        return b'{"message": "Not Found"}', "", "404 Not Found"

    def _paged(
        self,
        request: Received,
        items: list[dict[str, Any]],
        target: str,
        page: int,
        *,
        member: str | None = None,
    ) -> tuple[bytes, str, str]:
        shown = items[100 * (page - 1) : 100 * page]
        link = self._link(request, target, page) if 100 * page < len(items) else ""
        return json.dumps(shown if member is None else {member: shown}).encode(), link, "200 OK"

    def _link(self, request: Received, target: str, page: int) -> str:
        host = self._next_host or request.headers["host"]
        following = f"http://{host}{target}&per_page=100&page={page + 1}"
        return f'Link: <{following}>; rel="next", <x>; rel="last"\r\n'
