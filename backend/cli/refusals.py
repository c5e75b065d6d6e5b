"""How commands of the service end where it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from backend.errors import BackendError
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo

T = TypeVar("T")


def end_on_refusal(action: Callable[[], T]) -> T:
    """Return what `action` returns; say a refusal and end the command with exit code 5."""
    try:
        return action()
    except BackendError as error:
        for line in f"error ({error.code}): {error}".split("\n"):
            echo(line, err=True)
        raise CommandEndedError(ExitCode.INVALID) from error
