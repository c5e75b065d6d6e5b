"""How commands of the service end after an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from backend.errors import BackendError
from theatre.cli.exits import CommandEndedError, ExitCode
from theatre.cli.output import echo

T = TypeVar("T")


def end_on_refusal(action: Callable[[], T]) -> T:
    """Return what `action` returns; print an error of the service and end with exit code 5."""
    try:
        return action()
    except BackendError as error:
        for line in f"error ({error.code}): {error}".split("\n"):
            echo(line, err=True)
        raise CommandEndedError(ExitCode.INVALID) from error
