"""Ground truth from a local clone: its commits, read with git itself."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

from theatre.verification.errors import RepositoryError, RepositoryMissingError
from theatre.verification.records import MAX_DIFF_BYTES, GroundTruthRecord, decode, make_record

# Runs git on a local clone: read only, without network, whatever is configured there.


_CHUNK = 256 * 1024
_STDERR_SHOWN = 500

_SETTINGS = (
    "core.quotePath=false",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "diff.suppressBlankEmpty=false",
    "diff.renameLimit=1000",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
)
"""The settings that would show in a record, set to git's own defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitOutput:
    """What git printed: at most as much as was asked for, and how many bytes came after it."""

    data: bytes
    unread_bytes: int


class GitClone:
    """A local clone, read through the program `git`."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = os.environ) -> None:
        """Take the work tree or git folder of a clone; nothing is read yet."""
        self._folder = folder
        # GIT_… variables are removed: one could point git to another repository.
        self._environment = {
            **{key: value for key, value in environment.items() if not key.startswith("GIT_")},
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    def run(self, *arguments: str, given: bytes = b"", limit: int | None = None) -> GitOutput:
        """Return what git prints for `arguments`; beyond `limit` bytes only how much it was.

        Raises RepositoryError where there is no git, or where git fails.
        """
        # A file for git's input: with two pipes, each side could wait for the other.
        with tempfile.TemporaryFile() as questions, tempfile.TemporaryFile() as complaints:
            questions.write(given)
            questions.seek(0)
            with self._start(arguments, questions.fileno(), complaints.fileno()) as process:
                output = _read(process, limit)
            if process.returncode != 0:
                complaints.seek(0)
                said = decode(complaints.read(_STDERR_SHOWN)).strip()
                raise RepositoryError(
                    f"expected git to read {self._folder}, got exit code {process.returncode} "
                    f"of git {arguments[0]}: {said}"
                )
        return output

    def _start(self, arguments: Sequence[str], stdin: int, stderr: int) -> subprocess.Popen[bytes]:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        try:
            return subprocess.Popen(  # noqa: S603  # an argv of our own; names go behind `--`
                ["git", "-C", str(self._folder), "--no-pager", *settings, *arguments],  # noqa: S607  # the user's git
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment,
            )
        except FileNotFoundError as error:
            raise RepositoryError(
                "expected the program git to read a local clone, got none: install it"
            ) from error


def _read(process: subprocess.Popen[bytes], limit: int | None) -> GitOutput:
    assert process.stdout is not None  # noqa: S101  # it was asked for
    if limit is None:
        return GitOutput(data=process.stdout.read(), unread_bytes=0)
    data, unread = process.stdout.read(limit), 0
    while chunk := process.stdout.read(_CHUNK):
        unread += len(chunk)
    return GitOutput(data=data, unread_bytes=unread)


_FIELDS = "%H%x00%P%x00%ct%x00%an%x00%B"
_FIELD_COUNT = 5
_DIFF = (
    "diff-tree",
    "-r",
    "--no-commit-id",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames=50%",
    "--ignore-submodules=none",
)
_PATCH = (
    "-p",
    "--full-index",
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    "-O/dev/null",
)


class History(StrEnum):
    """Which commits count as changes.

    `plain`: every commit that is no merge. `first-parent`: what the branch itself says, merges
    against what was there before them. `merges`: the merges among those, as pull requests leave
    them.
    """

    PLAIN = "plain"
    FIRST_PARENT = "first-parent"
    MERGES = "merges"


_WALKS = {
    History.PLAIN: ("--no-merges",),
    History.FIRST_PARENT: ("--first-parent",),
    History.MERGES: ("--first-parent", "--merges"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which part of a history is asked for.

    `commit_range` as git writes one (`A..B`, or a commit with all before it). `since` and
    `until` are moments of committing, both included. Of what is left, the newest `limit`.
    """

    history: History = History.PLAIN
    commit_range: str = "HEAD"
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100

    def admits(self, moment: datetime) -> bool:
        """Tell whether a commit of that time lies within the dates."""
        return not (
            (self.since is not None and moment < self.since)
            or (self.until is not None and moment > self.until)
        )


def clone_folder(repository: str) -> Path:
    """Return the folder that a path or a `file://` URL names.

    Raises RepositoryMissingError where there is no such folder.
    """
    parts = urlsplit(repository)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        folder = Path(unquote(parts.path))
    else:
        folder = Path(repository)
    if not folder.is_dir():
        raise RepositoryMissingError(
            f"expected the folder of a local clone, got {repository:.200}: there is none"
        )
    return folder


def read_history(folder: Path, selection: Selection) -> Iterator[GroundTruthRecord]:
    """Yield the selected commits of a clone as records, oldest first as git orders them.

    The earliest commits of a shallow clone are left out: what they changed is not there. Raises
    RepositoryError where git cannot read the clone, or the range names nothing in it.
    """
    clone = GitClone(folder)
    commits = _select(clone, selection)
    if not commits:
        return
    empty_tree = _text(clone, "hash-object", "-t", "tree", "--stdin")
    for commit in _describe(clone, commits):
        yield _record(clone, commit, empty_tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    id: str
    parent: str | None
    moment: datetime
    author: str
    message: str


def _select(clone: GitClone, selection: Selection) -> list[str]:
    if selection.commit_range.startswith("-"):
        raise RepositoryError(f"expected a commit range, got {selection.commit_range:.100}")
    walk = ("rev-list", "--timestamp", *_WALKS[selection.history])
    lines = _text(clone, *walk, selection.commit_range, "--").splitlines()
    cut_off = _find_cut_off(clone)
    found = [
        commit
        for moment, commit in (line.split(" ", 1) for line in lines)
        if commit not in cut_off and selection.admits(_moment(moment))
    ]
    return found[: selection.limit][::-1]


def _find_cut_off(clone: GitClone) -> set[str]:
    if _text(clone, "rev-parse", "--is-shallow-repository") != "true":
        return set()
    path = _text(clone, "rev-parse", "--path-format=absolute", "--git-path", "shallow")
    return set(Path(path).read_text(encoding="ascii").split())


def _describe(clone: GitClone, commits: list[str]) -> Iterator[_Commit]:
    given = "".join(f"{commit}\n" for commit in commits).encode()
    arguments = ("log", "--stdin", "--no-walk=unsorted", "-z", "--no-notes", f"--format={_FIELDS}")
    fields = clone.run(*arguments, given=given).data.split(b"\0")
    for at in range(0, len(fields) - 1, _FIELD_COUNT):
        commit, parents, moment, author, message = map(decode, fields[at : at + _FIELD_COUNT])
        yield _Commit(
            id=commit,
            parent=parents.split(" ")[0] or None,
            moment=_moment(moment),
            author=author,
            message=message,
        )


def _record(clone: GitClone, commit: _Commit, empty_tree: str) -> GroundTruthRecord:
    trees = (commit.parent or empty_tree, commit.id)
    names = clone.run(*_DIFF, "-z", "--name-only", *trees).data.split(b"\0")[:-1]
    patch = clone.run(*_DIFF, *_PATCH, *trees, limit=MAX_DIFF_BYTES)
    return make_record(
        id=commit.id,
        commit=commit.id,
        message=commit.message,
        diff=decode(patch.data),
        unread_diff_bytes=patch.unread_bytes,
        paths=[decode(name) for name in names],
        timestamp=commit.moment,
        labels=(),
        author=commit.author,
    )


def _text(clone: GitClone, *arguments: str) -> str:
    return decode(clone.run(*arguments).data).strip()


def _moment(seconds: str) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
