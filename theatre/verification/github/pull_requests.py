"""Merged pull requests of one repository as ground-truth records."""

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from yarl import URL

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.clock import parse_rfc3339
from theatre.engine.errors import ParseError
from theatre.files.durable import append_durably, replace_durably, truncate_durably
from theatre.oracles.http_client import HttpClient
from theatre.verification.errors import NoRecordError, RepositoryError
from theatre.verification.github.rest import Answer, GitHubRest, Pace, find_commits
from theatre.verification.records import (
    MAX_DIFF_BYTES,
    GroundTruthRecord,
    decode,
    make_record,
    read_record,
)

# What a reading of GitHub keeps on disk: pages with their tags, and finished records.


_RECORDS = "records.jsonl"


class ReadingCache:
    """One repository's folder. A file in it is whole or not there; a torn last line is cut off.

    Of a request it keeps the URL and of an answer the entity tag, never a header that was sent.
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder, making it if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._records = self._read_records()

    def page(self, url: str) -> Answer | None:
        """Return the page that was kept under `url`."""
        path = self._page_path(url)
        if not path.is_file():
            return None
        kept = cast("dict[str, str | None]", parse_object(path.read_bytes()))
        return Answer(
            body=cast("str", kept["body"]).encode(), next_url=kept["next_url"], etag=kept["etag"]
        )

    def keep(self, url: str, answer: Answer) -> None:
        """Keep a page in place of the one before."""
        kept: JsonObject = {
            "body": decode(answer.body),
            "etag": answer.etag,
            "next_url": answer.next_url,
            "url": url,
        }
        replace_durably(self._page_path(url), canonical_line(kept))

    def record(self, key: str) -> GroundTruthRecord | None:
        """Return the record that was kept under `key`."""
        return self._records.get(key)

    def keep_record(self, key: str, record: GroundTruthRecord) -> None:
        """Append a record; after this returns, a power cut does not lose it."""
        line = canonical_line({"key": key, "record": record.as_document()})
        append_durably(self._folder / _RECORDS, line)
        self._records[key] = record

    def _page_path(self, url: str) -> Path:
        return self._folder / f"page-{sha256_hex(url.encode())[:32]}.json"

    def _read_records(self) -> dict[str, GroundTruthRecord]:
        path = self._folder / _RECORDS
        raw = path.read_bytes() if path.is_file() else b""
        whole = raw.rfind(b"\n") + 1
        if whole != len(raw):
            truncate_durably(path, whole)
        found = {}
        for line in raw[:whole].splitlines():
            # What an earlier form of records left behind is read again.
            with contextlib.suppress(ParseError, KeyError, NoRecordError):
                kept = parse_object(line)
                document = cast("JsonObject", kept["record"])
                found[cast("str", kept["key"])] = read_record(document)
        return found


_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestSelection:
    """Which merged pull requests: merged within the dates, with all the labels, the newest.

    With a `commit_range`, only those whose merging is a commit of it.
    """

    commit_range: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    labels: tuple[str, ...] = ()
    limit: int = 100

    def admits(self, pull: dict[str, Any]) -> bool:
        """Tell whether an entry of the list is meant."""
        if pull["merged_at"] is None:
            return False
        merged = parse_rfc3339(pull["merged_at"])
        names = {label["name"] for label in pull["labels"]}
        return (
            (self.since is None or self.since <= merged)
            and (self.until is None or merged <= self.until)
            and names.issuperset(self.labels)
        )


class PullRequests:
    """The pull requests of `owner/name`, read through `rest` and kept in `cache`."""

    def __init__(self, rest: GitHubRest, root: str, repository: str, cache: ReadingCache) -> None:
        self._rest = rest
        self._repository = f"{root}/repos/{quote(repository, safe='/')}"
        self._base = f"{self._repository}/pulls"
        self._cache = cache

    async def records(self, selection: PullRequestSelection) -> list[GroundTruthRecord]:
        """Return the selected ones, the first merged first.

        What was read is kept at once, so a reading that is stopped goes on where it was. Raises
        RepositoryError and RateLimitedError as `GitHubRest`.
        """
        return [record async for record in self.stream(selection)]

    async def stream(self, selection: PullRequestSelection) -> AsyncIterator[GroundTruthRecord]:
        """Yield them one by one, for who must not hold all of them; errors as `records`."""
        for pull in await self._chosen(selection):
            yield await self._record(pull)

    async def _chosen(self, selection: PullRequestSelection) -> list[dict[str, Any]]:
        """Return the newest merged ones; stops once no later page can hold a newer one."""
        commits = None
        if selection.commit_range is not None:
            commits = await find_commits(selection.commit_range, self._repository, self._pages)
        url = f"{self._base}?state=closed&sort=updated&direction=desc&per_page={_PAGE}"
        found: dict[int, dict[str, Any]] = {}
        async for page in self._pages(url):
            found |= {
                pull["number"]: pull
                for pull in page
                if selection.admits(pull) and (commits is None or _commit(pull) in commits)
            }
            # No more than are asked for are held, however many pages there are.
            newest = sorted(found.values(), key=_merge_time, reverse=True)[: selection.limit]
            found = {pull["number"]: pull for pull in newest}
            # Nothing is merged after its last update, and the pages are sorted by that.
            if len(newest) == selection.limit and page[-1]["updated_at"] < newest[-1]["merged_at"]:
                break
        return sorted(found.values(), key=_merge_time)

    async def _record(self, pull: dict[str, Any]) -> GroundTruthRecord:
        number, key = pull["number"], f"{pull['number']}@{pull['updated_at']}"
        known = self._cache.record(key)
        if known is not None:
            return known
        url = f"{self._base}/{number}"
        files = [
            file async for page in self._pages(f"{url}/files?per_page={_PAGE}") for file in page
        ]
        diff = await self._rest.diff(url, limit=MAX_DIFF_BYTES)
        user = pull["user"] or {"login": "ghost"}
        record = make_record(
            id=str(number),
            commit=_commit(pull),
            message=f"{_text(pull['title'])}\n\n{_text(pull['body'])}",
            diff=_from_patches(files) if diff is None else decode(diff.body),
            unread_diff_bytes=0 if diff is None else diff.unread_bytes,
            paths=[_text(file["filename"]) for file in files],
            timestamp=parse_rfc3339(pull["merged_at"]),
            labels=sorted(_text(label["name"]) for label in pull["labels"]),
            author=_text(user["login"]),
        )
        self._cache.keep_record(key, record)
        return record

    async def _pages(
        self, url: str, member: str | None = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        following: str | None = url
        while following is not None:
            answer = await self._rest.page(following)
            page = json.loads(answer.body)
            if member is not None and isinstance(page, dict):
                page = page.get(member)
            if not isinstance(page, list):
                raise RepositoryError(f"expected a list at {following}, got another document")
            if page:
                yield page
            following = answer.next_url


def _commit(pull: dict[str, Any]) -> str:
    """Return the commit that merged it; empty where GitHub does not know it any more."""
    return _text(pull.get("merge_commit_sha"))


def _merge_time(pull: dict[str, Any]) -> tuple[str, int]:
    return pull["merged_at"], pull["number"]


def _text(value: str | None) -> str:
    return decode((value or "").encode("utf-8", "backslashreplace"))


_HEADINGS = {
    "added": "new file mode 100644\n",
    "removed": "deleted file mode 100644\n",
    "renamed": "rename from {old}\nrename to {new}\n",
}


def _from_patches(files: list[dict[str, Any]]) -> str:
    """Return the diff that the files' own patches make; GitHub leaves out those of large ones."""
    parts = []
    for file in files:
        new, old = _text(file["filename"]), _text(file.get("previous_filename") or file["filename"])
        heading = _HEADINGS.get(file["status"], "").format(old=old, new=new)
        patch = _text(file.get("patch"))
        lines = f"--- a/{old}\n+++ b/{new}\n{patch}\n" if patch else ""
        parts.append(f"diff --git a/{old} b/{new}\n{heading}{lines}")
    return "".join(parts)


# Reads a repository's pull requests behind the root of a GitHub interface.


_SECONDS = 300.0
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
    async with aclosing(HttpClient(seconds=_SECONDS)) as client:
        rest = GitHubRest(client, origin, token=token, pages=cache, pace=pace)
        yield PullRequests(rest, root, repository, cache)
