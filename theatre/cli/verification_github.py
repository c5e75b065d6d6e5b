"""GitHub for the command line: which interface, which token, and how long to wait."""

import asyncio
import random  # noqa: TID251  # the composition root; nothing that is kept depends on it
import re
from urllib.parse import urlsplit

import click
from yarl import URL

from theatre.api.workspace import Workspace, utc_now
from theatre.cli.verification_log import VerificationLog
from theatre.verification.errors import RepositoryError
from theatre.verification.github.pull_requests import PullRequestSelection, ReadingCache, connect
from theatre.verification.github.rest import Pace
from theatre.verification.local_history import Selection
from theatre.verification.records import GroundTruthRecord

API_VARIABLE, TOKEN_VARIABLE = "GITHUB_API_URL", "GITHUB_TOKEN"
_PUBLIC = {"github.com": "https://api.github.com"}
_NAME = re.compile(r"/([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/?")


def read_github(
    url: str,
    selection: Selection,
    labels: tuple[str, ...],
    workspace: Workspace,
    log: VerificationLog,
) -> list[GroundTruthRecord]:
    """Return the merged pull requests of a repository on GitHub, those with all of `labels`.

    Its interface is that of GITHUB_API_URL, else GitHub's own; a token is taken from GITHUB_TOKEN
    and written nowhere. Raises RepositoryError for a URL that names no repository, and what
    `PullRequests.records` raises.
    """
    parts = urlsplit(url)
    name = _NAME.fullmatch(parts.path)
    if name is None or parts.username is not None:
        raise RepositoryError("expected https://github.com/OWNER/NAME, without a token in it")
    root = workspace.environment.get(API_VARIABLE) or _PUBLIC.get(parts.hostname or "")
    if root is None:
        raise RepositoryError(
            f"expected a repository on github.com, got one on {parts.hostname}: name the root of "
            f"its interface in {API_VARIABLE}"
        )
    wanted = PullRequestSelection(
        commit_range=None if selection.commit_range == "HEAD" else selection.commit_range,
        since=selection.since,
        until=selection.until,
        labels=labels,
        limit=selection.limit,
    )
    return asyncio.run(_read(root.rstrip("/"), name[1], wanted, workspace, log))


async def _read(
    root: str,
    name: str,
    selection: PullRequestSelection,
    workspace: Workspace,
    log: VerificationLog,
) -> list[GroundTruthRecord]:
    token = workspace.environment.get(TOKEN_VARIABLE)
    origin = URL(root)
    folder = workspace.home / "verification" / "github" / f"{origin.host}-{origin.port}"
    cache = ReadingCache(folder / name.replace("/", "+"))

    def report(seconds: float, why: str) -> None:
        click.echo(f"note: waiting {seconds:.0f} s for GitHub: {why}", err=True)
        log.log_event("waiting", seconds=round(seconds, 3), why=why)

    pace = Pace(clock=utc_now, sleep=asyncio.sleep, jitter=random.random, on_wait=report)
    async with connect(root, name, token=token, cache=cache, pace=pace) as pull_requests:
        return await pull_requests.records(selection)
