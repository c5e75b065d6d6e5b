"""A range of commits as GitHub answers for it: which commits lie in `A..B`, or behind `B`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

from theatre.verification.errors import RepositoryError

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
