"""Merged pull requests of one repository as ground-truth records."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from theatre.engine.clock import parse_rfc3339
from theatre.verification.errors import RepositoryError
from theatre.verification.github.commit_range import find_commits
from theatre.verification.github.reading_cache import ReadingCache
from theatre.verification.github.rest import GitHubRest
from theatre.verification.records import MAX_DIFF_BYTES, GroundTruthRecord, decode, make_record

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
