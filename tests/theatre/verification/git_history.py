"""Small real repositories, made by git in one process; the same bytes give the same commits."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FIRST_SECOND = 1_700_000_000
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: what it says, and its files; None deletes, `renames` is old → new.

    `parents` are places in the list of commits, from 0; None is the one before.
    """

    message: bytes
    files: Mapping[bytes, bytes | None] = field(default_factory=dict)
    renames: Mapping[bytes, bytes] = field(default_factory=dict)
    parents: Sequence[int] | None = None
    author: bytes = b"Ada"


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """Run git in a folder, blind to the user's configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    run = subprocess.run(
        ["git", "-C", folder, *arguments],
        input=given,
        capture_output=True,
        check=True,
        env={**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return run.stdout.decode("utf-8", "backslashreplace").strip()


def repository(folder: Path, commits: Sequence[Commit]) -> Path:
    """Make a repository with these commits on `main`, a day apart; nothing is checked out."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    stream = b"".join(_command(at, commit) for at, commit in enumerate(commits))
    git(folder, "fast-import", "--quiet", given=stream)
    return folder


def _command(at: int, commit: Commit) -> bytes:
    parents = commit.parents if commit.parents is not None else ([at - 1] if at else [])
    seconds = FIRST_SECOND + at * _DAY
    # Everything but the message and the parents is said of the branch that the list ends on.
    lines = [
        b"reset refs/heads/main\n" if not parents else b"",
        b"commit refs/heads/main\nmark :%d\n" % (at + 1),
        b"author %s <a@example.org> %d +0000\n" % (commit.author, seconds),
        b"committer %s <a@example.org> %d +0000\n" % (commit.author, seconds),
        b"data %d\n%s\n" % (len(commit.message), commit.message),
        *(
            b"%s :%d\n" % (b"merge" if place else b"from", parent + 1)
            for place, parent in enumerate(parents)
        ),
        *(b"R %s %s\n" % (_quoted(old), _quoted(new)) for old, new in commit.renames.items()),
        *(_file(path, content) for path, content in commit.files.items()),
        b"\n",
    ]
    return b"".join(lines)


def _file(path: bytes, content: bytes | None) -> bytes:
    if content is None:
        return b"D %s\n" % _quoted(path)
    return b"M 100644 inline %s\ndata %d\n%s\n" % (_quoted(path), len(content), content)


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%s"' % escaped
