"""Runs git on a local clone: read only, without network, whatever is configured there."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from theatre.verification.errors import RepositoryError
from theatre.verification.records import decode

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
